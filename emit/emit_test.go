package emit

import (
	"context"
	"errors"
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

func bare() event.Event {
	return event.Event{ID: "e2", Type: event.Started, Time: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), TaskID: "t1",
		Retries: event.Unknown, MaxRetries: event.Unknown, RetryIn: event.Unknown, Active: event.Unknown, Seq: event.Unknown}
}

func TestMessagesAreEventsKeyedByWork(t *testing.T) {
	for _, c := range []struct {
		name, key string
		change    func(*event.Event)
	}{
		{"business key", "receipt:1", func(e *event.Event) { e.BusinessKey = "receipt:1" }},
		{"task id", "t1", func(*event.Event) {}},
		{"worker", "w1", func(e *event.Event) { e.TaskID, e.Worker, e.Type = "", "w1", event.Heartbeat }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := &broker{}
			client := newClient(kafkaOf(b), Config{})
			want := bare()
			c.change(&want)
			if err := client.Emit(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			if err := client.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			decoder, err := event.NewDecoder(event.DecoderConfig{})
			if err != nil {
				t.Fatal(err)
			}
			if key := string(b.taken[0].Key); key != c.key {
				t.Errorf("key is %s, want %s", key, c.key)
			}
			got, _ := decoder.Decode(event.Record{Value: b.taken[0].Value})
			want.Emitter, want.Seq = client.emitter, 0
			if diff := cmp.Diff([]event.Event{want}, got); diff != "" {
				t.Errorf("decoded otherwise (-emitted +decoded):\n%s", diff)
			}
		})
	}
}

func TestBrokenAttributesAreRefused(t *testing.T) {
	client := newClient(kafkaOf(&broker{}), Config{})
	defer client.Close(t.Context())
	e := bare()
	e.Attributes = `{"a":`
	if err := client.Emit(t.Context(), e); err == nil {
		t.Error("broken JSON was taken")
	}
}

// broker stands in for Kafka: it fails as often as it is told to, and then takes messages.
type broker struct {
	mu     sync.Mutex
	fails  []error
	taken  []kafka.Message
	open   chan struct{} // nil, or closed once the broker takes messages
	asked  chan struct{} // nil, or told of each attempt
	closed bool
}

func (b *broker) WriteMessages(ctx context.Context, messages ...kafka.Message) error {
	if b.asked != nil {
		b.asked <- struct{}{}
	}
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

// kafkaOf makes the way to a broker that stands in for Kafka.
func kafkaOf(b *broker) sender { return &brokers{writer: b, free: func() {}} }

func (b *broker) Close() error {
	b.closed = true
	return nil
}

func TestEverythingArrivesInOrder(t *testing.T) {
	b := &broker{}
	c := newClient(kafkaOf(b), Config{Buffer: 8})
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
	b := &broker{open: make(chan struct{}), asked: make(chan struct{}, 9), fails: []error{kafka.WriteErrors{nil}, kafka.WriteErrors{kafka.LeaderNotAvailable, nil}}}
	c := newClient(kafkaOf(b), Config{})
	emit := func(id string) {
		e := bare()
		e.BusinessKey = id
		if err := c.Emit(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	emit("first")
	<-b.asked // the first is on its way alone, so that the others go together
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
	c := newClient(kafkaOf(b), Config{Buffer: 1})
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
