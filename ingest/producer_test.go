package ingest

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"auditor/embedded/kafka/testbroker"
	"auditor/event"
	"auditor/internal/access"
)

var sentAt = time.Date(2026, 11, 2, 12, 0, 0, 123e6, time.UTC)

func openProducer(t *testing.T, k Kafka, topics ...string) *Producer {
	t.Helper()
	p, err := NewProducer(k, topics...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func recordOf(partition int32, value string) event.Record {
	return event.Record{Position: event.Position{Topic: topic, Partition: partition}, Time: sentAt, Value: []byte(value)}
}

// read gives the records of the topic, as another client reads them.
func read(t *testing.T, c *kfake.Cluster, n int, opts ...kgo.Opt) []*kgo.Record {
	t.Helper()
	consumer, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all []*kgo.Record
	for len(all) < n {
		fetched := consumer.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			t.Fatal(err)
		}
		all = append(all, fetched.Records()...)
	}
	return all
}

// A record arrives as it was given, in the partition that was chosen, under the security settings of ingest.
func TestProducerSendsWhatItIsGiven(t *testing.T) {
	cert, ca := certificate(t)
	c := newCluster(t, 3, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "auditor", "s3cret"), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}))
	k := testConfig(c).Kafka
	k.TLS = access.TLS{Enabled: true, CAFile: ca}
	k.SASL = SASL{Mechanism: "SCRAM-SHA-512", Username: "auditor", Password: "s3cret"}
	p := openProducer(t, k, topic)
	noise := make([]byte, 900<<10)
	for i := range noise {
		noise[i] = byte(rand.N(256))
	}
	sent := []event.Record{
		{Value: []byte("\x00\xff<script>\n"), Key: []byte("k\xff"), Headers: []event.Header{{Key: "a", Value: []byte("\xff")}, {Key: "a"}, {Key: "b", Value: []byte{}}}},
		{Value: noise},
		{Value: bytes.Repeat([]byte("{}"), 2<<20), Key: []byte("large, but not once it is compressed")},
		{Value: []byte{}},
	}
	for i, r := range sent {
		r.Position, r.Time = event.Position{Topic: topic, Partition: 2}, sentAt
		end, err := p.End(t.Context(), topic, 2)
		if err != nil || end != int64(i) {
			t.Fatalf("the partition ends at %d, %v", end, err)
		}
		offset, err := p.Send(t.Context(), r)
		if err != nil || offset != int64(i) {
			t.Fatalf("record %d is at offset %d, %v", i, offset, err)
		}
	}
	auth := kgo.SASL(scram.Auth{User: "auditor", Pass: "s3cret"}.AsSha512Mechanism())
	for i, r := range read(t, c, len(sent), auth, kgo.DialTLSConfig(&tls.Config{InsecureSkipVerify: true})) { //nolint:gosec // the reader is not what is tested
		var headers []event.Header
		for _, h := range r.Headers {
			headers = append(headers, event.Header{Key: h.Key, Value: h.Value})
		}
		got := event.Record{Value: r.Value, Key: r.Key, Headers: headers}
		if diff := cmp.Diff(sent[i], got, emptyIsNil); diff != "" || r.Partition != 2 || !r.Timestamp.Equal(sentAt) || len(sent[i].Key) == 0 && r.Key != nil {
			t.Errorf("record %d in partition %d at %s: %.500s", i, r.Partition, r.Timestamp, diff)
		}
	}
}

var emptyIsNil = cmp.Transformer("text", func(b []byte) string { return string(b) })

// Whether a record may be in Kafka is what a replay rests on.
func TestProducerTellsRefusedFromUnknown(t *testing.T) {
	c := newCluster(t, 1)
	var answer atomic.Int32
	c.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		code := int16(answer.Load())
		if code == 0 {
			return nil, errors.New("the connection breaks"), true
		}
		resp := request.ResponseKind().(*kmsg.ProduceResponse)
		resp.Topics = []kmsg.ProduceResponseTopic{{Topic: topic, Partitions: []kmsg.ProduceResponseTopicPartition{{ErrorCode: code}}}}
		return resp, nil, true
	})
	p := openProducer(t, testConfig(c).Kafka, topic)
	p.patience = 0
	for _, code := range []*kerr.Error{kerr.MessageTooLarge, kerr.TopicAuthorizationFailed, kerr.NotEnoughReplicas, kerr.InvalidRecord} {
		answer.Store(int32(code.Code))
		if _, err := p.Send(t.Context(), recordOf(0, "x")); !errors.As(err, new(*NotSentError)) {
			t.Errorf("%s: %v, must be surely not sent", code.Message, err)
		}
	}
	for _, code := range []*kerr.Error{kerr.UnknownServerError, kerr.RequestTimedOut, kerr.NetworkException, kerr.NotEnoughReplicasAfterAppend,
		kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition, kerr.KafkaStorageError, {Message: "broken"}} {
		answer.Store(int32(code.Code))
		if _, err := p.Send(t.Context(), recordOf(0, "x")); err == nil || errors.As(err, new(*NotSentError)) {
			t.Errorf("%s: %v, must leave it open", code.Message, err)
		}
	}
	away := testConfig(c).Kafka
	c.Close()
	if _, err := openProducer(t, away, topic).End(t.Context(), topic, 0); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("no broker: %v, must say that the connection was refused", err)
	}
	if _, err := openProducer(t, away, topic).Send(t.Context(), recordOf(0, "x")); !errors.As(err, new(*NotSentError)) {
		t.Errorf("no broker: %v, must be surely not sent", err)
	}
	many := recordOf(0, "x")
	many.Headers = make([]event.Header, maxHeaders+1)
	if _, err := p.Send(t.Context(), many); !errors.As(err, new(*NotSentError)) {
		t.Errorf("more headers than ingest reads: %v", err)
	}
}

