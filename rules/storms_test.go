package rules

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
	"auditor/event/history/historytest"
	"auditor/queries/querytest"
)

// wavesOf makes retries of so many ids of a task, all of them at each of the times; all were tried for the first time a second before
// the first of these. Only what was sent tells the name of the task and the key.
func wavesOf(t *testing.T, task string, ids int, times ...float64) []event.Event {
	t.Helper()
	var text strings.Builder
	for id := range ids {
		name := fmt.Sprintf("%s/%d", task, id)
		fmt.Fprintf(&text, "%f sent %s r=0 task=%s key=%s\n", times[0]-1, name, task, name)
		for n, at := range times {
			fmt.Fprintf(&text, "%f retried %s w=w1 r=%d task= key= err=Refused\n", at+float64(id)/1000, name, n)
		}
	}
	return historytest.Events(t, text.String())
}

// arrives adds those of the events that happened from one moment to before another, as they would have arrived, so much late.
func (b *bench) arrives(events []event.Event, from, to float64, late time.Duration) {
	b.Helper()
	var some []event.Event
	for _, e := range events {
		if !e.Time.Before(historytest.At(from)) && e.Time.Before(historytest.At(to)) {
			e.ID, e.KafkaTime = fmt.Sprint(e.TaskID, e.Type, e.Retries), e.Time.Add(late)
			some = append(some, e)
		}
	}
	if len(some) > 0 {
		b.add(some...)
	}
}

// storm gives what is found of the retries of whole tasks, by a look at a time and the one after it.
func (b *bench) storm(at float64) []finding.Finding {
	b.Helper()
	for range 2 {
		if _, err := b.engine.Look(b.Context(), historytest.At(at)); err != nil {
			b.Fatal(err)
		}
		at += b.engine.config.Interval.Seconds()
	}
	return stormsIn(b, b.store.AllFindings)
}

func stormsIn(b *bench, all func(context.Context) ([]finding.Finding, error)) []finding.Finding {
	b.Helper()
	found, err := all(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var storms []finding.Finding
	for _, f := range found {
		if f.Rule == RetryStorm && f.Fields["kind"] != kindLoop {
			storms = append(storms, f)
		}
	}
	return storms
}

// sameAsEvaluated holds what is found against what is found of the same events by one look at all of them.
func (b *bench) sameAsEvaluated(events []event.Event, found []finding.Finding) {
	b.Helper()
	whole := &bench{T: b.T, store: querytest.Store(b.T)}
	whole.engine = newBenchEngine(b.T, b.engine.config, whole.store)
	whole.arrives(events, -1e6, 1e6, 0)
	want := stormsIn(whole, func(ctx context.Context) ([]finding.Finding, error) {
		return whole.engine.Evaluate(ctx, historytest.At(1e6))
	})
	if len(want) == 0 {
		b.Fatal("nothing is found at all, and this test proves nothing")
	}
	if diff := cmp.Diff(want, found, cmpopts.IgnoreFields(finding.Finding{}, "UpdatedAt", "Version")); diff != "" {
		b.Errorf("all at once (-), as it arrived (+):\n%s", diff)
	}
}

// What is found of a storm is about its whole day, though only the last minutes tell that there is one.
func TestStormAsItGrows(t *testing.T) {
	hour := 3600.0
	for _, c := range []struct {
		name  string
		times []float64 // of the waves
		late  map[float64]time.Duration
		until float64
	}{
		{"for hours", []float64{3 * hour, 3*hour + 30, 3*hour + 60, 9 * hour, 9*hour + 30}, nil, 10 * hour},
		{"with a gap of two hours", []float64{3 * hour, 5 * hour, 7 * hour}, nil, 8 * hour},
		{"across midnight", []float64{24*hour - 40, 24*hour - 20, 24 * hour, 24*hour + 20}, nil, 25 * hour},
		{"begun before midnight", []float64{23 * hour, 24*hour + 60, 24*hour + 120}, nil, 25 * hour},
		{"told late", []float64{3 * hour, 3*hour + 30, 3*hour + 60}, map[float64]time.Duration{3 * hour: 5 * time.Hour, 3*hour + 60: 5 * time.Hour}, 9 * hour},
		{"of which the retry before the last wave is told last", []float64{3 * hour, 4*hour + 600, 5*hour + 600}, map[float64]time.Duration{4*hour + 600: 2 * time.Hour}, 9 * hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, DefaultConfig())
			events := wavesOf(t, "crm.notify", 25, c.times...)
			b.arrives(events, 0, c.times[0]-0.5, 0)
			b.storm(c.times[0] - 0.5) // the first look of an engine is at all there is
			later := map[float64][]float64{}
			var found []finding.Finding
			for _, at := range c.times {
				if late := c.late[at]; late > 0 {
					later[at+late.Seconds()] = append(later[at+late.Seconds()], at)
					continue
				}
				b.arrives(events, at, at+1, 0)
				found = b.storm(at + 2)
				b.engine.populations.storms.next = time.Time{}
			}
			for at, waves := range later {
				for _, wave := range waves {
					b.arrives(events, wave, wave+1, time.Duration((at-wave)*float64(time.Second)))
				}
				b.storm(at + 10)
				b.engine.populations.storms.next = time.Time{}
			}
			found = b.storm(c.until)
			b.sameAsEvaluated(events, found)
		})
	}
}

