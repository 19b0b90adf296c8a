package rules_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history/historytest"
	"auditor/queries"
	"auditor/queries/querytest"
	"auditor/rules"
)

// arrive inserts events that reached Kafka when they happened, or when the test says.
func (f *feed) arrive(t *testing.T, text string, at ...float64) {
	t.Helper()
	events := historytest.Events(t, text)
	for i := range events {
		events[i].KafkaTime = events[i].Time
		if len(at) > 0 {
			events[i].KafkaTime = historytest.At(at[0])
		}
	}
	f.add(t, events...)
}

func replay(t *testing.T, store *queries.Store, from, to float64, change ...func(*rules.Config)) []finding.Finding {
	t.Helper()
	config := rules.DefaultConfig()
	for _, f := range change {
		f(&config)
	}
	w := rules.Window{From: historytest.At(from), To: historytest.At(to)}
	found, err := rules.Replay(t.Context(), config, store.AsOf(w.To), w)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func titles(found []finding.Finding) []string {
	var all []string
	for _, f := range found {
		all = append(all, f.Title)
	}
	slices.Sort(all)
	return all
}

// checkReplay fails when a replay over all that a store holds does not find what the rules find there.
func checkReplay(t *testing.T, store *queries.Store, events []event.Event, asOf time.Time, want []finding.Finding) {
	t.Helper()
	first := asOf
	for _, e := range events {
		if e.Time.Before(first) {
			first = e.Time
		}
	}
	got, err := rules.Replay(t.Context(), rules.DefaultConfig(), store.AsOf(asOf), rules.Window{From: first, To: asOf})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(asJSON(t, want), asJSON(t, got)); diff != "" {
		t.Errorf("rules (-), replay (+): %s", diff)
	}
}

// untouched fails when the rules' tables hold anything.
func untouched(t *testing.T, store *queries.Store) {
	t.Helper()
	found, err := store.AllFindings(t.Context())
	if err != nil || len(found) > 0 {
		t.Errorf("findings: %v, %v", titles(found), err)
	}
	due, err := store.DuePending(t.Context(), nil, historytest.At(1e9), 10)
	if err != nil || len(due) > 0 {
		t.Errorf("pending: %v, %v", due, err)
	}
	cursor, err := store.Cursor(t.Context(), "rules")
	if err != nil || len(cursor) > 0 {
		t.Errorf("cursor: %v, %v", cursor, err)
	}
}

const hour, day = 3600.0, 86400.0

// A finding belongs to the window in which it was last seen or became due, and is judged as of the window's end.
func TestReplayedWindow(t *testing.T) {
	f := &feed{store: querytest.Store(t)}
	f.arrive(t, "100 sent w key=order:7 eta=90000")                                         // due at 25 h and a quarter
	f.arrive(t, "100 started a1 w=w1 key=order:1\n101 succeeded a1 w=w1 key=order:1", hour) // arrives at 1 h
	f.arrive(t, "200 started a2 w=w1 key=order:1\n201 succeeded a2 w=w1 key=order:1")
	f.arrive(t, "3500 started s w=w1 key=order:2") // due at 4,400 s
	f.arrive(t, "4000 started b1 w=w1 key=order:3\n4001 succeeded b1 w=w1 key=order:3")
	f.arrive(t, "4500 started b2 w=w1 key=order:3\n4501 succeeded b2 w=w1 key=order:3")
	f.arrive(t, "7000 started b3 w=w1 key=order:3\n7300 succeeded b3 w=w1 key=order:3", 7400) // after 2 h
	f.arrive(t, "7100 succeeded s w=w1 key=order:2", 7300)                                    // the same
	f.arrive(t, "7000 started d1 w=w1 key=order:4\n7001 succeeded d1 w=w1 key=order:4")
	f.arrive(t, "9000 started d2 w=w1 key=order:4\n9001 succeeded d2 w=w1 key=order:4")
	f.arrive(t, "20000 started late w=w1 key=order:5\n180000 succeeded late w=w1 key=order:5") // due at 20,900 s
	f.arrive(t, "95000 started w w=w1 key=order:7\n95001 succeeded w w=w1 key=order:7")
	f.arrive(t, "100 retried r w=w1 key=order:8 in=100000\n130000 started r w=w1 key=order:8 r=1")

	const twice1, twice3, twice4 = "shop.settle twice for order:1", "shop.settle twice for order:3", "shop.settle twice for order:4"
	const stuck2, stuck5, stuck7 = "shop.settle for order:2 is stuck: started and no end", "shop.settle for order:5 is stuck: started and no end",
		"shop.settle for order:7 is stuck: published and no end"
	f.arrive(t, "40100 skipped x w=w1 key=order:9")
	const swallowed9 = "shop.settle for order:9 was skipped as done and never succeeded"
	const stuck8 = "shop.settle for order:8 is stuck: waiting for its next attempt and no end"
	for _, c := range []struct {
		name     string
		from, to float64
		want     []string
	}{
		{"the other copy had not arrived", 0, hour - 1, nil},
		{"what happened early is known late", 0, hour, []string{twice1}},
		{"it was last seen before", 300, hour + 100, nil},
		{"became due, and what came later counts for nothing", hour, 7250, []string{stuck2, twice3}},
		{"the end arrived", hour, 7350, []string{twice3}},
		{"the third arrived", 7200, 7500, []string{"shop.settle 3 times for order:3"}},
		{"its other half lies in the past", 8000, 10000, []string{twice4}},
		{"became due with nothing of it in the window", 20500, 21000, []string{stuck5}},
		{"skipped, and due with nothing of it in the window", 41000, 42000, []string{swallowed9}},
		{"skipped, and due before", 42000, 43000, nil},
		{"due before the window", 25000, 30000, nil},
		{"told a day before to begin", 25*hour + 900, 26 * hour, []string{stuck7}},
		{"told a day before to be tried again", 101000, 102000, []string{stuck8}},
		{"nothing at all", 10 * day, 11 * day, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, titles(replay(t, f.store, c.from, c.to))); diff != "" {
				t.Error(diff)
			}
		})
	}
	untouched(t, f.store)
}

