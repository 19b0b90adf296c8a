package rules

import (
	"cmp"
	"fmt"
	"slices"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
)

// conflict is a run of which two ends are told that contradict each other.
type conflict struct {
	run           *history.Run
	first, second *event.Event // success and failure, in order of time; or a failure and an effect after it
	elsewhere     bool         // the failure was told by another worker
}

// terminalConflicts finds the runs that are said to have succeeded and to have failed. The second word may come from
// another process, such as a sweep that marks runs as abandoned.
func (j *judge) terminalConflicts() []finding.Finding {
	var found []finding.Finding
	for _, id := range j.history.TaskIDs() {
		if c, ok := j.conflict(j.history.RunsOf(id)); ok {
			found = append(found, j.terminalConflict(c))
		}
	}
	return found
}

func (j *judge) conflict(runs []*history.Run) (conflict, bool) {
	for _, r := range runs {
		others := verdictsOn(r, runs)
		ends := append(slices.Clone(r.Conflicting), others...)
		if r.End != nil {
			ends = append(ends, r.End)
		}
		slices.SortStableFunc(ends, func(a, b *event.Event) int { return a.Time.Compare(b.Time) })
		success := slices.IndexFunc(ends, func(e *event.Event) bool { return e.Type == event.Succeeded })
		failure := slices.IndexFunc(ends, func(e *event.Event) bool { return e.Type == event.Failed })
		if success >= 0 && failure >= 0 {
			return conflict{r, ends[min(success, failure)], ends[max(success, failure)], slices.Contains(others, ends[failure])}, true
		}
		if failure < 0 {
			continue
		}
		for _, e := range r.Effects {
			if e.Time.Sub(ends[failure].Time) > j.config.ClockSkew {
				return conflict{r, ends[failure], e, slices.Contains(others, ends[failure])}, true
			}
		}
	}
	return conflict{}, false
}

// verdictsOn gives the ends that another process told of r: what looks like a run of its own, and is nothing but a
// failure of the same attempt, where runs of this task tell how they begin.
func verdictsOn(r *history.Run, runs []*history.Run) []*event.Event {
	if r.Started == nil && r.Received == nil {
		return nil
	}
	var ends []*event.Event
	for _, other := range runs {
		bare := len(other.Events) == 1 && other.End != nil && other.End.Type == event.Failed && other.End.Runtime == 0
		if other != r && bare && other.Worker != r.Worker && !lost(other.End) && other.End.Time.After(r.Begin()) &&
			(other.Retries == event.Unknown || other.Retries == r.Retries) {
			ends = append(ends, other.End)
		}
	}
	return ends
}

func (j *judge) terminalConflict(c conflict) finding.Finding {
	s, r := j.history.Subject, c.run
	f := finding.Finding{
		ID:          finding.ID(TerminalConflict, s.Namespace, r.Task, s.String()+"\x00"+r.TaskID),
		Rule:        TerminalConflict,
		Severity:    finding.Warning,
		Namespace:   s.Namespace,
		Task:        r.Task,
		BusinessKey: s.BusinessKey,
		TaskIDs:     []string{r.TaskID},
		FirstSeen:   c.first.Time,
		LastSeen:    c.second.Time,
		Title:       fmt.Sprintf("%s for %s has two ends that contradict each other: %s, then %s", nameOf(r.Task), s, c.first.Type, c.second.Type),
		Fields: map[string]any{
			"first_end": c.first.Type, "second_end": c.second.Type, "between_seconds": c.second.Time.Sub(c.first.Time).Seconds(),
			"error_type": errorType(failureOf(c)), "retries": r.Retries,
		},
		Evidence: []finding.Evidence{quote(beginOf(r), "the run began"), quote(c.first, "its first end"), quote(c.second, "what contradicts it")},
		Remedy: "Let one place decide how a run ended: write the end only if none is there yet (a conditional update), have the sweep that marks runs as abandoned look at the record's state in the same statement, " +
			"and acknowledge before the time limit that the supervisor enforces.",
	}
	var d doubt
	if c.elsewhere {
		d.raise(likely, fmt.Sprintf("The failure was told by another worker (%s), without a beginning: it may be the end of a delivery of its own of which nothing else arrived.", cmp.Or(failureOf(c).Worker, "unnamed")))
	}
	d.into(&f)
	f.Explanation = fmt.Sprintf("The run on %s said %s at %s", workerName(r), c.first.Type, clock(c.first.Time))
	if c.second.Type == event.Effected {
		f.Explanation += fmt.Sprintf(", and its effect %s came at %s, %s after it: whoever reads the failure tries again what was done.", c.second.Effect.Name, clock(c.second.Time), span(c.second.Time.Sub(c.first.Time)))
	} else {
		f.Explanation += fmt.Sprintf(", and %s was told of the same run at %s (%s later). Only one of them can be true, and whoever reads the other acts on it.", failureWords(c.second), clock(c.second.Time), span(c.second.Time.Sub(c.first.Time)))
	}
	f.Explanation = sameDay(f.Explanation)
	return f
}

func failureOf(c conflict) *event.Event {
	if c.second.Type == event.Failed {
		return c.second
	}
	return c.first
}

func failureWords(e *event.Event) string {
	if e.Type == event.Failed {
		return failure(e)
	}
	return "success"
}
