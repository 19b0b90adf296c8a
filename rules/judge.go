package rules

import (
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
	grace   time.Duration   // after the last word of a task reached Kafka, before its silence counts; 0: arrival counts for nothing
	cut     bool            // the history lacks its beginning: only the newest events were read
	summary history.Summary // of all events, where the history was cut

	drifted   map[string][]string      // the business keys, sorted, of the task ids that stand under several
	gaps      []history.Gap            // what is missing of the numbers of the emitters that told of it
	gapsOfAll []history.Gap            // and of all emitters of the namespace, where somebody else had the next word
	usual     map[string][]string      // the effects that a task does when it succeeds
	p99       map[string]time.Duration // of a task's run times, where a rule goes by it
}

// keyRules are the rules that judge one history, in the order in which their findings are told. What swallowed_work and
// stuck_pending find decides besides when a task is looked at again.
var keyRules = []func(*judge) []finding.Finding{
	(*judge).repeatedEffects,
	(*judge).concurrentRuns,
	(*judge).retryLoops,
	(*judge).redeliveryLoops,
	(*judge).keyDrifts,
	(*judge).deadlinesMissed,
	(*judge).partialEffects,
	(*judge).terminalConflicts,
}

// verdict is what one history comes to.
type verdict struct {
	subject  history.Subject
	findings []finding.Finding
	tasks    []history.Pending // how every task id of it stands
}

func (j *judge) verdict() verdict {
	v := verdict{subject: j.history.Subject}
	for _, find := range keyRules {
		v.findings = append(v.findings, find(j)...)
	}
	stuck, tasks := j.stuckPending()
	swallowed, waits := j.swallowedWork()
	v.findings = append(append(v.findings, swallowed...), stuck...)
	v.findings = j.config.admit(v.findings)
	v.tasks = j.wait(tasks, waits)
	if j.cut {
		for i := range v.findings {
			j.complete(&v.findings[i])
		}
	}
	return v
}

// wait keeps the tasks open that stood aside for work that is still to be done, so that they are judged when it must be.
func (j *judge) wait(tasks []history.Pending, waits map[string]aside) []history.Pending {
	for i, t := range tasks {
		if a, ok := waits[t.PendingTaskID]; ok && !t.Open {
			tasks[i].Open, tasks[i].Phase, tasks[i].Since, tasks[i].Due = true, history.PhaseSkipped, a.run.End.Time, a.due
		}
	}
	return tasks
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
