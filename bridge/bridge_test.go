package bridge

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"auditor/event"
)

// kafka takes what is published.
type kafka struct {
	mu      sync.Mutex
	records []event.Record
	fails   []error       // of the next attempts
	refuses string        // records with this in them are refused
	open    chan struct{} // nil, or closed when it may take something
	asked   chan struct{} // nil, or told of each attempt
}

func (k *kafka) Publish(ctx context.Context, records []event.Record) (map[int]error, error) {
	if k.asked != nil {
		k.asked <- struct{}{}
	}
	if k.open != nil {
		select {
		case <-k.open:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.fails) > 0 {
		err := k.fails[0]
		k.fails = k.fails[1:]
		return nil, err
	}
	refused := make(map[int]error)
	for i, r := range records {
		if k.refuses != "" && strings.Contains(string(r.Value), k.refuses) {
			refused[i] = errors.New("too large")
			continue
		}
		k.records = append(k.records, r)
	}
	return refused, nil
}

// told decodes what Kafka has, as ingest does.
func (k *kafka) told(t *testing.T) []event.Event {
	t.Helper()
	decoder, err := event.NewDecoder(event.DecoderConfig{Keys: map[string]string{"shop.settle": "settle:{{ arg 0 }}"}})
	if err != nil {
		t.Fatal(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []event.Event
	for _, r := range k.records {
		events, rejects := decoder.Decode(r)
		if len(rejects) > 0 || len(events) != 1 {
			t.Fatalf("%s: %v", r.Value, rejects)
		}
		all = append(all, events[0])
	}
	return all
}

// script is a broker whose connections pass on what is written down, and then fail.
type script struct {
	connections [][]Message // nil: cannot be reached
	err         error
	end         func() // called when the script is over
}

func (s *script) Read(ctx context.Context, connected func(), take func(Message)) error {
	if len(s.connections) == 0 {
		s.end()
		<-ctx.Done()
		return ctx.Err()
	}
	messages := s.connections[0]
	s.connections = s.connections[1:]
	if messages == nil {
		return s.err
	}
	connected()
	for _, m := range messages {
		take(m)
	}
	return s.err
}

func (s *script) String() string { return "redis://broker/0" }

func said(events ...string) Message {
	body := "[" + strings.Join(events, ",") + "]"
	if len(events) == 1 {
		body = events[0]
	}
	return Message{ContentType: "application/json", Body: []byte(body)}
}

func started(clock int) string {
	return fmt.Sprintf(`{"type":"task-started","uuid":"t%d","hostname":"w1","pid":7,"timestamp":1796065075.5,"clock":%d}`, clock, clock)
}

func heartbeat(clock, processed int) string {
	return fmt.Sprintf(`{"type":"worker-heartbeat","hostname":"w1","pid":7,"timestamp":1796065075.5,"clock":%d,"processed":%d,"active":0}`, clock, processed)
}

func newBridge(t testing.TB, c Config, s Source, k Publisher) *Bridge {
	t.Helper()
	b, err := New(c, s, k, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// carry runs a bridge until a script is over, without waiting for the clock.
func carry(t *testing.T, c Config, k *kafka, connections ...[]Message) (b *Bridge) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		b = newBridge(t, c, &script{connections: connections, err: io.EOF, end: stop}, k)
		if err := b.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	return b
}

func seqs(events []event.Event) []int64 {
	var all []int64
	for _, e := range events {
		all = append(all, e.Seq)
	}
	return all
}

func TestEventsAreCarriedAsTheyAre(t *testing.T) {
	sent := `{"type": "task-sent", "uuid": "a", "name": "shop.settle", "args": "(42,)", "kwargs": "{}", "hostname": "web", "pid": 1, "timestamp": 1796065075.1, "clock": 3}`
	k := new(kafka)
	b := carry(t, Config{Name: "b1"}, k, []Message{said(sent), said(started(4), started(5)), said(heartbeat(6, 2))})
	events := k.told(t)
	if diff := cmp.Diff([]int64{0, 1, 2, 3}, seqs(events)); diff != "" {
		t.Error(diff)
	}
	if e := events[0]; e.BusinessKey != "settle:42" || e.TaskID != "a" || !strings.HasPrefix(e.Emitter, "b1/") || e.Type != event.Sent {
		t.Errorf("got %+v", e)
	}
	keys := make([]string, 0, 4)
	for _, r := range k.records {
		keys = append(keys, string(r.Key))
	}
	if diff := cmp.Diff([]string{"a", "t4", "t5", "w1"}, keys); diff != "" {
		t.Error(diff)
	}
	if n := testutil.ToFloat64(b.metrics.published); n != 4 {
		t.Errorf("%v published", n)
	}
}

// Two bridges that read the same broker tell of each event under one id.
func TestTwoBridgesTellOfOneEvent(t *testing.T) {
	k := new(kafka)
	carry(t, Config{Name: "b1"}, k, []Message{said(started(4))})
	carry(t, Config{Name: "b2"}, k, []Message{said(heartbeat(3, 0), started(4))})
	events := k.told(t)
	if events[0].ID != events[2].ID || events[0].Emitter == events[2].Emitter {
		t.Errorf("%s of %s, %s of %s", events[0].ID, events[0].Emitter, events[2].ID, events[2].Emitter)
	}
}

func TestAnOutageLeavesANumberOut(t *testing.T) {
	k := new(kafka)
	b := carry(t, Config{}, k, nil, []Message{said(started(1))}, nil, []Message{said(started(2)), said(started(3))})
	if diff := cmp.Diff([]int64{0, 2, 3}, seqs(k.told(t))); diff != "" {
		t.Error(diff)
	}
	if n := testutil.ToFloat64(b.metrics.outages); n != 2 {
		t.Errorf("%v outages", n)
	}
	if b.Connected() {
		t.Error("it says that it is connected")
	}
}

func TestRefusedAtTheFirstAttempt(t *testing.T) {
	s := &script{connections: [][]Message{nil}, err: &RefusedError{errors.New("WRONGPASS")}, end: func() {}}
	err := newBridge(t, Config{}, s, new(kafka)).Run(t.Context())
	if err == nil || err.Error() != "redis://broker/0: refused: WRONGPASS" {
		t.Errorf("got %v", err)
	}
}

func TestAFullBufferDropsAndTells(t *testing.T) {
	for name, c := range map[string]Config{"events": {Buffer: 2}, "bytes": {BufferBytes: 700}} {
		t.Run(name, func(t *testing.T) {
			k := &kafka{open: make(chan struct{}), asked: make(chan struct{}, 9)}
			b := newBridge(t, c, nil, k)
			done := make(chan int)
			go func() { done <- b.publish(context.Background()) }()
			b.take(said(started(1)))
			<-k.asked // the first is on its way
			for i := 2; i < 50; i++ {
				b.take(said(started(i)))
			}
			dropped := int(testutil.ToFloat64(b.metrics.dropped))
			close(k.open)
			b.queue.close()
			if left := <-done; left != 0 || dropped < 40 || dropped+len(k.records) != 49 {
				t.Errorf("%d left, %d dropped, %d published", left, dropped, len(k.records))
			}
			b.queue = newQueue(10, 1000)
			b.take(said(started(50)))
			b.queue.close()
			b.publish(t.Context())
			events := k.told(t)
			if last := events[len(events)-1]; last.Seq != 49 {
				t.Errorf("the next number is %d", last.Seq)
			}
			if n := b.queue.bytes.Load(); n != 0 {
				t.Errorf("%d bytes are held", n)
			}
		})
	}
}

func TestKafkaIsTriedAgain(t *testing.T) {
	k := &kafka{fails: []error{errors.New("no leader")}, refuses: `"t2"`}
	b := carry(t, Config{}, k, []Message{said(started(1), started(2), started(3))})
	if diff := cmp.Diff([]int64{0, 2}, seqs(k.told(t))); diff != "" {
		t.Error(diff)
	}
	if n := testutil.ToFloat64(b.metrics.refused); n != 1 {
		t.Errorf("%v refused", n)
	}
}

func TestWhatCannotBePublishedAtTheEndIsTold(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	k := &kafka{open: make(chan struct{})}
	s := &script{connections: [][]Message{{said(started(1), started(2))}}, err: io.EOF, end: stop}
	err := newBridge(t, Config{Flush: time.Millisecond}, s, k).Run(ctx)
	if err == nil || !strings.Contains(err.Error(), "2 events could not be published") {
		t.Errorf("got %v", err)
	}
}

func TestHostileMessages(t *testing.T) {
	envelope := func(body string) Message {
		text, err := json.Marshal(map[string]any{"body": base64.StdEncoding.EncodeToString([]byte(body)), "content-type": "application/json",
			"headers": map[string]string{}, "properties": map[string]string{"body_encoding": "base64"}})
		if err != nil {
			t.Fatal(err)
		}
		return unpack(string(text))
	}
	tests := map[string]struct {
		m    Message
		want event.Reason
	}{
		"no envelope":         {unpack("hello"), reasonEnvelope},
		"body is no text":     {unpack(`{"body":{}}`), reasonEnvelope},
		"no base64":           {unpack(`{"body":"%","properties":{"body_encoding":"base64"}}`), reasonEnvelope},
		"envelope too large":  {unpack(strings.Repeat(" ", maxMessage+1)), reasonEnvelope},
		"pickle":              {Message{ContentType: "application/x-python-serialize", Body: []byte("\x80")}, reasonContentType},
		"compressed":          {Message{ContentType: "application/json", Compression: "application/x-gzip"}, reasonContentType},
		"too large":           {Message{ContentType: "application/json", Body: make([]byte, maxMessage+1)}, event.ReasonTooLarge},
		"empty":               {envelope(""), event.ReasonEmpty},
		"half a list":         {envelope(`[{"type":"task-started"`), event.ReasonNotJSON},
		"list in a list":      {envelope("[[" + started(1) + "]]"), event.ReasonUnknownType},
		"deep":                {envelope(strings.Repeat("[", 100_000)), event.ReasonNotJSON},
		"half an event":       {envelope(started(1)[:30]), event.ReasonNotJSON},
		"two events in a row": {envelope(started(1) + started(2)), event.ReasonTrailingData},
		"an application's":    {envelope(`{"type":"task-paid","uuid":"a","timestamp":1}`), event.ReasonUnknownType},
		"auditor JSON":        {envelope(`{"type":"started","task_id":"a","time":1796065075}`), event.ReasonUnknownType},
		"numbered already":    {envelope(`{"emitter":"x","seq":1,` + started(1)[1:]), event.ReasonUnknownType},
		"name twice":          {envelope(`{"uuid":"x",` + started(1)[1:]), event.ReasonDuplicateName},
		"bad UTF-8":           {envelope("{\"x\":\"\xff\"," + started(1)[1:]), event.ReasonBadUTF8},
		"no task id":          {envelope(`{"type":"task-started","hostname":"w","timestamp":1}`), event.ReasonNoTaskID},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			k := new(kafka)
			b := carry(t, Config{}, k, []Message{test.m, test.m, said(started(9))})
			if n := testutil.ToFloat64(b.metrics.skipped.WithLabelValues(string(test.want))); n != 2 {
				t.Errorf("skipped %v as %s: %v", n, test.want, b.told)
			}
			if diff := cmp.Diff([]int64{0}, seqs(k.told(t))); diff != "" {
				t.Error("numbers: ", diff)
			}
		})
	}
}

// Whatever a message holds, what is published decodes.
func FuzzTake(f *testing.F) {
	f.Add("application/json", []byte(started(1)))
	f.Add("application/json", []byte("["+started(1)+", "+heartbeat(2, 1)+"]"))
	f.Add("", []byte(`{"body":"W10=","content-type":"application/json","properties":{"body_encoding":"base64"}}`))
	f.Add("application/json", []byte(`[ {"type":"worker-heartbeat","hostname":"w","timestamp":1,"clock":1e400,"processed":-1}]`))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		k := new(kafka)
		b := newBridge(t, Config{}, nil, k)
		if contentType == "" {
			b.take(unpack(string(body)))
		} else {
			b.take(Message{ContentType: contentType, Body: body})
		}
		b.queue.close()
		b.publish(t.Context())
		k.told(t)
	})
}

// BenchmarkTake is what carrying one event costs the process, Kafka aside.
func BenchmarkTake(b *testing.B) {
	carrier := newBridge(b, Config{}, nil, new(kafka))
	var body []string
	for clock := range 24 { // as many as Celery gathers
		body = append(body, started(clock+1))
	}
	m := said(body...)
	b.ReportAllocs()
	for n := 0; n < b.N; n += len(body) {
		carrier.take(m)
		for r, more := carrier.queue.next(); more; r, more = carrier.queue.next() {
			carrier.queue.release([]event.Record{r})
		}
	}
}
