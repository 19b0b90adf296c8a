package history

import (
	"strings"
	"time"

	"auditor/event"
)

// Run is one delivery of a task id to one worker, from its arrival there to its end.
type Run struct {
	TaskID      string
	Task        string
	Worker      string
	PID         int
	Retries     int          // event.Unknown when no event of the run told it and none could be derived
	Number      int          // 1-based, in the order of arrival among the runs of the whole history
	Received    *event.Event // nil when not seen
	Started     *event.Event // nil when not seen
	Effects     []*event.Event
	End         *event.Event   // the first event that ended it; nil when none was seen
	Conflicting []*event.Event // further ends that the same run reported
	Events      []*event.Event // all of the above, in order of time
}

// Begin is the first moment known of the run: delivery, start, or the earliest event. A run of which only the end was
// seen begins its runtime, where told, before that end.
func (r *Run) Begin() time.Time {
	first := r.Events[0]
	if r.Received == nil && r.Started == nil && r.End == first && first.Runtime > 0 {
		return first.Time.Add(-seconds(first.Runtime))
	}
	return first.Time
}

// LastSeen is the time of the run's last event.
func (r *Run) LastSeen() time.Time { return r.Events[len(r.Events)-1].Time }

// Succeeded reports whether the run's end was a success.
func (r *Run) Succeeded() bool { return r.End != nil && r.End.Type == event.Succeeded }

// Skipped reports whether the run stood aside.
func (r *Run) Skipped() bool { return r.End != nil && r.End.Type == event.Skipped }

// Ran reports whether the run got to work, as far as was told: it started, did an effect, or came to an end that only a
// run at work comes to.
func (r *Run) Ran() bool {
	if r.Started != nil || len(r.Effects) > 0 {
		return true
	}
	if r.End == nil {
		return false
	}
	switch r.End.Type {
	case event.Succeeded, event.Failed, event.Retried, event.WorkerLost:
		return true
	}
	return false
}

// StoodAside reports whether the run ended without doing its work: as a copy, revoked, or expired.
func (r *Run) StoodAside() bool {
	return r.End != nil && (r.End.Type == event.Skipped || r.End.Type == event.Revoked)
}

// WorkFrom is when the run began to work: its start or, where none was told, the first moment known of it.
func (r *Run) WorkFrom() time.Time {
	if r.Started != nil {
		return r.Started.Time
	}
	return r.Begin()
}

// Host is the machine that the run's worker is on, as far as its name tells (worker@host); otherwise the worker's name.
func (r *Run) Host() string { return HostOf(r.Worker) }

// HostOf is the machine that a worker is on, as far as its name tells: what follows the last @, else the whole name.
func HostOf(worker string) string { return worker[strings.LastIndexByte(worker, '@')+1:] }

// History is all that is known of one subject.
type History struct {
	Subject Subject
	Runs    []*Run         // in order of their beginning
	Sent    []*event.Event // publications: the message put into the queue, or put back for a retry
	Events  []*event.Event // every event once, in order of time
	Repeats int            // events that arrived again under an id already seen: producer redelivery, never a finding

	taskIDs []string          // in order of their first event
	byTask  map[string][]*Run // in order of their beginning
	told    map[string][]*event.Event
}

// EventsOf lists the events of one task id, publications among them, in order of time.
func (h *History) EventsOf(taskID string) []*event.Event { return h.told[taskID] }

// RunsOf lists the runs of one task id, in order of their beginning.
func (h *History) RunsOf(taskID string) []*Run { return h.byTask[taskID] }

// TaskIDs lists the task ids of the history, in order of their first event.
func (h *History) TaskIDs() []string { return h.taskIDs }
