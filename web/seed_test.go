package web_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"auditor/event"
	"auditor/queries"
	"auditor/rules"
)

// hostileKey is what a page must survive: markup, quotes, a NUL, a bidirectional override, half of a URL.
const hostileKey = "<script>alert(1)</script>\"'&?#%2F/\x00\u202egnp.exe\u202c{{.}}"

// hostileTask is the same as a task's name, which the store keeps as a word of its own.
var hostileTask = "../<b onclick=x>" + strings.Repeat("a-very-long-name.", 12) + "\u202egnp"

// longKey is a business key of 1 KiB without a place to break it.
var longKey = "cart:" + strings.Repeat("0123456789abcdef", 64)

// scene makes the events of a shop's workers.
type scene struct {
	rng    *rand.Rand
	now    time.Time
	events []event.Event
	stored int // how many of them are in the store
}

// newScene is a shop as of a moment: three hours of healthy work, and one of each trouble.
func newScene(now time.Time) *scene {
	s := &scene{rng: rand.New(rand.NewPCG(1, 2)), now: now.UTC().Truncate(time.Millisecond)}
	s.healthy(1200)
	s.workerKilled()
	s.visibilityTimeOut()
	s.publishedTwice()
	s.guarded()
	s.lockStep()
	s.loop()
	s.stuck()
	return s
}

// hostile adds keys that no shop should have, and a task that has none and is done twice.
func (s *scene) hostile() {
	e := event.Event{Task: "legacy.import", TaskID: "import-1", Queue: "default", Worker: "w3@shop-1"}
	s.run(70*time.Minute, 2*time.Second, e, event.Effect{})
	e.Worker, e.Redelivered = "w4@shop-2", new(true)
	s.run(70*time.Minute-7*time.Second, 2*time.Second, e, event.Effect{})
	for i, key := range []string{hostileKey, longKey} {
		s.twice(key, fmt.Sprintf("hostile-%d", i), s.now.Add(-time.Duration(9+i)*time.Minute))
	}
	e = event.Event{Task: hostileTask, TaskID: "hostile-task", BusinessKey: "hostile-task", Worker: "w3@shop-1"}
	s.at(8*time.Minute, kind(e, event.Started))
	s.at(8*time.Minute-time.Second, failed(e, event.Retried, hostileKey, hostileKey))
	e.Retries = 1
	s.at(7*time.Minute, kind(e, event.Started))
	s.at(7*time.Minute-time.Second, kind(e, event.Succeeded))
}

// at adds an event, so long before now.
func (s *scene) at(before time.Duration, e event.Event) {
	e.Time = s.now.Add(-before)
	e.ID = fmt.Sprintf("event-%d", len(s.events))
	e.System, e.Active, e.MaxRetries, e.RetryIn, e.Seq = "celery", event.Unknown, event.Unknown, event.Unknown, event.Unknown
	e.Position = event.Position{Topic: "task-events", Offset: int64(len(s.events))}
	e.KafkaTime = e.Time
	s.events = append(s.events, e)
}

func kind(e event.Event, t event.Type) event.Event {
	e.Type = t
	return e
}

func effect(e event.Event, f event.Effect) event.Event {
	e.Type, e.Effect = event.Effected, &f
	return e
}

func failed(e event.Event, t event.Type, name, message string) event.Event {
	e.Type, e.Error = t, &event.Error{Type: name, Message: message}
	return e
}

// run adds one delivery of a task: received, started, its effect half-way, succeeded.
func (s *scene) run(before, length time.Duration, e event.Event, f event.Effect) {
	s.at(before, kind(e, event.Received))
	s.at(before-2*time.Millisecond, kind(e, event.Started))
	if f.Name != "" {
		s.at(before-length/2, effect(e, f))
	}
	s.at(before-length, kind(e, event.Succeeded))
}

func (s *scene) healthy(n int) {
	tasks := []struct{ task, effect, key string }{
		{"order.settle", "payment.charge", "settle"}, {"mail.send_receipt", "email.send", "receipt"},
		{"crm.notify", "crm.post", "crm"}, {"stock.reserve", "stock.reserve", "stock"},
	}
	for i := range n {
		t := tasks[i%len(tasks)]
		before := 4*time.Minute + time.Duration(float64(176*time.Minute)*s.rng.Float64())
		e := event.Event{Task: t.task, TaskID: fmt.Sprintf("healthy-%d", i), BusinessKey: fmt.Sprintf("%s:%d", t.key, 1000+i),
			Worker: fmt.Sprintf("w%d@shop-%d", 1+i%4, 1+i%2), Queue: "default"}
		s.at(before+200*time.Millisecond, kind(e, event.Sent))
		if i%17 == 0 {
			s.at(before, kind(e, event.Received))
			s.at(before-time.Millisecond, kind(e, event.Started))
			s.at(before-300*time.Millisecond, failed(e, event.Retried, "ConnectionError", "connection reset by peer"))
			e.Retries = 1
			before -= 20 * time.Second
		}
		s.run(before, time.Duration(200+s.rng.IntN(2500))*time.Millisecond, e, event.Effect{Name: t.effect, IdempotencyKey: e.BusinessKey})
	}
	for before := 3 * time.Hour; before > 0; before -= 10 * time.Second {
		for w := 1; w <= 4; w++ {
			if w == 1 && before < 25*time.Minute {
				continue
			}
			s.at(before, event.Event{Type: event.Heartbeat, Worker: fmt.Sprintf("w%d@shop-%d", w, 2-w%2)})
		}
	}
}