// A replay is judged by the configuration that it is given.
func TestReplayByAnotherConfiguration(t *testing.T) {
	f := &feed{store: querytest.Store(t)}
	f.arrive(t, "0 started a w=w1\n1 succeeded a w=w1\n2 started b w=w1\n3 succeeded b w=w1\n4 started c w=w1 key=order:2")
	if got := titles(replay(t, f.store, 0, 1000)); len(got) != 2 {
		t.Fatalf("found %v", got)
	}
	got := replay(t, f.store, 0, 1000, func(c *rules.Config) {
		c.StuckAfter = time.Hour
		c.Tasks = map[string]rules.Task{"shop.settle": {Off: []string{rules.RepeatedEffect}}}
	})
	if len(got) != 0 {
		t.Errorf("found %v", titles(got))
	}
	if _, err := rules.Replay(t.Context(), rules.Config{}, f.store, rules.Window{}); err == nil {
		t.Error("a configuration that makes no sense: no error")
	}
}

// The newest events of a key, which are read where there are too many, are the newest as of the window's end.
func TestReplayOfAKeyWithALongFuture(t *testing.T) {
	f := &feed{store: querytest.Store(t)}
	f.arrive(t, "0 started a w=w1\n1 succeeded a w=w1\n2 started b w=w1\n3 succeeded b w=w1")
	for i := range 12 {
		f.arrive(t, fmt.Sprintf("%d skipped c w=w1", 1000+i))
	}
	got := replay(t, f.store, 0, 500, func(c *rules.Config) { c.MaxKeyEvent = 10 })
	if diff := cmp.Diff([]string{"shop.settle twice for order:1"}, titles(got)); diff != "" {
		t.Error(diff)
	}
}

// What a replay found is kept once: new findings open, known ones grow, and none is resolved or opened again without new
// evidence. The running rules then resolve what has ended since.
func TestKeep(t *testing.T) {
	f := &feed{store: querytest.Store(t)}
	ctx, now := t.Context(), historytest.At(20000)
	f.arrive(t, "0 started a w=w1\n1 succeeded a w=w1\n2 started b w=w1\n3 succeeded b w=w1\n4 started s w=w1 key=order:2")
	f.arrive(t, "5000 started c w=w1\n5001 succeeded c w=w1\n5002 succeeded s w=w1 key=order:2")
	keep := func(from, to float64, want ...rules.Outcome) {
		t.Helper()
		found := replay(t, f.store, from, to)
		told, err := rules.Outcomes(ctx, f.store, found)
		if err != nil {
			t.Fatal(err)
		}
		got, err := rules.Keep(ctx, f.store, found, now)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" || !slices.Equal(told, got) {
			t.Errorf("%v to %v: told %v; %s", from, to, told, diff)
		}
	}
	keep(0, 2000, rules.IsNew, rules.IsNew)
	keep(0, 2000, rules.IsKnown, rules.IsKnown)
	states := func() map[string]string {
		all, err := f.store.AllFindings(ctx)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, f := range all {
			got[f.Title] = string(f.State)
		}
		return got
	}
	twice, stuck := "shop.settle twice for order:1", "shop.settle for order:2 is stuck: started and no end"
	if diff := cmp.Diff(map[string]string{twice: "open", stuck: "open"}, states()); diff != "" {
		t.Error(diff)
	}
	all, err := f.store.AllFindings(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range all {
		log, err := f.store.Pages().FindingLog(ctx, found.ID)
		if err != nil || len(log) != 1 || log[0].Note != "replay" || log[0].By != "auditor" {
			t.Errorf("log: %+v, %v", log, err)
		}
		if err := f.store.ChangeFindings(ctx, []finding.Change{{FindingID: found.ID, Time: now, To: finding.Resolved, By: "on call"}}); err != nil {
			t.Fatal(err)
		}
	}
	keep(0, 2000, rules.IsKnown, rules.IsKnown)
	if diff := cmp.Diff(map[string]string{twice: "resolved", stuck: "resolved"}, states()); diff != "" {
		t.Error(diff)
	}
	keep(0, 6000, rules.IsGrown)
	if diff := cmp.Diff(map[string]string{"shop.settle 3 times for order:1": "open", stuck: "resolved"}, states()); diff != "" {
		t.Error(diff)
	}
	keep(0, 2000, rules.IsKnown, rules.IsKnown) // less is known of it here
}

// The running rules look again at what a replay has kept, and resolve what has ended since.
func TestKeptIsJudgedAgain(t *testing.T) {
	f := &feed{store: querytest.Store(t)}
	ctx := t.Context()
	engine := newEngine(t, f.store)
	f.arrive(t, "4 started s w=w1 key=order:2\n5002 succeeded s w=w1 key=order:2")
	if found := evaluateAt(t, engine, 6000); len(found) > 0 {
		t.Fatalf("found %v", found)
	}
	if _, err := rules.Keep(ctx, f.store, replay(t, f.store, 0, 2000), historytest.At(7000)); err != nil {
		t.Fatal(err)
	}
	if got := evaluateAt(t, engine, 7000)[rules.StuckPending]; got.State != finding.Resolved {
		t.Errorf("after the next look: %+v", got)
	}
}
