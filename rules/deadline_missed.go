package rules

import (
	"fmt"
	"time"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
)

// tardy is a run that started or went on when it was too late.
type tardy struct {
	run   *history.Run
	limit time.Time
	word  *event.Event // the first word of it after the limit
	late  time.Duration
	field string // expires or deadline
}

// deadlinesMissed finds the task ids of which a run started after it had expired, or went on after its deadline. One that
// stood aside when it came too late did right.
func (j *judge) deadlinesMissed() []finding.Finding {
	var found []finding.Finding
	for _, id := range j.history.TaskIDs() {
		var all []tardy
		expires, deadline := j.limits(id)
		for _, r := range j.history.RunsOf(id) {
			if t, ok := tardiness(r, expires, deadline); ok && !r.StoodAside() {
				all = append(all, t)
			}
		}
		if len(all) > 0 {
			found = append(found, j.deadlineMissed(all))
		}
	}
	return found
}

// limits gives the latest moments that were told for a task id: a limit that was moved counts as moved.
func (j *judge) limits(id string) (expires, deadline time.Time) {
	for _, e := range j.history.EventsOf(id) {
		expires, deadline = later(expires, e.Expires), later(deadline, e.Deadline)
	}
	return expires, deadline
}

func tardiness(r *history.Run, expires, deadline time.Time) (tardy, bool) {
	if r.Started != nil && !expires.IsZero() && r.Started.Time.After(expires) {
		return tardy{r, expires, r.Started, r.Started.Time.Sub(expires), "expires"}, true
	}
	if deadline.IsZero() || !r.Ran() {
		return tardy{}, false
	}
	for _, e := range r.Events {
		if e.Type != event.Received && e.Time.After(deadline) {
			return tardy{r, deadline, e, r.LastSeen().Sub(deadline), "deadline"}, true
		}
	}
	return tardy{}, false
}

func (j *judge) deadlineMissed(all []tardy) finding.Finding {
	s, worst := j.history.Subject, all[0]
	for _, t := range all {
		if t.late > worst.late {
			worst = t
		}
	}
	r := worst.run
	verb := "started"
	if worst.word != r.Started {
		verb = "went on"
	}
	f := finding.Finding{
		ID:          finding.ID(DeadlineMissed, s.Namespace, r.Task, s.String()+"\x00"+r.TaskID),
		Rule:        DeadlineMissed,
		Severity:    finding.Warning,
		Namespace:   s.Namespace,
		Task:        r.Task,
		BusinessKey: s.BusinessKey,
		TaskIDs:     []string{r.TaskID},
		FirstSeen:   all[0].word.Time,
		LastSeen:    all[len(all)-1].word.Time,
		Title:       fmt.Sprintf("%s for %s %s %s after it %s", nameOf(r.Task), s, verb, span(worst.late), map[string]string{"expires": "had expired", "deadline": "was to be done"}[worst.field]),
		Fields:      map[string]any{"limit": worst.field, worst.field: worst.limit, "late_seconds": worst.late.Seconds(), "runs": len(all), "worker": r.Worker},
		Evidence:    []finding.Evidence{quote(beginOf(r), "the delivery"), quote(worst.word, verb+" after the "+worst.field)},
		Remedy: "Let the worker look at the limit right before it starts, not only when it receives the message, and again before each effect; keep queues short enough that tasks start in time " +
			"(fewer tasks prefetched, more workers, a queue of its own for what is urgent).",
	}
	if f.Evidence[0].EventID == f.Evidence[1].EventID {
		f.Evidence = f.Evidence[1:]
	}
	var d doubt
	if worst.late <= j.config.ClockSkew {
		f.Severity = finding.Info
		d.raise(unsure, fmt.Sprintf("The clock of the worker and of whoever set the limit may differ by more than these %s (rules.clock_skew is %s).", span(worst.late), span(j.config.ClockSkew)))
	}
	d.into(&f)
	f.Explanation = sameDay(fmt.Sprintf("%s had it from %s; its %s was %s, and it %s at %s, %s too late.",
		workerOf(r), clock(r.Begin()), worst.field, clock(worst.limit), verb, clock(worst.word.Time), span(worst.word.Time.Sub(worst.limit))))
	if did := len(r.Effects); did > 0 && !r.Effects[did-1].Time.Before(worst.word.Time) {
		f.Explanation += fmt.Sprintf(" It did %s after that.", r.Effects[did-1].Effect.Name)
	}
	return f
}