// workerKilled sends a mail and is gone before the acknowledgement; another worker sends it again.
func (s *scene) workerKilled() {
	e := event.Event{Task: "mail.send_receipt", TaskID: "7c9e6679-7425-40de-944b-e07fc1f90ae7", BusinessKey: "receipt:9", Worker: "w7@shop-3", Queue: "mail", RequestID: "req-81f3"}
	start := 21 * time.Minute
	for i := range 8 {
		s.at(start+time.Duration(14-2*i)*time.Second, event.Event{Type: event.Heartbeat, Worker: e.Worker})
	}
	s.at(start+300*time.Millisecond, kind(event.Event{Task: e.Task, TaskID: e.TaskID, BusinessKey: e.BusinessKey, Queue: e.Queue, RequestID: e.RequestID}, event.Sent))
	s.at(start, kind(e, event.Received))
	s.at(start-time.Millisecond, kind(e, event.Started))
	s.at(start-2*time.Second, effect(e, event.Effect{Name: "email.send"}))
	for i := range 20 {
		s.at(start+time.Duration(10-2*i)*time.Second, event.Event{Type: event.Heartbeat, Worker: "w8@shop-3"})
	}
	e.Worker, e.Redelivered = "w8@shop-3", new(true)
	s.run(start-11300*time.Millisecond, 2700*time.Millisecond, e, event.Effect{Name: "email.send"})
}

// visibilityTimeOut lets a task outlive the broker's patience, so that it runs on several workers at once.
func (s *scene) visibilityTimeOut() {
	e := event.Event{Task: "mail.send_batch", TaskID: "batch-77", BusinessKey: "mail-batch:77", Queue: "mail", Worker: "w1@shop-1"}
	start := 170 * time.Minute
	for i, gap := range []time.Duration{0, 3670 * time.Second, 7271 * time.Second} {
		e.Worker = fmt.Sprintf("w%d@shop-1", 1+2*i)
		s.at(start-gap, kind(e, event.Received))
		s.at(start-gap-time.Millisecond, kind(e, event.Started))
		e.Redelivered = new(true)
	}
	for i, end := range []time.Duration{80 * time.Minute, 19 * time.Minute} {
		e.Worker = fmt.Sprintf("w%d@shop-1", 1+2*i)
		s.at(end, kind(e, event.Succeeded))
	}
}

func (s *scene) publishedTwice() {
	for i, id := range []string{"charge-a", "charge-b"} {
		e := event.Event{Task: "order.settle", TaskID: id, BusinessKey: "settle_order:42", Queue: "payments", Worker: fmt.Sprintf("w%d@shop-1", 2+i)}
		before := 33*time.Minute - time.Duration(i)*800*time.Millisecond
		s.at(before+time.Second, kind(event.Event{Task: e.Task, TaskID: id, BusinessKey: e.BusinessKey, Queue: e.Queue}, event.Sent))
		s.run(before, 1500*time.Millisecond, e, event.Effect{Name: "payment.charge", Amount: "49.00", Currency: "EUR"})
	}
}

// guarded is done again under the same idempotency key.
func (s *scene) guarded() {
	e := event.Event{Task: "order.settle", TaskID: "guarded-1", BusinessKey: "settle_order:77", Queue: "payments", Worker: "w2@shop-2"}
	f := event.Effect{Name: "payment.charge", IdempotencyKey: "settle_order:77", Amount: "12.50", Currency: "EUR"}
	s.run(50*time.Minute, time.Second, e, f)
	e.Worker, e.Redelivered = "w4@shop-2", new(true)
	s.run(50*time.Minute-30*time.Second, time.Second, e, f)
}

// cohort is thirty tasks that a broker delivers again after its restart, while the worker that fetched them is at work on them.
func (s *scene) cohort() {
	for i := range 30 {
		e := event.Event{Task: "invoice.send", TaskID: fmt.Sprintf("invoice-%d", i), BusinessKey: fmt.Sprintf("invoice:%d", i), Queue: "mail", Worker: "w5@shop-5"}
		before := 6*time.Minute - time.Duration(i)*20*time.Millisecond
		f := event.Effect{Name: "email.send"}
		s.run(before, 70*time.Second, e, f)
		e.Worker, e.Redelivered = "w6@shop-6", new(true)
		s.run(before-50*time.Second, 4*time.Second, e, f)
	}
}

