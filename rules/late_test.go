package rules_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"auditor/event"
	"auditor/event/finding"
	"auditor/queries"
	"auditor/queries/querytest"
	"auditor/rules"
)

// What is known of a key when more of it arrives hours later is neither read twice nor left out: however the events of all the cases
// are cut in two, the second part arriving long after the first, the same is found as by one who has them all at once.
func TestFoundAlikeWhenTheRestComesLate(t *testing.T) {
	base := time.Now().UTC().Truncate(24 * time.Hour).Add(-24 * time.Hour)
	cases, last := allCases(t, base)
	keyed := slices.DeleteFunc(slices.Clone(cases), func(events []event.Event) bool { // else past work of a key is never left out
		return slices.ContainsFunc(events, func(e event.Event) bool { return e.BusinessKey == "" })
	})
	t.Log(len(cases), "cases,", len(keyed), "of them with keys alone")
	now := last.Add(time.Hour)
	t.Run("all", func(t *testing.T) { alike(t, cases, base, now) })
	t.Run("those with keys", func(t *testing.T) { alike(t, keyed, base, now) })
}

// timeless rules find what they find whatever the time is.
var timeless = map[string]bool{rules.RepeatedEffect: true, rules.ConcurrentRuns: true, rules.TerminalConflict: true, rules.KeyDrift: true,
	rules.DeadlineMissed: true, rules.RedeliveryLoop: true}

func alike(t *testing.T, cases [][]event.Event, base, now time.Time) {
	t.Helper()
	whole := querytest.Store(t)
	insert(t, whole, "all", 0, slices.Concat(cases...))
	want, err := engineOver(t, whole).Evaluate(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	if len(want) < 20 {
		t.Fatal("this test proves nothing", len(want))
	}
	for name, cut := range map[string]func(n int) int{"in the middle": func(n int) int { return n / 2 }, "before the last": func(n int) int { return n - 1 }} {
		t.Run(name, func(t *testing.T) {
			var parts [2][]event.Event
			for _, events := range cases {
				at := cut(len(events))
				parts[0], parts[1] = append(parts[0], events[:at]...), append(parts[1], events[at:]...)
			}
			for i := range parts[1] {
				parts[1][i].KafkaTime = parts[1][i].KafkaTime.Add(2 * time.Hour)
			}
			store := querytest.Store(t)
			engine, known := engineOver(t, store), base
			engine.CompleteTo(func(context.Context, time.Time) time.Time { return known })
			insert(t, store, "all", 0, parts[0])
			for i := range int64(20) { // the engine learns bit by bit, look by look, which keys the store has
				insert(t, store, "other", i, []event.Event{{ID: fmt.Sprint(i), Type: event.Succeeded, Time: base, KafkaTime: base, TaskID: fmt.Sprint(i),
					Retries: event.Unknown, MaxRetries: event.Unknown, RetryIn: event.Unknown, Active: event.Unknown, Seq: event.Unknown, BusinessKey: fmt.Sprint(i)}})
				look(t, engine, base.Add(time.Minute))
			}
			insert(t, store, "all", int64(len(parts[0])), parts[1])
			look(t, engine, base.Add(2*time.Hour)) // nothing is due yet, and what hangs on the time cannot be found
			found, err := store.AllFindings(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range want {
				if timeless[f.Rule] && !slices.ContainsFunc(found, func(g finding.Finding) bool { return g.ID == f.ID }) {
					t.Errorf("not found at once: %s", briefly([]finding.Finding{f}))
				}
			}
			known = now
			look(t, engine, now)
			look(t, engine, now.Add(time.Minute)) // the populations are judged at every second look
			if found, err = store.AllFindings(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(briefly(want), briefly(found)); diff != "" {
				t.Errorf("all at once (-), in two parts (+):\n%s", diff)
			}
		})
	}
}

// allCases gives the events of each case, in a namespace of its own and moved so that each begins at base, and when the last of them
// happened.
func allCases(t *testing.T, base time.Time) (all [][]event.Event, last time.Time) {
	t.Helper()
	files, err := filepath.Glob("testdata/cases/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range files {
		events := decode(t, file, event.DecoderConfig{}).Events
		if len(events) < 2 {
			continue
		}
		first := slices.MinFunc(events, func(a, b event.Event) int { return a.Time.Compare(b.Time) }).Time
		for i := range events {
			e := &events[i]
			move := func(at *time.Time) {
				if !at.IsZero() {
					*at = at.Add(base.Sub(first))
				}
			}
			for _, at := range []*time.Time{&e.Time, &e.ETA, &e.Expires, &e.Deadline, &e.FirstSent} {
				move(at)
			}
			e.Namespace, e.KafkaTime = strings.TrimSuffix(filepath.Base(file), ".jsonl"), base
			if e.Time.After(last) {
				last = e.Time
			}
		}
		all = append(all, events)
	}
	return all, last
}

func engineOver(t *testing.T, store *queries.Store) *rules.Engine {
	t.Helper()
	engine, err := rules.New(rules.DefaultConfig(), store, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

func insert(t *testing.T, store *queries.Store, topic string, first int64, events []event.Event) {
	t.Helper()
	if len(events) == 0 {
		return
	}
	b := event.Batch{Topic: topic, First: first, Last: first + int64(len(events)) - 1, Records: len(events)}
	for i, e := range events {
		e.Topic, e.Partition, e.Offset, e.Index = topic, 0, first+int64(i), 0
		b.Events = append(b.Events, e)
	}
	if err := store.InsertBatch(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func look(t *testing.T, engine *rules.Engine, now time.Time) {
	t.Helper()
	for more := true; more; {
		var err error
		if more, err = engine.Look(t.Context(), now); err != nil {
			t.Fatal(err)
		}
	}
}

// briefly says of each finding that is not resolved what it is about, in order.
func briefly(findings []finding.Finding) []string {
	var all []string
	for _, f := range findings {
		if f.State != finding.Resolved {
			all = append(all, fmt.Sprint(cmp.Or(f.Namespace, "-"), " ", f.Rule, " ", f.Fields["kind"], " ", f.BusinessKey, " ", f.TaskIDs, " ", f.Cause, " ", f.Effects))
		}
	}
	slices.Sort(all)
	return all
}
