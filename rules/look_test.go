package rules

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
	"auditor/event/history/historytest"
	"auditor/queries"
	"auditor/queries/querytest"
)

// bench is an engine over a store, looked at on chosen days.
type bench struct {
	*testing.T
	engine *Engine
	store  *queries.Store
	next   int64
}

func newBench(t *testing.T, config Config) *bench {
	t.Helper()
	store := querytest.Store(t)
	return &bench{T: t, engine: newBenchEngine(t, config, store), store: store}
}

func newBenchEngine(t *testing.T, config Config, store *queries.Store) *Engine {
	t.Helper()
	engine, err := New(config, store, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

func (b *bench) add(events ...event.Event) {
	b.Helper()
	batch := event.Batch{Topic: "task-events", First: b.next, Last: b.next + int64(len(events)) - 1, Records: len(events)}
	for i, e := range events {
		e.Topic, e.Offset, e.ID = batch.Topic, b.next+int64(i), e.ID+e.Time.String()
		batch.Events = append(batch.Events, e)
	}
	b.next = batch.Last + 1
	if err := b.store.InsertBatch(b.Context(), batch); err != nil {
		b.Fatal(err)
	}
}

// look looks as at that moment, as the running engine does, and gives the one finding there is; none is the zero value.
func (b *bench) look(at time.Time) finding.Finding {
	b.Helper()
	if more, err := b.engine.look(b.Context(), b.engine.present(b.Context(), at)); err != nil || more {
		b.Fatalf("more %t, %v", more, err)
	}
	all, err := b.store.AllFindings(b.Context())
	if err != nil || len(all) > 1 {
		b.Fatal(all, err)
	}
	if len(all) == 0 {
		return finding.Finding{}
	}
	return all[0]
}

// due counts the tasks that the next look would judge although nothing has happened.
func (b *bench) due(at time.Time) int {
	b.Helper()
	tasks, err := b.store.DuePending(b.Context(), nil, at, 10)
	if err != nil {
		b.Fatal(err)
	}
	return len(tasks)
}

// A task that is stuck for longer than the rules look back is judged when it is due, not at every look, and its finding
// resolves when it ends at last.
func TestStuckBeyondTheLookBack(t *testing.T) {
	b := newBench(t, DefaultConfig())
	b.add(historytest.Events(t, "0 started a w=w1 r=0")...)
	if f := b.look(historytest.At(1200)); f.Rule != StuckPending || f.State != finding.Open {
		t.Fatalf("found %+v", f)
	}
	week := historytest.At(7 * 86400)
	if f := b.look(week); f.State != finding.Open || b.due(week) > 0 {
		t.Errorf("a week later: %+v, due %d", f, b.due(week))
	}
	b.add(historytest.Events(t, "604801 succeeded a w=w1 r=0")...)
	if f := b.look(week.Add(time.Minute)); f.State != finding.Resolved {
		t.Errorf("ended: %+v", f)
	}
}

// A task waits for its time for longer than the rules look back.
func TestDueBeyondTheLookBack(t *testing.T) {
	b := newBench(t, DefaultConfig())
	b.add(historytest.Events(t, "0 sent a r=0 eta=604800")...)
	if f := b.look(historytest.At(604801)); f.ID != "" {
		t.Errorf("found too early: %+v", f)
	}
	if f := b.look(historytest.At(604800 + 1200)); f.Rule != StuckPending {
		t.Errorf("found %+v", f)
	}
}

func TestWhatNoJudgementEndsIsNotDueForEver(t *testing.T) {
	config := DefaultConfig()
	config.Tasks = map[string]Task{"shop.settle": {Off: []string{StuckPending}}}
	b := newBench(t, config)
	b.add(historytest.Events(t, "0 started a w=w1 r=0")...)
	gone := history.Pending{Subject: history.Subject{BusinessKey: "order:9"}, PendingTaskID: "z", Task: "shop.settle",
		Phase: history.PhaseStarted, Since: historytest.At(0), Due: historytest.At(10), Open: true}
	if err := b.store.SavePending(t.Context(), []history.Pending{gone}); err != nil {
		t.Fatal(err)
	}
	now := historytest.At(1200)
	if b.due(now) != 1 {
		t.Fatal("this test proves nothing")
	}
	if f := b.look(now); f.ID != "" || b.due(now) > 0 {
		t.Errorf("found %+v, due %d", f, b.due(now))
	}
}

// What is found again from less of the past than was read when it was found loses nothing.
func TestFindingOutlivesItsEvents(t *testing.T) {
	b := newBench(t, DefaultConfig())
	day := 86400.0
	effect := func(at float64, id string) []event.Event {
		events := historytest.Events(t, "0 started "+id+" w=w1 r=0\n1 succeeded "+id+" w=w1 r=0")
		for i := range events {
			events[i].Time = historytest.At(at + float64(i))
		}
		return events
	}
	b.add(append(effect(0, "a"), effect(0.9*day, "b")...)...)
	b.add(effect(1.8*day, "c")...)
	first := b.look(historytest.At(1.9 * day))
	if first.Effects != 3 {
		t.Fatalf("found %+v", first)
	}
	b.add(historytest.Events(t, "302400 sent d r=0 eta=999999")...) // of the same key, three and a half days on
	if f := b.look(historytest.At(3.6 * day)); f.Effects != 3 || f.State != finding.Open || !f.FirstSeen.Equal(first.FirstSeen) {
		t.Errorf("less of it is seen: %+v", f)
	}
}

// What was long on its way to the rules is judged like any other: a topic that was read late, or a store filled again.
func TestBacklog(t *testing.T) {
	b := newBench(t, DefaultConfig())
	b.add(historytest.Events(t, "0 started a w=w1 r=0\n1 succeeded a w=w1 r=0\n2 started b w=w1 r=0\n3 succeeded b w=w1 r=0")...)
	if f := b.look(historytest.At(30 * 86400)); f.Rule != RepeatedEffect || f.Effects != 2 {
		t.Errorf("a month later: found %+v", f)
	}
}

// A storm of long ago that arrives late is found, too.
func TestStormOfLongAgo(t *testing.T) {
	b := newBench(t, DefaultConfig())
	month := historytest.At(30 * 86400)
	b.add(historytest.Events(t, "2592000 sent x r=0 eta=9992000")...)
	if f := b.look(month); f.ID != "" {
		t.Fatalf("found %+v", f)
	}
	var text strings.Builder
	for id := range 60 {
		fmt.Fprintf(&text, "0.1 retried t%d w=w1 r=0 key=k%d\n10.1 retried t%d w=w1 r=1 key=k%d\n20.1 retried t%d w=w1 r=2 key=k%d\n20.2 failed t%d w=w1 r=3 key=k%d\n",
			id, id, id, id, id, id, id, id)
	}
	events := historytest.Events(t, text.String())
	for i := range events {
		events[i].KafkaTime = month
	}
	b.add(events...)
	if f := b.look(month.Add(time.Minute)); f.Rule != RetryStorm || f.Fields["kind"] != "synchronised" {
		t.Errorf("found %+v", f)
	}
}

// What is not in the store yet has not failed to happen: while ingest is behind, or Kafka away, no task is stuck.
func TestNotStuckWhileItsEndMayBeUnread(t *testing.T) {
	b := newBench(t, DefaultConfig())
	complete := time.Time{}
	b.engine.CompleteTo(func(context.Context, time.Time) time.Time { return complete })
	b.add(historytest.Events(t, "0 started a w=w1 r=0\n0 started c w=w1 r=0")...)
	late := historytest.At(3600)
	if f := b.look(late); f.ID != "" {
		t.Errorf("nothing known yet: %+v", f)
	}
	complete = historytest.At(10)
	if f := b.look(late); f.ID != "" {
		t.Errorf("behind by an hour: %+v", f)
	}
	b.add(historytest.Events(t, "20 succeeded a w=w1 r=0")...)
	complete = late
	if f := b.look(late); f.Rule != StuckPending || f.TaskIDs[0] != "c" {
		t.Errorf("all read: %+v", f)
	}
}

// Less may be known than when a task was found to be stuck, as after a start with a backlog: its finding stays.
func TestStuckWhileLessIsKnown(t *testing.T) {
	b := newBench(t, DefaultConfig())
	b.add(historytest.Events(t, "0 started a w=w1 r=0")...)
	if f := b.look(historytest.At(1200)); f.State != finding.Open {
		t.Fatalf("found %+v", f)
	}
	b.add(historytest.Events(t, "1210 sent c r=0")...)
	if _, err := b.engine.look(t.Context(), moment{now: historytest.At(1220), known: historytest.At(600)}); err != nil {
		t.Fatal(err)
	}
	if f := b.look(historytest.At(1230)); f.State != finding.Open {
		t.Errorf("less was known: %+v", f)
	}
	b.add(historytest.Events(t, "1240 retried a w=w1 r=0\n1250 started a w=w1 r=1")...)
	if f := b.look(historytest.At(1260)); f.State != finding.Resolved {
		t.Errorf("it went on: %+v", f)
	}
}

// Copies of work that was done before the rules look back to are skipped rightly, however often.
func TestCopiesOfWorkDoneLongAgo(t *testing.T) {
	b := newBench(t, DefaultConfig())
	arrive := func(text string, args ...any) {
		events := historytest.Events(t, fmt.Sprintf(text, args...))
		for i := range events {
			events[i].KafkaTime = events[i].Time
		}
		b.add(events...)
	}
	arrive("0 started a w=w1 r=0\n1 succeeded a w=w1 r=0")
	for day := 10.0; day < 12; day++ {
		at := day * 86400
		arrive("%f started b%g w=w1 r=0\n%f skipped b%g w=w1 r=0 reason=already_processed", at, day, at+1, day)
		for _, later := range []float64{2, 1200} {
			if f := b.look(historytest.At(at + later)); f.ID != "" {
				t.Fatalf("on day %g, %g s later: %s (%s)", day, later, f.Title, f.State)
			}
		}
	}
}

// A finding is written within two looks of the event that makes it one, be it of a key or of a population.
func TestFoundWithinTwoLooks(t *testing.T) {
	var storm strings.Builder // 25 ids that retry every 5 s, all at once
	for second := range 4 {
		for id := range 25 {
			fmt.Fprintf(&storm, "%d.%03d retried s%d w=w1 r=%d key=order:s%d\n", second*5, id, id, second, id)
		}
	}
	for _, c := range []struct{ rule, events string }{
		{RepeatedEffect, "0 received a w=w1 r=0\n1 effect a w=w1 name=mail\n2 succeeded a w=w1 r=0\n8 effect b w=w1 name=mail"},
		{TerminalConflict, "0 received a w=w1 r=0\n1 started a w=w1 r=0\n2 succeeded a w=w1 r=0\n3 failed a w=w1 r=0"},
		{RetryStorm, storm.String()},
	} {
		t.Run(c.rule, func(t *testing.T) {
			b := newBench(t, DefaultConfig())
			events := historytest.Events(t, c.events)
			last := events[len(events)-1]
			found := func(at time.Time) bool {
				if _, err := b.engine.look(t.Context(), b.engine.present(t.Context(), at)); err != nil {
					t.Fatal(err)
				}
				all, err := b.store.AllFindings(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return slices.ContainsFunc(all, func(f finding.Finding) bool { return f.Rule == c.rule })
			}
			b.add(events[:len(events)-1]...)
			tick := last.Time.Truncate(time.Second)
			for i := range 3 { // whatever was found and judged before, and when
				found(tick.Add(time.Duration(i-2) * b.engine.config.Interval))
			}
			b.add(last)
			if first := found(tick.Add(b.engine.config.Interval)); !first && !found(tick.Add(2*b.engine.config.Interval)) {
				t.Error("not found")
			}
		})
	}
}
