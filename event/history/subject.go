// Package history turns the events of one key into what happened: deliveries, runs, effects and ends.
//
// It is pure, like package event: events come in any order, doubled or with gaps, and the same events always give the
// same history. The rules diagnose it, the pages draw it.
package history

import "time"

// Subject is what a history is about: a business key or, where the events carry none, a task id.
type Subject struct {
	Namespace   string
	BusinessKey string
	TaskID      string // set only when BusinessKey is empty
}

// String names the subject for a person.
func (s Subject) String() string {
	if s.BusinessKey != "" {
		return s.BusinessKey
	}
	return s.TaskID
}

// TaskID is the queue's id of one message, in its namespace.
type TaskID struct {
	Namespace string
	ID        string
}

// Slice is the length of a slice of time in which signals are gathered.
const Slice = 10 * time.Second

// Signal is what was heard of one worker process within one slice of time: any event of its counts.
type Signal struct {
	Namespace string
	Worker    string
	PID       int // 0 when not told
	First     time.Time
	Last      time.Time
	Idle      time.Time // latest time in the slice at which it said that it runs nothing; zero when it never did
	Lost      time.Time // latest worker_lost in the slice; zero when there is none
}

// Gap is a stretch of an emitter's numbers that were never heard of: events that were lost on their way.
type Gap struct {
	Namespace   string
	Emitter     string
	First, Last int64     // numbers, inclusive
	After       time.Time // about when the last word before it was told
	Before      time.Time // and the first word after it
}

// Pending is a task whose last word is no end, and when that becomes too long.
type Pending struct {
	Subject
	PendingTaskID string
	Task          string
	Phase         Phase
	Since         time.Time
	Due           time.Time // when it counts as stuck
	Open          bool      // false: it has ended
	KnownKey      string    // the business key that became known after it was noted without one
}

// Phase is how far a task without an end has come.
type Phase string

// The phases of a task without an end.
const (
	PhaseSent     Phase = "sent"
	PhaseReceived Phase = "received"
	PhaseStarted  Phase = "started"
	PhaseRetry    Phase = "retry"   // waiting for its next attempt, or put back into the queue
	PhaseSkipped  Phase = "skipped" // it stood aside for a run that is still to do the work
)
