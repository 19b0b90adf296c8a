package main

import (
	"fmt"
	"slices"

	"auditor/event"
)

// books keep what concerns a population of tasks, and not one key.
type books struct {
	errors  map[population]*fates
	planned []trouble // storms, known from the plan
}

// population is the tasks that retried on one type of error.
type population struct{ namespace, task, err string }

// fates is what became of them.
type fates struct {
	declared  bool // an error that was told to be permanent was retried
	exhausted int  // ids that failed for good after retries on it
	healed    int  // ids that succeeded after a retry on it
	lost      bool // words of them were lost
	script    string
}

func newBooks() *books { return &books{errors: make(map[population]*fates)} }

// enter notes what a story adds.
func (b *books) enter(s *story) {
	for _, j := range s.jobs {
		var tried []string
		declared := map[string]bool{}
		lost := false
		ended := event.Type("")
		for _, r := range s.runs {
			if r.job != j || len(r.ends) == 0 {
				continue
			}
			lost = lost || !r.seen()
			end := r.ends[0].event
			ended = end.Type
			if end.Type == event.Retried && end.Error != nil {
				if !slices.Contains(tried, end.Error.Type) {
					tried = append(tried, end.Error.Type)
				}
				declared[end.Error.Type] = declared[end.Error.Type] || end.Error.Permanent
			}
		}
		for _, err := range tried {
			of := population{s.fleet.namespace, j.task.name, err}
			f := b.errors[of]
			if f == nil {
				f = &fates{script: s.script.name}
				b.errors[of] = f
			}
			f.declared = f.declared || declared[err]
			f.lost = f.lost || lost
			switch ended {
			case event.Failed:
				f.exhausted++
			case event.Succeeded:
				f.healed++
			}
		}
	}
}

// permanentAfter is how many ids must fail for good on an error before it counts as one that no retry heals.
const permanentAfter = 5

// close gives the troubles of the populations.
func (b *books) close() []trouble {
	all := slices.Clone(b.planned)
	for of, f := range b.errors {
		t := trouble{about: about{permanentErrorRetried, of.namespace, of.task, of.err}, task: of.task, evidence: evident, script: f.script}
		switch {
		case f.declared:
			t.kind = "declared"
		case f.exhausted >= permanentAfter && f.healed == 0:
			t.kind = "exhausted"
		default:
			continue
		}
		if f.lost && f.exhausted <= permanentAfter {
			t.evidence = hidden
		}
		all = append(all, t)
	}
	return all
}

// lostEvents gives the gaps in the emitters' numbers that can be seen: between the least and the greatest that arrived.
func lostEvents(emitters []*emitter) []trouble {
	var all []trouble
	for _, e := range emitters {
		t := trouble{about: about{rule: eventsLost, subject: e.name}, evidence: evident, script: "events lost"}
		for _, w := range e.lost {
			if e.lacks(w.seq) {
				t.count++
			}
		}
		if t.count > 0 {
			all = append(all, t)
		} else if len(e.lost) > 0 {
			t.evidence = hidden
			all = append(all, t)
		}
	}
	return all
}

// lacks reports whether a number that was lost shows as a gap.
func (e *emitter) lacks(seq int64) bool { return e.least >= 0 && seq > e.least && seq < e.most }

func errorNumber(n int) string { return fmt.Sprintf("PartnerError%d", n) }
