package emit

import (
	"context"
	"errors"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go"
	"go.uber.org/goleak"

	"auditor/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// full is an event in which every field is told.
func full() event.Event {
	yes, no := true, false
	at := time.Date(2026, 3, 4, 5, 6, 7, 890123000, time.UTC)
	return event.Event{
		ID: "e1", Type: event.Retried, Time: at, Namespace: "prod", System: "shop", Task: "mail.send", TaskID: "t1",
		BusinessKey: "receipt:1", ExecutionID: "x1", Retries: 2, MaxRetries: 5, RetryIn: 30, Queue: "mail", Worker: "w1@host-a",
		PID: 42, Redelivered: &yes, AcksLate: &no,
		Effect: &event.Effect{Name: "email.send", Target: "a@example.com", IdempotencyKey: "k", Deduplicated: true, Amount: "12.50", Currency: "EUR"},
		Error:  &event.Error{Type: "SMTPError", Message: "no", Permanent: true},
		Skip:   &event.Skip{Reason: "locked", Holder: "t0"},
		ETA:    at.Add(time.Minute), Expires: at.Add(time.Hour), Deadline: at.Add(2 * time.Hour), FirstSent: at.Add(-time.Minute),
		Runtime: 1.25, Requeue: true, Terminated: true, Expired: true, Active: 3, RequestID: "r", RootID: "root", ParentID: "parent",
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", ArgsDigest: "d", Emitter: "w1", Seq: 7,
		Attributes: `{"colour":"red"}`,
	}
}

func bare() event.Event {
	return event.Event{ID: "e2", Type: event.Started, Time: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), TaskID: "t1",
		Retries: event.Unknown, MaxRetries: event.Unknown, RetryIn: event.Unknown, Active: event.Unknown, Seq: event.Unknown}
}

func TestDecoderReadsWhatIsEmitted(t *testing.T) {
	v := reflect.ValueOf(full())
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if v.Field(i).IsZero() && name != "Position" && name != "KafkaTime" {
			t.Fatalf("the full event tells no %s", name)
		}
	}
	decoder, err := event.NewDecoder(event.DecoderConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []event.Event{full(), bare()} {
		value, err := Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		want.KafkaTime = want.Time
		got, rejects := decoder.Decode(event.Record{Time: want.Time, Value: value})
		if len(rejects) > 0 {
			t.Fatalf("rejected %s: %s", value, rejects[0].Detail)
		}
		if diff := cmp.Diff([]event.Event{want}, got); diff != "" {
			t.Errorf("decoded otherwise (-emitted +decoded):\n%s", diff)
		}
	}
}

// broker stands in for Kafka: it fails as often as it is told to, and then takes messages.
type broker struct {
	mu     sync.Mutex
	fails  []error
	taken  []kafka.Message
	open   chan struct{} // nil, or closed once the broker takes messages
	closed bool
}

func (b *broker) WriteMessages(ctx context.Context, messages ...kafka.Message) error {
	if b.open != nil {
		select {
		case <-b.open:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.fails) > 0 {
		err := b.fails[0]
		b.fails = b.fails[1:]
		if each, ok := err.(kafka.WriteErrors); ok {
			for i, e := range each {
				if e == nil {
					b.taken = append(b.taken, messages[i])
				}
			}
		}
		return err
	}
	b.taken = append(b.taken, messages...)
	return nil
}

func (b *broker) Close() error {
	b.closed = true
	return nil
}

func TestEverythingArrivesInOrder(t *testing.T) {
	b := &broker{}
	c := newClient(b, Config{Buffer: 8})
	for i := range 100 {
		e := bare()
		e.BusinessKey = strconv.Itoa(i)
		if err := c.Emit(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.taken) != 100 {
		t.Fatalf("flushed, and Kafka has %d events, want 100", len(b.taken))
	}
	for i, m := range b.taken {
		if string(m.Key) != strconv.Itoa(i) {
			t.Fatalf("message %d has key %s", i, m.Key)
		}
	}
	if err := c.Close(t.Context()); err != nil || !b.closed {
		t.Errorf("close: %v, closed %v", err, b.closed)
	}
	if err := c.Emit(t.Context(), bare()); !errors.Is(err, ErrClosed) {
		t.Errorf("emit after close: %v, want ErrClosed", err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func TestOnlyWhatFailedIsSentAgain(t *testing.T) {
	b := &broker{open: make(chan struct{}), fails: []error{kafka.WriteErrors{nil}, kafka.WriteErrors{kafka.LeaderNotAvailable, nil}}}
	c := newClient(b, Config{})
	emit := func(id string) {
		e := bare()
		e.BusinessKey = id
		if err := c.Emit(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	emit("first")
	for len(c.queue) > 0 { // the first is on its way alone, so that the others go together
		time.Sleep(time.Millisecond)
	}
	emit("second")
	emit("third")
	close(b.open)
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, m := range b.taken {
		keys = append(keys, string(m.Key))
	}
	if diff := cmp.Diff([]string{"first", "third", "second"}, keys); diff != "" {
		t.Errorf("Kafka has (-want +got):\n%s", diff)
	}
}

func TestFullBufferTellsTheCaller(t *testing.T) {
	b := &broker{open: make(chan struct{})}
	c := newClient(b, Config{Buffer: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var err error
	for range maxBatch + 3 {
		if err = c.Emit(ctx, bare()); err != nil {
			break
		}
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("emit into a full buffer: %v, want the context's end", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := c.Close(ended); err == nil {
		t.Error("close left events behind and did not say so")
	}
}
