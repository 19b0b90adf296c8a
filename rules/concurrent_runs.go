package rules

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"auditor/event/finding"
	"auditor/event/history"
)

// overlap is two runs of the same work that went on at the same time.
type overlap struct {
	first, second *history.Run // in order of their start
	length        time.Duration
	apart         time.Duration // how far the clocks would have to differ for the runs to have followed each other
}

// concurrentRuns finds the tasks of which two runs for the history's subject overlap in time. A run that stood aside, or
// that was only received, was not at work; attempts that follow each other by a retry never overlap, whatever the clocks say.
func (j *judge) concurrentRuns() []finding.Finding {
	byTask := map[string][]*history.Run{}
	var tasks []string
	for _, r := range j.history.Runs {
		if !r.Ran() || r.StoodAside() || slices.Contains(j.config.Polling, r.Task) {
			continue
		}
		if byTask[r.Task] == nil {
			tasks = append(tasks, r.Task)
		}
		byTask[r.Task] = append(byTask[r.Task], r)
	}
	var found []finding.Finding
	for _, task := range tasks {
		if overlaps := j.overlaps(byTask[task]); len(overlaps) > 0 {
			found = append(found, j.concurrent(task, overlaps))
		}
	}
	return found
}

// overlaps gives, for each run that began while an earlier one was at work, the overlap with the one that went on longest.
func (j *judge) overlaps(runs []*history.Run) []overlap {
	slices.SortStableFunc(runs, func(a, b *history.Run) int { return a.WorkFrom().Compare(b.WorkFrom()) })
	var all []overlap
	var open []*history.Run // runs that may reach beyond the beginning of the next
	for _, r := range runs {
		open = slices.DeleteFunc(open, func(o *history.Run) bool { return !o.LastSeen().After(r.WorkFrom()) })
		best := overlap{}
		for _, o := range open {
			length := min(o.LastSeen().Sub(r.WorkFrom()), r.LastSeen().Sub(r.WorkFrom()))
			if length > best.length && !j.succeeds(o, r) {
				best = overlap{o, r, length, min(o.LastSeen().Sub(r.WorkFrom()), r.LastSeen().Sub(o.WorkFrom()))}
			}
		}
		if best.length > 0 {
			all = append(all, best)
		}
		open = append(open, r)
	}
	return all
}

// succeeds reports whether one of two runs of a task id is the attempt that the other's retry or failure led to.
func (j *judge) succeeds(a, b *history.Run) bool {
	return a.TaskID == b.TaskID && (j.retriedInto(a, b) || j.retriedInto(b, a))
}

func (j *judge) concurrent(task string, overlaps []overlap) finding.Finding {
	s := j.history.Subject
	longest := slices.MaxFunc(overlaps, func(a, b overlap) int {
		return cmp.Or(-cmp.Compare(j.skewed(a), j.skewed(b)), cmp.Compare(a.length, b.length))
	})
	runs := []*history.Run{}
	for _, o := range overlaps {
		for _, r := range []*history.Run{o.first, o.second} {
			if !slices.Contains(runs, r) {
				runs = append(runs, r)
			}
		}
	}
	first, second := longest.first, longest.second
	f := finding.Finding{
		ID:          finding.ID(ConcurrentRuns, s.Namespace, task, s.String()),
		Rule:        ConcurrentRuns,
		Severity:    finding.Warning,
		Namespace:   s.Namespace,
		Task:        task,
		BusinessKey: s.BusinessKey,
		TaskIDs:     idsOfRuns(runs),
		Cause:       string(publishedTwice),
		FirstSeen:   overlaps[0].second.WorkFrom(),
		LastSeen:    overlaps[len(overlaps)-1].second.WorkFrom(),
		Title:       fmt.Sprintf("%s for %s ran %s at the same time", nameOf(task), s, times(len(runs))),
		Fields: map[string]any{
			"runs": len(runs), "overlap_seconds": longest.length.Seconds(), "workers": workersOfRuns(runs), "timeout": "",
		},
		Evidence: []finding.Evidence{
			quote(beginOf(first), "the first run began"), quote(beginOf(second), "the second run began"), quote(first.Events[len(first.Events)-1], "the first run still spoke"),
		},
	}
	var d doubt
	if j.skewed(longest) == 1 {
		f.Severity = finding.Info
		d.raise(unsure, fmt.Sprintf("If the two machines' clocks differ by %s, the runs followed each other (rules.clock_skew is %s).", span(longest.apart), span(j.config.ClockSkew)))
	}
	d.into(&f)
	why := "they are copies of the work under two task ids"
	f.Remedy = "Take a lock on the business key that lives as long as the run, or let the second run find the first one's pending record and stand aside. " + publishedTwice.remedy(false)
	if first.TaskID == second.TaskID {
		f.Cause = string(redeliveredWhileRunning)
		f.Fields["gap_seconds"], f.Fields["timeout"] = second.Begin().Sub(first.Begin()).Seconds(), j.config.timeoutOf(second.Task, second.Begin().Sub(first.Begin()))
		why = fmt.Sprintf("the same task was delivered again %s after the delivery before", span(second.Begin().Sub(first.Begin())))
		if t := f.Fields["timeout"]; t != "" {
			why += fmt.Sprintf(", which fits %s", t)
		}
		f.Remedy = redeliveredWhileRunning.remedy(false)
	}
	if r, ok := j.root(cause(f.Cause), first, second); ok {
		r.into(&f)
	}
	f.Explanation = sameDay(fmt.Sprintf("%s was at work from %s to %s; %s began at %s, so they overlap for %s: %s.",
		workerOf(first), clock(first.WorkFrom()), clock(first.LastSeen()), cmp.Or(second.Worker, "a worker"), clock(second.WorkFrom()), span(longest.length), why))
	if len(runs) > 2 {
		f.Explanation += fmt.Sprintf(" In all %d runs overlap with another.", len(runs))
	}
	return f
}

// skewed is 1 where the clocks of two machines may differ by so much that there is no overlap, else 0.
func (j *judge) skewed(o overlap) int {
	if !sameClock(o.first, o.second) && o.apart <= j.config.ClockSkew {
		return 1
	}
	return 0
}

func idsOfRuns(runs []*history.Run) []string {
	var ids []string
	for _, r := range runs {
		if !slices.Contains(ids, r.TaskID) {
			ids = append(ids, r.TaskID)
		}
	}
	return ids
}

func workersOfRuns(runs []*history.Run) []string {
	workers := []string{}
	for _, r := range runs {
		if r.Worker != "" && !slices.Contains(workers, r.Worker) {
			workers = append(workers, r.Worker)
		}
	}
	return workers
}
