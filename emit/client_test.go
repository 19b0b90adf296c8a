package emit

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go"

	"auditor/event"
)

// told decodes what a broker has taken, as ingest does.
func told(t *testing.T, b *broker) []event.Event {
	t.Helper()
	decoder, err := event.NewDecoder(event.DecoderConfig{})
	if err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []event.Event
	for _, m := range b.taken {
		events, rejects := decoder.Decode(event.Record{Value: m.Value})
		if len(rejects) > 0 {
			t.Fatalf("%s: %s: %s", m.Value, rejects[0].Reason, rejects[0].Detail)
		}
		out = append(out, events...)
	}
	return out
}

// Gaps are looked for in one namespace: each has numbers of its own, and ids that differ from those of the others.
func TestEachNamespaceHasNumbersOfItsOwn(t *testing.T) {
	b := &broker{open: make(chan struct{})}
	close(b.open)
	c := newClient(kafkaOf(b), Config{Emitter: "w1"})
	for _, namespace := range []string{"", "prod", "", "prod"} {
		e := bare()
		e.Namespace, e.ID = namespace, ""
		if err := c.Emit(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	last := map[string]int64{}
	for _, e := range told(t, b) {
		ids[e.ID], last[e.Namespace] = true, e.Seq
	}
	if len(ids) != 4 || last[""] != 1 || last["prod"] != 1 {
		t.Errorf("ids %v, last numbers %v", ids, last)
	}
}

// What was dropped leaves a hole in the numbers, and what was refused to the caller's face does not.
func TestNumbersTellOfWhatWasDropped(t *testing.T) {
	b := &broker{open: make(chan struct{}), asked: make(chan struct{}, 9)}
	c := newClient(kafkaOf(b), Config{Buffer: 2, Emitter: "w1"})
	if err := c.Offer(bare()); err != nil {
		t.Fatal(err)
	}
	<-b.asked // the first is on its way, and what follows stays in the buffer
	offered, full := 1, 0
	for full < 3 {
		err := c.Offer(bare())
		if err != nil && !errors.Is(err, ErrFull) {
			t.Fatal(err)
		}
		if offered++; err != nil {
			full++
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Emit(over, bare()); !errors.Is(err, ErrFull) || !errors.Is(err, context.Canceled) {
		t.Errorf("emit into a full buffer: %v", err)
	}
	close(b.open)
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Emit(t.Context(), bare()); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	events := told(t, b)
	last := events[len(events)-1]
	if !strings.HasPrefix(last.Emitter, "w1/") || last.Seq != int64(offered) {
		t.Errorf("the last number is %s %d, want %d", last.Emitter, last.Seq, offered)
	}
	s := c.Stats()
	if s.Dropped != int64(full) || s.Sent != int64(len(events)) || s.Taken != s.Sent || len(events) != offered-full+1 {
		t.Errorf("%v of %d offered, %d have arrived", s.LogValue(), offered, len(events))
	}
}

// An event too large for Kafka must not keep those behind it back for ever.
func TestTooLargeEventsAreRefused(t *testing.T) {
	b := &broker{}
	c := newClient(kafkaOf(b), Config{})
	huge := bare()
	huge.Attributes = `{"a":"` + strings.Repeat("x", maxRecord) + `"}`
	for _, e := range []event.Event{bare(), huge, bare()} {
		if err := c.Emit(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := c.Stats(); len(b.taken) != 2 || s.Sent != 2 || s.Refused != 1 {
		t.Errorf("%d arrived: %v", len(b.taken), s.LogValue())
	}
}

// A batch too large for the broker is sent one by one, and what is too large alone is refused.
func TestBatchesTooLargeForTheBroker(t *testing.T) {
	large := kafka.MessageSizeTooLarge
	b := &broker{fails: []error{kafka.WriteErrors{large, large, nil}, nil, kafka.WriteErrors{large}}}
	p := &Publisher{kafkaOf(b)}
	err := p.Publish(t.Context(), []event.Record{{Value: []byte("a")}, {Value: []byte("b")}, {Value: []byte("c")}})
	failed := new(PublishError)
	if !errors.As(err, &failed) || failed.Errors[0] != nil || !isRefused(failed.Errors[1]) || failed.Errors[2] != nil {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(err.Error(), "1 of 3 events were not taken") {
		t.Errorf("it says %q", err)
	}
}

func TestPublishWaitsOutWhatPasses(t *testing.T) {
	b := &broker{fails: []error{errors.New("connection refused"), kafka.WriteErrors{nil, kafka.LeaderNotAvailable}}}
	p := &Publisher{kafkaOf(b)}
	if err := p.Publish(t.Context(), []event.Record{{Value: []byte("a")}, {Value: []byte("b")}}); err != nil {
		t.Fatal(err)
	}
	if len(b.taken) != 2 {
		t.Errorf("%d have arrived", len(b.taken))
	}
	b.fails = []error{kafka.TopicAuthorizationFailed, errors.New("never asked for")}
	if err := p.Publish(t.Context(), make([]event.Record, 2*atOnce)); !errors.Is(err, kafka.TopicAuthorizationFailed) || len(b.fails) != 1 {
		t.Errorf("%v, %d attempts left", err, len(b.fails))
	}
}

// intake answers as an auditor would, by a script, and keeps what it was sent.
type intake struct {
	answers []string // status and body
	bodies  []string
	header  http.Header
}

func (i *intake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.bodies = append(i.bodies, unpacked(r))
	i.header = r.Header
	next := `200 {"accepted":1}`
	if len(i.answers) > 0 {
		next, i.answers = i.answers[0], i.answers[1:]
	}
	status, body, _ := strings.Cut(next, " ")
	code := 0
	_, _ = fmt.Sscan(status, &code)
	if code == http.StatusTemporaryRedirect {
		w.Header().Set("Location", "/elsewhere")
	}
	w.WriteHeader(code)
	_, _ = w.Write([]byte(body))
}

func TestAuditorTakesEvents(t *testing.T) {
	one := event.Record{Value: []byte(`{"n":1}`)}
	for _, c := range []struct {
		name    string
		answers []string
		want    string // of the first record's error
		bodies  []string
	}{
		{"all taken", nil, "", []string{"{\"n\":1}\n{\"n\":1}\n"}},
		{"a moment later", []string{"503 {}", "429 {}"}, "", []string{"{\"n\":1}\n{\"n\":1}\n", "{\"n\":1}\n{\"n\":1}\n", "{\"n\":1}\n{\"n\":1}\n"}},
		{"one is bad", []string{`207 {"errors":[{"index":0,"reason":"no_time","detail":"tells no time"}]}`}, "refused: no_time: tells no time",
			[]string{"{\"n\":1}\n{\"n\":1}\n"}},
		{"halves", []string{`413 {"detail":"too large"}`, "200 {}", "200 {}"}, "", []string{"{\"n\":1}\n{\"n\":1}\n", "{\"n\":1}\n", "{\"n\":1}\n"}},
		{"wrong token", []string{`401 {"detail":"no such token"}`}, "answers 401 Unauthorized: no such token", []string{"{\"n\":1}\n{\"n\":1}\n"}},
		{"somebody else", []string{"307 x"}, "answers 307", []string{"{\"n\":1}\n{\"n\":1}\n"}},
		{"no auditor", []string{"200 <html>"}, "answers 200", []string{"{\"n\":1}\n{\"n\":1}\n"}},
		{"nonsense", []string{`207 {"errors":[{"index":7}]}`}, "not sent", []string{"{\"n\":1}\n{\"n\":1}\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := &intake{answers: c.answers}
			server := httptest.NewServer(in)
			defer server.Close()
			p, err := NewPublisher(Config{URL: server.URL, Token: "t0ken"})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			err = p.Publish(t.Context(), []event.Record{one, one})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if diff := cmp.Diff(c.bodies, in.bodies); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if got := in.header.Get("Authorization"); got != "Bearer t0ken" {
				t.Errorf("authorization is %q", got)
			}
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	for want, c := range map[string]Config{
		"brokers: must":                 {},
		"must not be set beside":        {Brokers: []string{"a:1"}, URL: "http://a"},
		"http:// or https://":           {URL: "ftp://a"},
		"such as https":                 {URL: "http://user:pass@a"},
		"token: must hold no white spa": {URL: "http://a", Token: "a\nb"},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := NewPublisher(c); err == nil {
			t.Errorf("a publisher takes what is wrong: %s", want)
		}
	}
}

func TestRunsTellWhatTheyDo(t *testing.T) {
	b := &broker{}
	c := newClient(kafkaOf(b), Config{})
	charge := event.Effect{Name: "payment.charge", IdempotencyKey: "order:1"}
	broken := fmt.Errorf("charge: %w", &PermanentError{context.DeadlineExceeded})
	task := Task{Name: "settle", ID: "t1", BusinessKey: "order:1", Retries: 2, Worker: "w1"}
	do := func(f func(context.Context) error) {
		_ = c.Do(t.Context(), task, f)
	}
	do(func(ctx context.Context) error { Effect(ctx, charge); return nil })
	do(func(context.Context) error { return broken })
	do(func(context.Context) error { return Skipped("locked", "t0") })
	do(func(ctx context.Context) error {
		RunOf(ctx).Retry(errors.New("later"), 1500*time.Millisecond)
		return errors.New("x")
	})
	do(func(ctx context.Context) error { RunOf(ctx).Revoke(); return nil })
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("the panic did not go on")
			}
		}()
		do(func(context.Context) error { panic("boom") })
	}()
	c.Sent(task, time.Time{})
	Effect(t.Context(), charge) // of no run
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range told(t, b) {
		line := fmt.Sprintf("%s %s %s %s r=%d max=%d", e.Type, e.Task, e.TaskID, e.BusinessKey, e.Retries, e.MaxRetries)
		switch {
		case e.Effect != nil:
			line += " " + e.Effect.Name + " " + e.Effect.IdempotencyKey
		case e.Error != nil:
			line += fmt.Sprintf(" %s: %s %t in=%d", e.Error.Type, e.Error.Message, e.Error.Permanent, e.RetryIn)
		case e.Skip != nil:
			line += " " + e.Skip.Reason + " " + e.Skip.Holder
		}
		if got = append(got, line); e.ID == "" || e.Worker != "w1" || e.Type != event.Sent && (e.ExecutionID == "" || e.PID == 0) {
			t.Errorf("lacks a name: %s", e.AppendJSON(nil))
		}
	}
	const of = " settle t1 order:1 r=2 max=-1"
	want := []string{"started" + of, "effect" + of + " payment.charge order:1", "succeeded" + of,
		"started" + of, "failed" + of + " context.deadlineExceededError: charge: context deadline exceeded true in=-1",
		"started" + of, "skipped" + of + " locked t0",
		"started" + of, "retried" + of + " error: later false in=2",
		"started" + of, "revoked" + of,
		"started" + of, "failed" + of + " panic: boom false in=-1",
		"sent" + of}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A handler that runs outside of any run may use the same helpers.
func TestNoRunIsNoTrouble(t *testing.T) {
	r := RunOf(t.Context())
	r.End(nil)
	r.Effect(event.Effect{Name: "x"})
	if r.TaskID() != "" || r.LogValue().String() == "run" {
		t.Error("no run has a name")
	}
}

// What a task pays for an event, to the moment at which it goes on.
func BenchmarkOffer(b *testing.B) {
	c := newClient(kafkaOf(&broker{}), Config{Buffer: 1 << 20})
	defer c.Close(context.Background())
	e := bare()
	e.BusinessKey = "order:1"
	for b.Loop() {
		_ = c.Offer(e)
	}
}

func unpacked(r *http.Request) string {
	in, err := gzip.NewReader(r.Body)
	if err != nil {
		return err.Error()
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
