package replay_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"auditor/embedded/clickhouse/chtest"
	"auditor/event"
	"auditor/event/reject"
	"auditor/ingest"
	"auditor/ingest/replay"
	"auditor/queries"
	"auditor/queries/querytest"
)

func TestMain(m *testing.M) { chtest.Main(m) }

const (
	topic = "task-events"
	good  = `{"task_id":"t1","business_key":"k","outcome":"succeeded","time":"2026-11-02T11:00:00Z"}`
	other = `{"task_id":"t1","business_key":"k","outcome":"succeeded","time":"2026-11-02T11:00:01Z"}`
	bad   = `{"task_id":"t1"`
)

var arrivedAt = time.Date(2026, 11, 2, 11, 0, 0, 0, time.UTC)

// stage is a store with rejects, a broker, and a replayer between them.
type stage struct {
	*replay.Replayer
	t       *testing.T
	store   *queries.Store
	cluster *kfake.Cluster
	decoder *event.Decoder
	rejects []event.Position
}

// newStage has a reject of each value, at the offsets from 0 on of partition 1 of 3.
func newStage(t *testing.T, values ...string) *stage {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	k := ingest.DefaultKafka()
	k.Brokers = cluster.ListenAddrs()
	producer, err := ingest.NewProducer(k, topic, "elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(producer.Close)
	decoder, err := event.NewDecoder(event.DecoderConfig{})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, store: querytest.Store(t), cluster: cluster, decoder: decoder}
	s.Replayer = &replay.Replayer{Store: s.store, Kafka: producer, Decoder: decoder}
	b := event.Batch{Topic: topic, Partition: 1, Last: int64(len(values)) - 1, Records: len(values), Time: arrivedAt}
	for i, v := range values {
		at := event.Position{Topic: topic, Partition: 1, Offset: int64(i), Index: 2}
		s.rejects = append(s.rejects, at)
		b.Rejects = append(b.Rejects, event.Reject{Position: at, KafkaTime: arrivedAt, Reason: event.ReasonNotJSON, Detail: "no", Key: []byte("key"), Raw: []byte(v),
			Headers: []event.Header{{Key: "trace", Value: []byte("\xff")}}})
	}
	if err := s.store.InsertBatch(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return s
}

// replay carries out an order on some rejects, and gives the results in words.
func (s *stage) replay(o reject.Order, at ...event.Position) ([]string, error) {
	o.By = "ada"
	var said []string
	err := s.Replay(s.t.Context(), at, o, func(r reject.Result) {
		line := fmt.Sprintf("%d %s", r.Position.Offset, r.Outcome)
		if r.To.Topic != "" {
			line += " " + event.FormatPosition(r.To)
		}
		if refusal := new(reject.Refusal); errors.As(r.Err, &refusal) {
			line += " " + string(refusal.Cause)
		}
		said = append(said, line)
	})
	return said, err
}

// says replays and compares with what is expected; the order must not end with an error.
func (s *stage) says(o reject.Order, at []event.Position, want ...string) {
	s.t.Helper()
	got, err := s.replay(o, at...)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		s.t.Errorf("%s (%v)", diff, err)
	}
}

func (s *stage) state(i int) reject.State {
	s.t.Helper()
	r, err := s.store.Pages().Reject(s.t.Context(), s.rejects[i])
	if err != nil {
		s.t.Fatal(err)
	}
	return r.State
}

