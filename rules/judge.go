package rules

import (
	"fmt"
	"slices"
	"time"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
)

// judge diagnoses one history at one moment. It is pure: what it finds depends on its fields alone.
type judge struct {
	config  *Config
	history *history.History
	pulse   pulse
	asOf    time.Time
	grace   time.Duration // after the last word of a task reached Kafka, before its silence counts; 0: arrival counts for nothing
	cut     bool          // the history lacks its beginning: only the newest events were read
}

// verdict is what one history comes to.
type verdict struct {
	subject  history.Subject
	findings []finding.Finding
	tasks    []history.Pending // how every task id of it stands
}

func (j *judge) verdict() verdict {
	v := verdict{subject: j.history.Subject}
	v.findings = append(j.repeatedEffects(), j.retryLoops()...)
	stuck, tasks := j.stuckPending()
	v.findings, v.tasks = append(v.findings, stuck...), tasks
	if j.cut {
		for i := range v.findings {
			f := &v.findings[i]
			f.Explanation += fmt.Sprintf(" The key has more events than are read at once: this rests on its newest %d.", j.config.MaxKeyEvent)
			f.Fields["truncated"] = true
		}
	}
	return v
}

// before keeps the events that happened by asOf, for a judgement of the past must not know what came after it.
func before(events []event.Event, asOf time.Time) []event.Event {
	return slices.DeleteFunc(events, func(e event.Event) bool { return e.Time.After(asOf) })
}

// unfinishedWorkers lists the workers of a history's runs without an end, whose lives decide what became of those, and
// when the first of these runs began.
func unfinishedWorkers(h *history.History) (workers []string, from time.Time) {
	for _, r := range h.Runs {
		if r.End != nil || r.Worker == "" {
			continue
		}
		if from.IsZero() {
			from = r.Begin()
		}
		if !slices.Contains(workers, r.Worker) {
			workers = append(workers, r.Worker)
		}
	}
	return workers, from
}

// formerly lists the subjects under which events of a history stood before their business key was known: what was found
// about them is told under the key now.
func formerly(h *history.History) []history.Subject {
	var former []history.Subject
	for _, e := range h.Events {
		s := history.Subject{Namespace: h.Subject.Namespace, TaskID: e.TaskID}
		if h.Subject.BusinessKey != "" && e.BusinessKey == "" && !slices.Contains(former, s) {
			former = append(former, s)
		}
	}
	return former
}
