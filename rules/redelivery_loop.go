package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
)

// redeliveryLoops finds the task ids that are delivered again and again while the attempt number does not grow: the queue
// counts none of it, so that no bound on retries ever ends it.
func (j *judge) redeliveryLoops() []finding.Finding {
	var found []finding.Finding
	for _, id := range j.history.TaskIDs() {
		runs := j.history.RunsOf(id)
		if len(runs) < 2 {
			continue
		}
		loop := j.config.of(runs[0].Task).Redelivery
		if len(runs) < loop.Deliveries || slices.Contains(j.config.Polling, runs[0].Task) {
			continue
		}
		byAttempt := map[int][]*history.Run{}
		for i, r := range runs {
			retry := i > 0 && r.Retries == event.Unknown && triedAgain(runs[i-1].End)
			if !retry && !(r.StoodAside() && r.End.Type == event.Revoked) {
				byAttempt[r.Retries] = append(byAttempt[r.Retries], r)
			}
		}
		var most, densest []*history.Run
		for _, number := range slices.Sorted(maps.Keys(byAttempt)) {
			attempt := byAttempt[number]
			if d := densestDeliveries(attempt, loop.Within); len(d) > len(densest) || len(d) == len(densest) && len(attempt) > len(most) {
				most, densest = attempt, d
			}
		}
		if len(densest) >= loop.Deliveries {
			found = append(found, j.redeliveryLoop(loop, most, densest))
		}
	}
	return found
}

// triedAgain reports whether what follows this end may be an attempt of its own, where no attempt number is told.
func triedAgain(end *event.Event) bool {
	return end != nil && !lost(end) && (end.Type == event.Retried || end.Type == event.Failed)
}

// densestDeliveries gives the most deliveries that began within the window.
func densestDeliveries(runs []*history.Run, within time.Duration) []*history.Run {
	var best []*history.Run
	from := 0
	for to := range runs {
		for runs[to].Begin().Sub(runs[from].Begin()) > within {
			from++
		}
		if to-from+1 > len(best) {
			best = runs[from : to+1]
		}
	}
	return best
}

func (j *judge) redeliveryLoop(loop DeliveryLoop, runs, densest []*history.Run) finding.Finding {
	s, first, last := j.history.Subject, runs[0], runs[len(runs)-1]
	peakFrom, peakTo := densest[0], densest[len(densest)-1]
	f := finding.Finding{
		ID:          finding.ID(RedeliveryLoop, s.Namespace, first.Task, s.String()+"\x00"+first.TaskID),
		Rule:        RedeliveryLoop,
		Severity:    finding.Warning,
		Namespace:   s.Namespace,
		Task:        first.Task,
		BusinessKey: s.BusinessKey,
		TaskIDs:     []string{first.TaskID},
		FirstSeen:   first.Begin(),
		LastSeen:    last.LastSeen(),
		Title:       fmt.Sprintf("%s for %s was delivered %s, and its attempt number never grew", nameOf(first.Task), s, times(len(runs))),
		Fields: map[string]any{
			"deliveries": len(runs), "peak": len(densest), "within_seconds": peakTo.Begin().Sub(peakFrom.Begin()).Seconds(),
			"retries": first.Retries, "workers": workersOfRuns(runs), "ends": endsOf(runs),
		},
		Evidence: []finding.Evidence{quote(beginOf(peakFrom), "the first of the densest stretch"), quote(beginOf(peakTo), "the last of it")},
		Remedy: "Count the deliveries where the queue does not (a delivery limit or quorum queue, a column in the pending record), and send the task to a dead letter queue at a bound; " +
			"reject without requeue, or retry with a number that grows and a back-off.",
	}
	doubt{}.into(&f)
	f.Explanation = sameDay(fmt.Sprintf("The task id %s was delivered %d times between %s and %s, %s each time; fewer than %d in %s are expected. %s",
		first.TaskID, len(densest), clock(peakFrom.Begin()), clock(peakTo.Begin()), attemptWords(first.Retries), loop.Deliveries,
		span(loop.Within), howEnded(runs)))
	return f
}

func attemptWords(retries int) string {
	if retries == event.Unknown {
		return "with no attempt number told"
	}
	return fmt.Sprintf("as attempt %d", retries)
}

// endsOf counts how runs ended, by the type of their end; "" where none was seen.
func endsOf(runs []*history.Run) map[string]int {
	ends := map[string]int{}
	for _, r := range runs {
		if r.End == nil {
			ends["none"]++
		} else {
			ends[string(r.End.Type)]++
		}
	}
	return ends
}

// howEnded says in words how most of the runs ended.
func howEnded(runs []*history.Run) string {
	ends := endsOf(runs)
	names := make([]string, 0, len(ends))
	for name := range ends {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(-cmp.Compare(ends[a], ends[b]), cmp.Compare(a, b)) })
	most := names[0]
	if most == "none" {
		return fmt.Sprintf("%d of the %d deliveries have no end, as when the worker dies of the task.", ends[most], len(runs))
	}
	return fmt.Sprintf("%d of the %d deliveries ended in %q.", ends[most], len(runs), most)
}