// Too few replicas are waited out, without a second record.
func TestProducerWaitsForReplicas(t *testing.T) {
	c := newCluster(t, 1)
	var refusals atomic.Int32
	c.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		if refusals.Add(1) > 3 {
			return nil, nil, false
		}
		resp := request.ResponseKind().(*kmsg.ProduceResponse)
		resp.Topics = []kmsg.ProduceResponseTopic{{Topic: topic, Partitions: []kmsg.ProduceResponseTopicPartition{{ErrorCode: kerr.NotEnoughReplicas.Code}}}}
		return resp, nil, true
	})
	offset, err := openProducer(t, testConfig(c).Kafka, topic).Send(t.Context(), recordOf(0, "x"))
	if err != nil || offset != 0 || len(read(t, c, 1)) != 1 {
		t.Errorf("offset %d, %v", offset, err)
	}
}

func TestProducerOfATopicThatIsNotThere(t *testing.T) {
	c := newCluster(t, 1)
	p := openProducer(t, testConfig(c).Kafka, "gone")
	if _, err := p.End(t.Context(), "gone", 0); err == nil {
		t.Error("it has an end")
	}
	if _, err := p.Partition(t.Context(), "gone", nil); err == nil {
		t.Error("it has partitions")
	}
	if _, err := openProducer(t, testConfig(c).Kafka, topic).End(t.Context(), topic, 1); err == nil {
		t.Error("a partition that is not there has an end")
	}
}

// The partition of a key is the one that other clients choose by default.
func TestProducerPartitionsByKey(t *testing.T) {
	c := newCluster(t, 7)
	producer, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	p := openProducer(t, testConfig(c).Kafka, topic)
	for _, key := range []string{"a", "settle_order:42", "\xff", "receipt:9", ""} {
		got, err := p.Partition(t.Context(), topic, []byte(key))
		if err != nil {
			t.Fatal(err)
		}
		want := int32(0)
		if key != "" {
			r, err := producer.ProduceSync(t.Context(), &kgo.Record{Key: []byte(key), Value: []byte("x")}).First()
			if err != nil {
				t.Fatal(err)
			}
			want = r.Partition
		}
		if got != want {
			t.Errorf("%q goes to partition %d, others send it to %d", key, got, want)
		}
	}
}

// What a producer writes on each server is what ingest reads there, in the partition and at the offset that were told.
func TestServersTakeWhatIsProduced(t *testing.T) {
	onEach(t, 2, func(r *trial) {
		p := openProducer(r.T, r.config.Kafka, r.topic)
		noise := make([]byte, 2<<20)
		for i := range noise {
			noise[i] = byte(rand.N(256))
		}
		now := time.Now().Truncate(time.Millisecond) // or retention may delete it before it is read
		for i, value := range []string{"e", "x", "\x00\xff", strings.Repeat("large, but not once it is compressed; ", 100_000)} {
			partition := int32(i % 2)
			end, err := p.End(r.Context(), r.topic, partition)
			r.must(err)
			offset, err := p.Send(r.Context(), event.Record{Position: event.Position{Topic: r.topic, Partition: partition}, Time: now, Key: []byte("k"), Value: []byte(value),
				Headers: []event.Header{{Key: "h", Value: []byte("\xff")}}})
			if err != nil || offset != end || offset != int64(i/2) {
				r.Fatalf("record %d is at offset %d, and the partition ended at %d (%v)", i, offset, end, err)
			}
		}
		if _, err := p.Send(r.Context(), event.Record{Position: event.Position{Topic: r.topic}, Time: sentAt, Value: noise}); !errors.As(err, new(*NotSentError)) {
			r.Errorf("more than the server takes: %v, must be surely not sent", err)
		}
		d := &recorder{}
		i := r.run(r.wire(r.store, d))
		r.readAll()
		i.stop()
		d.check(r)
	})
}

// Who may not write is told so, and nothing is sent.
func TestProducerWithoutTheRight(t *testing.T) {
	onApache(t, 1, nil, func(r *trial) {
		k := r.config.Kafka
		broker := apache(r.T)
		k.Brokers = []string{broker.AddrOf(testbroker.SASL)}
		k.SASL = SASL{Mechanism: "SCRAM-SHA-512", Username: stranger, Password: password}
		p := openProducer(r.T, k, r.topic)
		if _, err := p.End(r.Context(), r.topic, 0); err == nil {
			r.Error("a stranger is told where the partition ends")
		}
		if _, err := p.Send(r.Context(), event.Record{Position: event.Position{Topic: r.topic}, Time: sentAt, Value: []byte("x")}); !errors.As(err, new(*NotSentError)) {
			r.Errorf("%v, must be surely not sent", err)
		}
	})
}
