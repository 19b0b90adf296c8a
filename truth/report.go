package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"auditor/event"
)

// report is what came of a run, as its last line tells it.
type report struct {
	Seed           uint64  `json:"seed"`
	Tasks          int     `json:"tasks"`
	Events         int     `json:"events"` // that arrived, repetitions aside
	EventsLost     int     `json:"events_lost"`
	EventsTwice    int     `json:"events_twice"`
	EventsLate     int     `json:"events_late"` // by a second or more
	Troubled       int     `json:"troubled"`    // stories in which something went wrong
	Stories        int     `json:"stories"`
	Findings       int     `json:"findings"`
	Withdrawn      int     `json:"withdrawn"` // findings that the auditor took back when more was known
	Expected       int     `json:"expected"`
	Found          int     `json:"found"`
	Missed         int     `json:"missed"`
	False          int     `json:"false"`
	HiddenByLoss   int     `json:"hidden_by_loss"`
	HiddenAndFound int     `json:"hidden_and_found"`
	Undecidable    int     `json:"undecidable"`
	MisledByLoss   int     `json:"misled_by_loss"`
	Info           int     `json:"info"`
	Precision      float64 `json:"precision"`
	Recall         float64 `json:"recall"`
	Seconds        float64 `json:"seconds"`

	verdict *verdict
	events  func(namespace, key, taskID string) ([]event.Event, error) // that are known of a key, or of a task without one
}

func newReport(seed uint64, s *stream, v *verdict, findings int) *report {
	sum := v.sum()
	r := &report{
		Seed: seed, Tasks: s.ids, Events: s.events, EventsTwice: s.twice, EventsLate: s.late, Findings: findings, Withdrawn: v.withdrawn,
		Expected: sum.Expected, Found: sum.Found, Missed: sum.Missed, False: sum.False, HiddenByLoss: sum.Hidden, HiddenAndFound: sum.HiddenFound,
		Undecidable: sum.Undecidable, MisledByLoss: sum.Misled, Info: sum.Info, Precision: sum.precision(), Recall: sum.recall(), verdict: v,
	}
	for _, e := range s.emitters {
		r.EventsLost += len(e.lost)
	}
	for _, script := range s.truth.byNumber {
		if script != nil {
			r.Stories++
			if script.amiss {
				r.Troubled++
			}
		}
	}
	return r
}

// perfect reports whether all that there was to be found was found, and nothing else.
func (r *report) perfect() bool { return r.Missed == 0 && r.False == 0 && r.Expected > 0 }

// examples is how many of each kind of fault are told.
const examples = 3

// print writes the table and the first faults of each kind.
func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "\n%-24s %-28s %8s %7s %7s %6s %9s %7s %7s %7s %12s %6s\n", "rule", "cause, kind or phase",
		"expected", "found", "missed", "false", "precision", "recall", "hidden", "misled", "undecidable", "info")
	line := func(rule, kind string, n tally) {
		fmt.Fprintf(w, "%-24s %-28s %8d %7d %7d %6d %9.4f %7.4f %7d %7d %12d %6d\n", rule, kind,
			n.Expected, n.Found, n.Missed, n.False, n.precision(), n.recall(), n.Hidden, n.Misled, n.Undecidable, n.Info)
	}
	for _, c := range slices.SortedFunc(maps.Keys(r.verdict.tallies), func(a, b class) int {
		return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(a.kind, b.kind))
	}) {
		line(c.rule, c.kind, *r.verdict.tallies[c])
	}
	line("all", "", r.verdict.sum())
	r.printFaults(w)
	fmt.Fprintf(w, "\n%d stories, %d of them with trouble; %d tasks, %d events: %d lost, %d late, %d twice.\n",
		r.Stories, r.Troubled, r.Tasks, r.Events, r.EventsLost, r.EventsLate, r.EventsTwice)
	fmt.Fprintf(w, `%d troubles are hidden, for events of them were lost (%d of these were found all the same); %d findings are of keys whose events
were lost without a trace; %d troubles can't be decided, for the clocks differ by more than what separates the events, or for
what would decide was never told. They count neither way.
`, r.HiddenByLoss, r.HiddenAndFound, r.MisledByLoss, r.Undecidable)
}

// printLine writes the report as one JSON object, which must be the last line.
func (r *report) printLine(w io.Writer) error {
	text, err := json.Marshal(r)
	if err == nil {
		_, err = fmt.Fprintf(w, "\n%s\n", text)
	}
	return err
}

// printFaults tells the first of each kind of what was missed and of what is false.
func (r *report) printFaults(w io.Writer) {
	told := make(map[string]int)
	for _, m := range r.verdict.missed {
		t := m.trouble
		if of := "missed" + t.rule + t.kind + t.script; told[of] < examples {
			told[of]++
			fmt.Fprintf(w, "\nMISSED %s %s of %q %s %s, count %d (%s)\n", t.rule, t.kind, t.namespace, t.subject, t.detail, t.count, t.script)
			r.printEvents(w, t.namespace, t.subject, t.detail)
			if m.instead != nil {
				fmt.Fprintf(w, "  instead: %s %s %s %s, count %d: %s\n", m.instead.Severity, m.instead.Certainty, m.instead.kind(), m.instead.Title, m.instead.count(), m.instead.Explanation)
			}
		}
	}
	for _, m := range r.verdict.wrong {
		f := m.found
		if of := "false" + f.Rule + f.kind() + m.script; told[of] < examples {
			told[of]++
			fmt.Fprintf(w, "\nFALSE %s %s of %q %s %s (%s)\n  %s %s %s: %s\n", f.Rule, f.kind(), f.Namespace, f.BusinessKey, strings.Join(f.TaskIDs, " "), m.script,
				f.Severity, f.Certainty, f.Title, f.Explanation)
			r.printEvents(w, f.Namespace, f.BusinessKey, strings.Join(f.TaskIDs, " "))
			if m.truth != nil {
				fmt.Fprintf(w, "  in truth: %s, count %d, found with count %d\n", m.truth.kind, m.truth.count, f.count())
			}
		}
	}
}

// printEvents tells what is known of a key, as far as it is short, so that a person sees what the rules saw.
func (r *report) printEvents(w io.Writer, namespace, key, taskID string) {
	if r.events == nil {
		return
	}
	const most = 40
	events, err := r.events(namespace, key, taskID)
	if err != nil {
		fmt.Fprintf(w, "    its events can't be read: %v\n", err)
	}
	slices.SortStableFunc(events, func(a, b event.Event) int { return a.Time.Compare(b.Time) })
	for i, e := range events {
		if i == most {
			fmt.Fprintf(w, "    and %d more\n", len(events)-most)
			return
		}
		fmt.Fprintf(w, "    %s %-9s %s %s r%d %s/%d", e.Time.Format("15:04:05.000"), e.Type, e.TaskID, e.Worker, e.Retries, e.Emitter, e.Seq)
		if e.Effect != nil {
			fmt.Fprintf(w, " %s %s", e.Effect.Name, e.Effect.Target)
		}
		if e.Skip != nil {
			fmt.Fprintf(w, " %s by %s", e.Skip.Reason, e.Skip.Holder)
		}
		if e.Error != nil {
			fmt.Fprintf(w, " %s", e.Error.Type)
		}
		fmt.Fprintln(w)
	}
}