// sent gives the records of the topic, n of them, in order.
func (s *stage) sent(n int) []*kgo.Record {
	s.t.Helper()
	consumer, err := kgo.NewClient(kgo.SeedBrokers(s.cluster.ListenAddrs()...), kgo.ConsumeTopics(topic, "elsewhere"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer consumer.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	var all []*kgo.Record
	for len(all) < n {
		fetched := consumer.PollFetches(ctx)
		if err := fetched.Err(); err != nil {
			s.t.Fatal(err)
		}
		all = append(all, fetched.Records()...)
	}
	if len(all) != n {
		s.t.Errorf("%d records were sent, want %d", len(all), n)
	}
	return all
}

// ingests stores what was sent to the topic, as ingest does.
func (s *stage) ingests(records ...*kgo.Record) {
	s.t.Helper()
	for _, r := range records {
		in := event.Record{Position: event.Position{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset}, Time: r.Timestamp, Key: r.Key, Value: r.Value}
		events, rejects := s.decoder.Decode(in)
		if err := s.store.InsertBatch(s.t.Context(), event.Batch{Topic: r.Topic, Partition: r.Partition, First: r.Offset, Last: r.Offset, Records: 1, Time: r.Timestamp, Events: events, Rejects: rejects}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// A record goes back to the partition that it came from, with its key and headers and one more that names its origin,
// once; and only if it is an event by now.
func TestReplay(t *testing.T) {
	s := newStage(t, good, bad, "\x00\xff<script>", good)
	s.DryRun = true
	s.says(reject.Order{}, s.rejects, "1 refused no_event", "2 refused no_event", "0 would_send task-events:1:0:0", "3 would_send task-events:1:0:0")
	s.DryRun = false
	s.says(reject.Order{}, s.rejects[:3], "1 refused no_event", "2 refused no_event", "0 sent task-events:1:0:0")
	s.says(reject.Order{}, s.rejects[:1], "0 refused replayed")
	s.says(reject.Order{Value: []byte(good)}, s.rejects[1:2], "1 sent task-events:1:1:0")
	s.says(reject.Order{Topic: "elsewhere"}, s.rejects[3:], "3 failed")
	s.says(reject.Order{}, []event.Position{{Topic: topic, Partition: 1, Offset: 9}}, "9 refused not_one")
	records := s.sent(2)
	for i, r := range records {
		want := []kgo.RecordHeader{{Key: "trace", Value: []byte("\xff")}, {Key: "auditor-reject", Value: []byte(fmt.Sprintf("task-events:1:%d:2", i))}}
		if diff := cmp.Diff(want, r.Headers); diff != "" || string(r.Key) != "key" || r.Partition != 1 || string(r.Value) != good || time.Since(r.Timestamp) > time.Minute {
			t.Errorf("%+v %s", r, diff)
		}
	}
	s.ingests(records...)
	events, err := s.store.Pages().TaskEvents(t.Context(), "t1", 10)
	if err != nil || len(events) != 2 || events[0].ID != events[1].ID {
		t.Errorf("the same bytes are not the same event: %v, %v", events, err)
	}
	for i, want := range []reject.State{reject.Replayed, reject.Replayed, reject.Open, reject.Open} {
		if got := s.state(i); got != want {
			t.Errorf("reject %d is %s, want %s", i, got, want)
		}
	}
}

func TestLogOfAReplay(t *testing.T) {
	s := newStage(t, bad)
	s.says(reject.Order{Value: []byte(good), Note: "mended"}, s.rejects, "0 sent task-events:1:0:0")
	r, err := s.store.Pages().Reject(t.Context(), s.rejects[0])
	if err != nil || len(r.Log) != 2 {
		t.Fatal(r.Log, err)
	}
	for i, e := range r.Log {
		want := reject.Entry{Position: s.rejects[0], KafkaTime: arrivedAt, Time: e.Time, Action: []reject.Action{reject.Intended, reject.Sent}[i], Attempt: r.Log[0].Attempt,
			By: "ada", Note: "mended", To: event.Position{Topic: topic, Partition: 1}, Mended: true, Digest: r.Log[0].Digest, EventIDs: r.Log[0].EventIDs}
		if diff := cmp.Diff(want, e); diff != "" || len(e.EventIDs) != 1 {
			t.Error(diff)
		}
	}
}

// onProduce answers every produce request with an error of its own, or lets it through where the function gives none.
func (s *stage) onProduce(f func() (int16, error)) {
	s.cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		s.cluster.KeepControl()
		code, err := f()
		if code == 0 && err == nil {
			return nil, nil, false
		}
		in := request.(*kmsg.ProduceRequest)
		resp := request.ResponseKind().(*kmsg.ProduceResponse)
		resp.Topics = []kmsg.ProduceResponseTopic{{Topic: topic, Partitions: []kmsg.ProduceResponseTopicPartition{{Partition: in.Topics[0].Partitions[0].Partition, ErrorCode: code}}}}
		return resp, err, true
	})
}

// A replay whose outcome is unknown is not made again unasked, and is not made again at all once the store shows that it arrived.
func TestUnknownOutcome(t *testing.T) {
	s := newStage(t, bad, good)
	var broken atomic.Bool
	broken.Store(true)
	s.onProduce(func() (int16, error) {
		if broken.Load() {
			return 0, errors.New("the connection breaks")
		}
		return 0, nil
	})
	said, err := s.replay(reject.Order{Value: []byte(good)}, s.rejects[0])
	if diff := cmp.Diff([]string{"0 unknown"}, said); diff != "" || !errors.Is(err, replay.ErrStopped) {
		t.Fatal(diff, err)
	}
	broken.Store(false)
	if state := s.state(0); state != reject.Unknown {
		t.Errorf("it is %s", state)
	}
	s.says(reject.Order{Value: []byte(good)}, s.rejects[:1], "0 refused unknown_outcome")
	s.says(reject.Order{Value: []byte(other), Again: true}, s.rejects[:1], "0 refused other_event")
	// It did arrive, although nobody was told: here another replay of the same event stands for it.
	s.says(reject.Order{}, s.rejects[1:], "1 sent task-events:1:0:0")
	s.ingests(s.sent(1)...)
	s.DryRun = true
	s.says(reject.Order{Value: []byte(good), Again: true}, s.rejects[:1], "0 arrived task-events:1:0:0")
	if state := s.state(0); state != reject.Unknown {
		t.Errorf("a dry run made it %s", state)
	}
	s.DryRun = false
	s.says(reject.Order{Value: []byte(good), Again: true}, s.rejects[:1], "0 arrived task-events:1:0:0")
	s.says(reject.Order{Value: []byte(good)}, s.rejects[:1], "0 refused replayed")
	s.sent(1)
}

func TestUnknownOutcomeIsSentAgainWhenAsked(t *testing.T) {
	s := newStage(t, good)
	codes := make(chan int16, 2)
	s.onProduce(func() (int16, error) { return <-codes, nil })
	codes <- kerr.RequestTimedOut.Code
	codes <- 0
	if said, err := s.replay(reject.Order{}, s.rejects[0]); err == nil {
		t.Fatal(said)
	}
	s.says(reject.Order{Again: true}, s.rejects, "0 sent task-events:1:0:0")
	if state := s.state(0); state != reject.Replayed {
		t.Errorf("it is %s", state)
	}
}

// What a broker refuses is open again, and the next one is tried; when nothing goes through the rest is left.
func TestFailures(t *testing.T) {
	s := newStage(t, good, good, good, good, good, good)
	codes := make(chan int16, 3)
	s.onProduce(func() (int16, error) { return <-codes, nil })
	codes <- kerr.MessageTooLarge.Code
	codes <- 0
	codes <- kerr.MessageTooLarge.Code
	s.says(reject.Order{}, s.rejects[:3], "0 failed", "1 sent task-events:1:0:0", "2 failed")
	for range 3 {
		codes <- kerr.TopicAuthorizationFailed.Code
	}
	said, err := s.replay(reject.Order{}, s.rejects...)
	if diff := cmp.Diff([]string{"1 refused replayed", "0 failed", "2 failed", "3 failed", "4 failed", "5 failed"}, said); diff != "" || !errors.Is(err, replay.ErrStopped) || !strings.Contains(err.Error(), "3 failures") {
		t.Error(diff, err)
	}
	for i := range s.rejects {
		if state := s.state(i); (state == reject.Replayed) != (i == 1) || state == reject.Unknown {
			t.Errorf("reject %d is %s", i, state)
		}
	}
	s.cluster.Close()
	if said, err := s.replay(reject.Order{}, s.rejects[2:]...); len(said) != 3 || !errors.Is(err, replay.ErrStopped) {
		t.Errorf("without a broker: %v, %v", said, err)
	}
}

// However many replay the same rejects at the same time, each is sent once at most, and none is left in doubt.
func TestReplaysAtTheSameTime(t *testing.T) {
	const people = 8
	s := newStage(t, good, good, good)
	var wg sync.WaitGroup
	for range people {
		wg.Go(func() {
			if _, err := s.replay(reject.Order{}, s.rejects...); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	sent := 0
	for i := range s.rejects {
		switch state := s.state(i); state {
		case reject.Replayed:
			sent++
		case reject.Open:
		default:
			t.Errorf("reject %d is %s", i, state)
		}
	}
	s.sent(sent)
}

// deadStore dies after it took the intents, as a process that is killed.
type deadStore struct{ *queries.Store }

func (d deadStore) LogRejects(ctx context.Context, entries []reject.Entry) error {
	if entries[0].Action != reject.Intended {
		return errors.New("killed")
	}
	return d.Store.LogRejects(ctx, entries)
}

// What was sent and not written down any more is unknown, and said to be so.
func TestOutcomeThatIsNotWrittenDown(t *testing.T) {
	s := newStage(t, good)
	s.Store = deadStore{s.store}
	said, err := s.replay(reject.Order{}, s.rejects...)
	if diff := cmp.Diff([]string{"0 sent task-events:1:0:0"}, said); diff != "" || err == nil || !strings.Contains(err.Error(), "could not be written down") {
		t.Error(diff, err)
	}
	s.Store = s.store
	if state := s.state(0); state != reject.Unknown {
		t.Errorf("it is %s", state)
	}
	s.says(reject.Order{}, s.rejects, "0 refused unknown_outcome")
	s.ingests(s.sent(1)...)
	s.says(reject.Order{}, s.rejects, "0 arrived task-events:1:0:0")
}

func TestStoppedReplayLeavesTheRestOpen(t *testing.T) {
	s := newStage(t, good, good, good)
	s.Rate = 3
	ctx, cancel := context.WithCancel(t.Context())
	s.onProduce(func() (int16, error) { cancel(); return 0, nil }) // during the first
	var said []string
	err := s.Replay(ctx, s.rejects, reject.Order{}, func(r reject.Result) { said = append(said, string(r.Outcome)) })
	if diff := cmp.Diff([]string{"sent", "failed", "failed"}, said); diff != "" || !errors.Is(err, context.Canceled) {
		t.Error(diff, err)
	}
	for i, want := range []reject.State{reject.Replayed, reject.Open, reject.Open} {
		if got := s.state(i); got != want {
			t.Errorf("reject %d is %s, want %s", i, got, want)
		}
	}
}