// surging makes so many runs of a task each minute, and from a minute on so many retries.
func surging(t *testing.T, minutes, from int) []event.Event {
	t.Helper()
	var text strings.Builder
	for minute := range minutes {
		for run := range 13 {
			at := float64(3600*2+60*minute) + 4*float64(run)
			fmt.Fprintf(&text, "%f started m%d-%d w=w1 r=0 key=m%d-%d task=crm.sync\n", at, minute, run, minute, run)
			if minute >= from && run >= 2 {
				fmt.Fprintf(&text, "%f retried m%d-%d w=w1 r=0 key=m%d-%d task=crm.sync err=Refused\n", at+0.3*float64(run), minute, run, minute, run)
			}
		}
	}
	return historytest.Events(t, text.String())
}

// A surge is found as it is by one look at all there is, whatever of it is new at a time.
func TestSurgeAsItGrows(t *testing.T) {
	b := newBench(t, DefaultConfig())
	events := surging(t, 44, 36)
	b.arrives(events, 0, 7200+60*34, 0)
	b.storm(7200 + 60*34)
	var found []finding.Finding
	for minute := 34.0; minute < 44; minute += 2 {
		b.arrives(events, 7200+60*minute, 7200+60*(minute+2), 0)
		found = b.storm(7200 + 60*(minute+2))
		b.engine.populations.storms.next = time.Time{}
	}
	b.sameAsEvaluated(events, found)
}

// asked counts what a store is asked of whole populations.
type asked struct {
	Store
	waves, minutes, failing, rooted int
}

func (a *asked) Waves(ctx context.Context, of history.Population, back time.Time, ids int, skew time.Duration) ([]history.Wave, error) {
	a.waves++
	return a.Store.Waves(ctx, of, back, ids, skew)
}

func (a *asked) Minutes(ctx context.Context, of history.Population, retries int) ([]history.Minute, error) {
	a.minutes++
	return a.Store.Minutes(ctx, of, retries)
}

func (a *asked) Failing(ctx context.Context, errors []history.ErrorType, from, until time.Time, ids int) ([]history.Failing, error) {
	a.failing++
	return a.Store.Failing(ctx, errors, from, until, ids)
}

func (a *asked) Rooted(ctx context.Context, from, until time.Time) ([]finding.Finding, error) {
	a.rooted++
	return a.Store.Rooted(ctx, from, until)
}

