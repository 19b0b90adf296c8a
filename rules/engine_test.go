package rules_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
	"auditor/event/history/historytest"
	"auditor/queries"
	"auditor/queries/querytest"
	"auditor/rules"
)

// feed inserts events behind those already inserted, as one batch.
type feed struct {
	store *queries.Store
	next  int64
}

func (f *feed) add(t *testing.T, events ...event.Event) {
	t.Helper()
	b := event.Batch{Topic: "task-events", First: f.next, Last: f.next + int64(len(events)) - 1, Records: len(events)}
	for i, e := range events {
		e.Topic, e.Offset, e.ID = b.Topic, f.next+int64(i), e.ID+e.Time.Format(time.RFC3339Nano)
		b.Events = append(b.Events, e)
	}
	f.next = b.Last + 1
	if err := f.store.InsertBatch(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func newEngine(t *testing.T, store rules.Store, change ...func(*rules.Config)) *rules.Engine {
	t.Helper()
	config := rules.DefaultConfig()
	for _, f := range change {
		f(&config)
	}
	engine, err := rules.New(config, store, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// evaluateAt gives what is found as of a second, by rule; a finding that is not resolved before one that is.
func evaluateAt(t *testing.T, engine *rules.Engine, second float64) map[string]finding.Finding {
	t.Helper()
	found, err := engine.Evaluate(t.Context(), historytest.At(second))
	if err != nil {
		t.Fatal(err)
	}
	byRule := map[string]finding.Finding{}
	for _, f := range found {
		if other, seen := byRule[f.Rule]; !seen || other.State == finding.Resolved {
			byRule[f.Rule] = f
		}
	}
	return byRule
}

// Event by event, in whatever order they come, the rules end at the same findings as over all of them at once.
func TestEventByEvent(t *testing.T) {
	events := historytest.Events(t, `
		0 received a w=w1 r=0
		1 started a w=w1 r=0
		2 effect a w=w1 r=0 name=mail
		60 received a w=w2 r=0 redelivered
		61 started a w=w2 r=0
		62 effect a w=w2 r=0 name=mail
		63 succeeded a w=w2 r=0
		64 retried b w=w1 r=0 key=order:2
		90 succeeded a w=w1 r=0`)
	once := &feed{store: querytest.Store(t)}
	once.add(t, events...)
	want := evaluateAt(t, newEngine(t, once.store), 2000)
	if len(want) != 3 || want[rules.ConcurrentRuns].BusinessKey != "order:1" || want[rules.RepeatedEffect].Cause != "redelivered_while_running" || want[rules.StuckPending].BusinessKey != "order:2" {
		t.Fatalf("found %+v", want)
	}
	slices.Reverse(events)
	single := &feed{store: querytest.Store(t)}
	engine := newEngine(t, single.store)
	var got map[string]finding.Finding
	for _, e := range events {
		single.add(t, e)
		got = evaluateAt(t, engine, 2000)
	}
	ignore := cmp.Options{cmpopts.IgnoreFields(finding.Finding{}, "Version", "UpdatedAt"), cmpopts.IgnoreFields(finding.Evidence{}, "Offset")}
	if diff := cmp.Diff(want, got, ignore); diff != "" {
		t.Error(diff)
	}
}

// A finding opens, stays acknowledged while it says the same, is opened again by new evidence once it was resolved, and
// the log tells all of it. A stuck task that ends resolves by itself.
func TestLifecycle(t *testing.T) {
	f := &feed{store: querytest.Store(t)}
	engine := newEngine(t, f.store)
	ctx := t.Context()
	f.add(t, historytest.Events(t, `
		0 started a w=w1 r=0
		1 succeeded a w=w1 r=0
		2 started b w=w1 r=0
		3 succeeded b w=w1 r=0
		4 started s w=w1 r=0 key=order:2`)...)
	found := evaluateAt(t, engine, 2000)
	twice, stuck := found[rules.RepeatedEffect], found[rules.StuckPending]
	if twice.State != finding.Open || twice.Effects != 2 || stuck.State != finding.Open {
		t.Fatalf("found %+v", found)
	}
	change := func(id string, from, to finding.State, second float64) {
		if err := f.store.ChangeFindings(ctx, []finding.Change{{FindingID: id, Time: historytest.At(second), From: from, To: to, By: "on call"}}); err != nil {
			t.Fatal(err)
		}
	}
	change(twice.ID, finding.Open, finding.Acknowledged, 2001)
	f.add(t, historytest.Events(t, "2010 heartbeat w=w1\n2011 sent c r=0")...)
	if got := evaluateAt(t, engine, 2012)[rules.RepeatedEffect]; got.State != finding.Acknowledged || got.Effects != 2 {
		t.Errorf("acknowledged: %+v", got)
	}
	change(twice.ID, finding.Acknowledged, finding.Resolved, 2020)
	f.add(t, historytest.Events(t, "2030 started d w=w1 r=0\n2031 succeeded d w=w1 r=0\n2032 succeeded s w=w1 r=0 key=order:2")...)
	found = evaluateAt(t, engine, 2040)
	if got := found[rules.RepeatedEffect]; got.State != finding.Open || got.Effects != 3 || got.ID != twice.ID {
		t.Errorf("new evidence: %+v", got)
	}
	if got := found[rules.StuckPending]; got.State != finding.Resolved {
		t.Errorf("the task ended: %+v", got)
	}
}

// Events of a task whose key is told only by its first event belong to that key, even when they come first.
func TestKeyKnownLater(t *testing.T) {
	f := &feed{store: querytest.Store(t)}
	engine := newEngine(t, f.store)
	f.add(t, historytest.Events(t, "1 started a w=w1 task= key=")...)
	if got := evaluateAt(t, engine, 2000)[rules.StuckPending]; got.BusinessKey != "" || !slices.Equal(got.TaskIDs, []string{"a"}) {
		t.Fatalf("by task id: %+v", got)
	}
	f.add(t, historytest.Events(t, "0 received a w=w1 r=0")...)
	found, err := engine.Evaluate(t.Context(), historytest.At(9000))
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]finding.State{}
	for _, f := range found {
		states[f.BusinessKey] = f.State
	}
	if diff := cmp.Diff(map[string]finding.State{"": finding.Resolved, "order:1": finding.Open}, states); diff != "" {
		t.Error(diff)
	}
}

// failing is a store whose cursor can't be moved: what crashed between the findings and the cursor.
type failing struct{ *queries.Store }

func (failing) SaveCursor(context.Context, string, event.Cursor) error {
	return context.DeadlineExceeded
}

// A look that is repeated after a crash changes nothing.
func TestRepeatedLook(t *testing.T) {
	f := &feed{store: querytest.Store(t)}
	f.add(t, historytest.Events(t, "0 started a w=w1 r=0\n1 succeeded a w=w1 r=0\n2 started b w=w1 r=0\n3 succeeded b w=w1 r=0")...)
	if _, err := newEngine(t, failing{f.store}).Evaluate(t.Context(), historytest.At(100)); err == nil {
		t.Fatal("no error")
	}
	before, err := f.store.AllFindings(t.Context())
	if err != nil || len(before) != 1 {
		t.Fatal(before, err)
	}
	after, err := newEngine(t, f.store).Evaluate(t.Context(), historytest.At(200))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Error(diff)
	}
}

// Run looks until it is told to stop, and takes what comes in meanwhile.
func TestRun(t *testing.T) {
	f := &feed{store: querytest.Store(t)}
	engine := newEngine(t, f.store, func(c *rules.Config) { c.Interval = 100 * time.Millisecond })
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	now := time.Now().UTC().Truncate(time.Microsecond)
	events := historytest.Events(t, "0 started a w=w1 r=0\n1 succeeded a w=w1 r=0\n2 started b w=w1 r=0\n3 succeeded b w=w1 r=0")
	for i := range events {
		events[i].Time = now.Add(time.Duration(i) * time.Millisecond)
	}
	f.add(t, events...)
	for ctx.Err() == nil {
		if all, err := f.store.AllFindings(ctx); err == nil && len(all) == 1 {
			break
		}
	}
	if ctx.Err() != nil {
		t.Error("nothing found")
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Of a key with more events than are read at once the newest are judged, the finding says so, and what was found about the
// older ones stays.
func TestCutHistory(t *testing.T) {
	f := &feed{store: querytest.Store(t)}
	engine := newEngine(t, f.store, func(c *rules.Config) { c.MaxKeyEvent = 10 })
	f.add(t, historytest.Events(t, "0 effect a w=w1 name=mail\n1 succeeded a w=w1\n2 effect b w=w1 name=mail\n3 succeeded b w=w1")...)
	if got := evaluateAt(t, engine, 10)[rules.RepeatedEffect]; got.Effects != 2 || got.Fields["truncated"] != nil {
		t.Fatalf("whole: %+v", got)
	}
	for second := range 12 {
		at := strconv.Itoa(20 + second)
		f.add(t, historytest.Events(t, at+" succeeded c"+at+" w=w1 task=other")...)
	}
	found, err := engine.Evaluate(t.Context(), historytest.At(100))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range found {
		got[f.Title] = fmt.Sprintf("%s truncated=%v", f.State, f.Fields["truncated"])
	}
	if diff := cmp.Diff(map[string]string{"mail twice for order:1": "open truncated=<nil>", "other 12 times for order:1": "open truncated=true"}, got); diff != "" {
		t.Error(diff)
	}
}

// A key with 100,000 events is not read whole: the finding tells all of what happened, and quotes the newest and the first of it.
func TestSummarisedHistory(t *testing.T) {
	const tasks, perTask = 25_000, 4
	f := &feed{store: querytest.Store(t)}
	types := []event.Type{event.Received, event.Started, event.Effected, event.Succeeded}
	var events []event.Event
	for i := range tasks * perTask {
		e := event.Event{ID: strconv.Itoa(i) + " ", Type: types[i%perTask], Time: historytest.At(float64(i) / 10), Task: "shop.settle", BusinessKey: "order:1",
			TaskID: fmt.Sprintf("task-%d", i/perTask), Worker: "w1@host", PID: 7, Retries: 0, MaxRetries: event.Unknown, RetryIn: event.Unknown,
			Active: event.Unknown, Seq: event.Unknown}
		if e.Type == event.Effected {
			e.Effect = &event.Effect{Name: "mail.send"}
		}
		events = append(events, e)
	}
	f.add(t, events...)
	config := rules.DefaultConfig()
	read := &readings{Store: f.store}
	engine, err := rules.New(config, read, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	got := evaluateAt(t, engine, 20_000)[rules.RepeatedEffect]
	if got.Effects != tasks || got.Title != "mail.send 25000 times for order:1" || !got.FirstSeen.Equal(events[2].Time) {
		t.Errorf("%d effects since %s: %s", got.Effects, got.FirstSeen, got.Title)
	}
	if !strings.HasPrefix(got.Evidence[0].EventID, events[2].ID) || got.Evidence[0].Says != "the first time" || !strings.Contains(got.Explanation, "The key has 100000 events of 25000 task ids") {
		t.Errorf("it quotes %+v\n%s", got.Evidence[0], got.Explanation)
	}
	if read.most > config.MaxKeyEvent {
		t.Errorf("%d events of a key are read at once", read.most)
	}
}

// readings is a store that counts the events of one key that are read at once.
type readings struct {
	rules.Store
	most int
}

func (r *readings) Histories(ctx context.Context, subjects []history.Subject, x history.Extent) (map[history.Subject][]event.Event, error) {
	all, err := r.Store.Histories(ctx, subjects, x)
	for _, events := range all {
		r.most = max(r.most, len(events))
	}
	return all, err
}

// Of a key with more events than are read at once, a task that is due is judged by all of its own events, and what was found
// of it resolves when it ends, though neither is among the newest.
func TestStuckInCutHistory(t *testing.T) {
	f := &feed{store: querytest.Store(t)}
	engine := newEngine(t, f.store, func(c *rules.Config) { c.MaxKeyEvent = 10 })
	crowd := func(from int) {
		for i := range 12 {
			f.add(t, historytest.Events(t, fmt.Sprintf("%d skipped c%d w=w1", from+i, from+i))...)
		}
	}
	f.add(t, historytest.Events(t, "0 started s w=w1\n0 started u w=w1\n1 succeeded u w=w1")...)
	crowd(100)
	found := evaluateAt(t, engine, 1000)
	if got := found[rules.StuckPending]; len(found) != 1 || got.State != finding.Open || !slices.Equal(got.TaskIDs, []string{"s"}) {
		t.Fatalf("not among the newest: %+v", found)
	}
	crowd(1100)
	if got := evaluateAt(t, engine, 1200)[rules.StuckPending]; got.State != finding.Open {
		t.Errorf("it has not ended: %+v", got)
	}
	f.add(t, historytest.Events(t, "1300 succeeded s w=w1")...)
	crowd(1400)
	if got := evaluateAt(t, engine, 1500)[rules.StuckPending]; got.State != finding.Resolved {
		t.Errorf("it has ended: %+v", got)
	}
}