// lockStep is many ids that retry together every three minutes.
func (s *scene) lockStep() {
	for i := range 60 {
		e := event.Event{Task: "crm.notify", TaskID: fmt.Sprintf("notify-%d", i), BusinessKey: fmt.Sprintf("customer:%d", i), Queue: "crm", Worker: fmt.Sprintf("w%d@shop-2", 1+i%4)}
		for attempt := range 5 {
			before := 40*time.Minute - time.Duration(attempt)*180*time.Second + time.Duration(s.rng.IntN(9))*time.Millisecond
			e.Retries, e.Error = attempt, nil
			s.at(before, kind(e, event.Received))
			s.at(before-time.Millisecond, kind(e, event.Started))
			if attempt < 4 {
				s.at(before-120*time.Millisecond, failed(e, event.Retried, "HTTPError", "503 Service Unavailable"))
			} else {
				s.at(before-200*time.Millisecond, kind(e, event.Succeeded))
			}
		}
	}
}

// loop is one task id that retries three hundred times.
func (s *scene) loop() {
	e := event.Event{Task: "search.index", TaskID: "index-5", BusinessKey: "product:5", Queue: "search"}
	for attempt := range 300 {
		before := 30*time.Minute - time.Duration(attempt)*4*time.Second
		e.Retries, e.Worker, e.Error = attempt, fmt.Sprintf("w%d@shop-1", 1+attempt%3), nil
		s.at(before, kind(e, event.Received))
		s.at(before-time.Millisecond, kind(e, event.Started))
		s.at(before-900*time.Millisecond, failed(e, event.Retried, "MappingError", "field price is not a number"))
	}
}

func (s *scene) stuck() {
	for i, task := range []string{"report.build", "report.build", "order.settle"} {
		e := event.Event{Task: task, TaskID: fmt.Sprintf("stuck-%d", i), BusinessKey: fmt.Sprintf("report:2026-%02d", i+1), Queue: "reports", Worker: "w9@shop-4"}
		s.at(time.Duration(41-5*i)*time.Minute, kind(e, event.Received))
		s.at(time.Duration(41-5*i)*time.Minute-time.Millisecond, kind(e, event.Started))
	}
	e := event.Event{Task: "report.build", TaskID: "stuck-sent", BusinessKey: "report:2026-09", Queue: "reports"}
	s.at(35*time.Minute, kind(e, event.Sent))
}

// twice does a key's work once more after its success.
func (s *scene) twice(key, id string, at time.Time) {
	e := event.Event{Task: "cart.check_out", TaskID: id, BusinessKey: key, Queue: "default", Worker: "w3@shop-1"}
	before := s.now.Sub(at)
	s.run(before, 2*time.Second, e, event.Effect{Name: "stock.reserve"})
	e.Worker, e.Redelivered = "w4@shop-2", new(true)
	s.run(before-7*time.Second, 2*time.Second, e, event.Effect{Name: "stock.reserve"})
}

// store writes the events that are not in the store yet, and has the rules judge them.
func (s *scene) store(t testing.TB, store *queries.Store) {
	t.Helper()
	const size = 4000
	for first := s.stored; first < len(s.events); first += size {
		last := min(first+size, len(s.events)) - 1
		b := event.Batch{Topic: "task-events", First: int64(first), Last: int64(last), Records: last - first + 1, Time: s.now, Events: s.events[first : last+1]}
		if err := store.InsertBatch(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	s.stored = len(s.events)
	s.judge(t, store)
}

func (s *scene) reject(t testing.TB, store *queries.Store) {
	t.Helper()
	bad := []struct{ reason, detail, raw string }{
		{"json", "invalid character 'h' looking for beginning of value", "hello <b>there</b>\x00\xff"},
		{"duplicate_name", `business_key is given twice`, `{"business_key":"a","business_key":"b"}`},
	}
	b := event.Batch{Topic: "task-events", Partition: 1, Last: int64(len(bad) - 1), Records: len(bad), Time: s.now}
	for i, r := range bad {
		at := event.Position{Topic: b.Topic, Partition: 1, Offset: int64(i)}
		b.Rejects = append(b.Rejects, event.Reject{Position: at, KafkaTime: s.now.Add(-12 * time.Minute), Reason: event.Reason(r.reason), Detail: r.detail, Raw: []byte(r.raw)})
	}
	if err := store.InsertBatch(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func (s *scene) judge(t testing.TB, store *queries.Store) {
	t.Helper()
	engine, err := rules.New(rules.DefaultConfig(), store, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := engine.Evaluate(ctx, s.now); err != nil {
		t.Fatal(err)
	}
}
