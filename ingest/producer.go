package ingest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"

	"auditor/event"
)

// Producer writes records to Kafka, one by one, under the security settings that Ingester reads by. Each is acknowledged
// by all in-sync replicas. It connects when it is first used, and may be used by many goroutines at once.
type Producer struct {
	client   *client
	patience time.Duration // how long what passes by itself is waited out
}

// NotSentError says that a record is surely not in Kafka, and will not be. After any other error of Send it may be.
type NotSentError struct{ Err error }

// Error says why.
func (e *NotSentError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *NotSentError) Unwrap() error { return e.Err }

// NewProducer makes a producer for some topics. The caller closes it.
func NewProducer(k Kafka, topics ...string) (*Producer, error) {
	k.Topics = topics
	c, err := newClient(k)
	if err != nil {
		return nil, err
	}
	return &Producer{c, 10 * time.Second}, nil
}

// Close ends the connections, whatever waits on them.
func (p *Producer) Close() { p.client.close() }

// End gives an offset before which the next record of a partition will not be.
func (p *Producer) End(ctx context.Context, topic string, partition int32) (int64, error) {
	n, err := p.partitions(ctx, topic)
	if err != nil {
		return 0, err
	}
	if int(partition) >= n {
		return 0, fmt.Errorf("topic %s has %d partitions, and none with the number %d", topic, n, partition)
	}
	var end int64
	err = p.patiently(ctx, func() (err error) {
		_, end, err = p.client.bounds(ctx, topic, partition)
		return err
	}, passing)
	return end, err
}

func (p *Producer) partitions(ctx context.Context, topic string) (int, error) {
	counts, err := p.client.partitions(ctx)
	if err == nil && counts[topic] == 0 {
		err = fmt.Errorf("there is no topic %s", topic)
	}
	return counts[topic], err
}

// Partition chooses the partition of a record by its key, as most Kafka clients do; without a key it is the first.
func (p *Producer) Partition(ctx context.Context, topic string, key []byte) (int32, error) {
	n, err := p.partitions(ctx, topic)
	if err != nil || len(key) == 0 {
		return 0, err
	}
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return int32(kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: key}, numbers...)), nil
}

// Send writes a record to its partition, under its time, and gives its offset. It is sent once: again only where the first
// attempt was refused for what passes by itself, as that there are too few replicas does.
func (p *Producer) Send(ctx context.Context, r event.Record) (int64, error) {
	if len(r.Headers) > maxHeaders {
		return 0, &NotSentError{fmt.Errorf("the record has %d headers, and ingest reads at most %d", len(r.Headers), maxHeaders)}
	}
	record := kafka.Record{Time: r.Time}
	for _, h := range r.Headers {
		record.Headers = append(record.Headers, kafka.Header{Key: h.Key, Value: h.Value})
	}
	var offset int64
	err := p.patiently(ctx, func() error {
		record.Value, record.Key = kafka.NewBytes(r.Value), nil
		if len(r.Key) > 0 { // the store does not tell an empty key from none
			record.Key = kafka.NewBytes(r.Key)
		}
		resp, err := p.client.Produce(ctx, &kafka.ProduceRequest{
			Topic:        r.Topic,
			Partition:    int(r.Partition),
			RequiredAcks: kafka.RequireAll,
			Records:      kafka.NewRecordReader(record),
			Compression:  kafka.Lz4, // what came in compressed may be too large without
		})
		if err == nil {
			offset, err = resp.BaseOffset, resp.Error
		}
		return err
	}, func(err error) bool { return refusedRecord(err) && passing(err) })
	if err != nil && refusedRecord(err) {
		err = &NotSentError{err}
	}
	return offset, err
}

// patiently does something again while its error is one that passes.
func (p *Producer) patiently(ctx context.Context, do func() error, passes func(error) bool) error {
	limit := time.Now().Add(p.patience)
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := do()
		if err == nil || !passes(err) || time.Now().After(limit) || !pause(ctx, wait) {
			return err
		}
	}
}

// passing reports whether a broker says that the same request may succeed a moment later.
func passing(err error) bool {
	var code kafka.Error
	return errors.As(err, &code) && code.Temporary()
}

// undecided are the brokers' errors after which a record may be in the log. Those of a partition that is not the broker's, or of
// which it can't use the log, come also where the broker lost it while it waited for the other replicas, which may have the record.
var undecided = []kafka.Error{kafka.Unknown, kafka.RequestTimedOut, kafka.NetworkException, kafka.NotEnoughReplicasAfterAppend,
	kafka.NotLeaderForPartition, kafka.UnknownTopicOrPartition, kafka.KafkaStorageError}

// refusedRecord reports whether an error says that a record did not get into the log: a broker refused it, or was not
// reached at all.
func refusedRecord(err error) bool {
	var code kafka.Error
	if errors.As(err, &code) {
		return !slices.Contains(undecided, code)
	}
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial" ||
		errors.As(err, new(*protocol.TopicError)) || errors.As(err, new(*protocol.TopicPartitionError)) // it knew no broker to send it to
}