// Retries that can be no storm, and errors that time heals, cost no more than to see that. Retries of many ids at once cost the hour
// of that task, when they are new.
func TestWhatNothingIsFoundOfIsCheap(t *testing.T) {
	b := newBench(t, DefaultConfig())
	store := &asked{Store: b.store}
	b.engine.store = store
	b.storm(3600)
	*store = asked{Store: b.store}
	calm := historytest.Events(t, "3602 started a w=w1 r=0\n3603 retried a w=w1 r=0 err=ConnectionError\n3604 started a w=w1 r=1\n3605 succeeded a w=w1 r=1")
	b.arrives(calm, 0, 1e5, 0)
	b.storm(3606)
	if diff := cmp.Diff(asked{}, asked{nil, store.waves, store.minutes, store.failing, store.rooted}, cmp.AllowUnexported(asked{}), cmpopts.IgnoreFields(asked{}, "Store")); diff != "" {
		t.Errorf("asked %s", diff)
	}
	jitter := historytest.Events(t, "")
	for id := range 24 {
		jitter = append(jitter, historytest.Events(t, fmt.Sprintf("%f retried j%d w=w1 r=0 key=j%d err=ValueError\n%f retried j%d w=w1 r=1 key=j%d err=ValueError",
			3700+float64(3*id), id, id, 3802+0.02*float64(id), id, id))...)
	}
	b.arrives(jitter, 0, 1e5, 0)
	if found := b.storm(3810); len(found) > 0 {
		t.Fatalf("found %+v", found)
	}
	if store.waves != 1 || store.minutes != 0 || store.failing != 1 {
		t.Errorf("read the waves %d times, the minutes %d times, the failures %d times", store.waves, store.minutes, store.failing)
	}
	b.arrives(historytest.Events(t, "3815 started z w=w1 r=1 key=z"), 0, 1e5, 0)
	b.storm(3820)
	if store.waves != 1 {
		t.Error("read the waves again of what was judged")
	}
}

// A storm that goes on is judged anew for a share of the time only, and at last by itself; another is judged at once meanwhile.
func TestStormsShareOfTheTime(t *testing.T) {
	b := newBench(t, DefaultConfig())
	first := wavesOf(t, "crm.notify", 25, 3600, 3630, 3660, 3690)
	b.storm(3590)
	b.arrives(first, 0, 3670, 0)
	if found := b.storm(3670); len(found) != 1 {
		t.Fatalf("found %+v", found)
	}
	b.engine.populations.storms.next = historytest.At(4000)
	b.arrives(first, 3670, 3700, 0)
	if found := b.storm(3700); found[0].LastSeen.After(historytest.At(3670)) || b.engine.populations.judgedAll() {
		t.Errorf("judged before its time: %+v", found)
	}
	other := wavesOf(t, "crm.other", 25, 3700, 3730, 3760)
	b.arrives(other, 0, 3770, 0)
	if found := b.storm(3770); len(found) != 2 {
		t.Errorf("another storm is not found at once: %+v", found)
	}
	b.engine.populations.storms.next = historytest.At(4000)
	b.sameAsEvaluated(append(first, other...), b.storm(4001))
	if !b.engine.populations.judgedAll() {
		t.Error("something is left to be judged")
	}
}

func TestShareOfTheTime(t *testing.T) {
	now := historytest.At(3600)
	known, s := storm{kindSurge, history.Task{Name: "crm.notify"}, historytest.Day}, storms{}
	if !s.add(known) || len(s.due(now)) > 0 {
		t.Fatal("a new storm waits")
	}
	found := finding.Finding{Task: "crm.notify", LastSeen: now, Fields: map[string]any{"kind": kindSurge}}
	s.note(stormy{findings: []finding.Finding{found}, judged: []storm{known}, took: 3 * time.Second}, now)
	if s.add(known) {
		t.Error("a known storm is judged at once")
	}
	if len(s.due(now.Add(59*time.Second))) != 0 || len(s.due(now.Add(time.Minute))) != 1 {
		t.Error("what took 3 s is not judged again after a minute")
	}
}
