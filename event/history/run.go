package history

import (
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

// History is all that is known of one subject.
type History struct {
	Subject Subject
	Runs    []*Run         // in order of their beginning
	Sent    []*event.Event // publications: the message put into the queue, or put back for a retry
	Events  []*event.Event // every event once, in order of time
	Repeats int            // events that arrived again under an id already seen: producer redelivery, never a finding
}
