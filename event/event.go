// Package event holds the task event and its wire formats: bytes in, events out.
//
// The package is pure. It does no I/O and reads no clock, so what a record decodes to depends on the record and the
// decoder's configuration alone, and a batch that is decoded again after a crash is the same batch.
package event

import (
	"slices"
	"time"
)

// Unknown stands for an integer that the sender did not tell (retries, max_retries, retry_in, seq, active).
const Unknown = -1

// Type says what happened to a task.
type Type string

// The types of events, in the order in which a run passes through them.
const (
	Sent       Type = "sent"
	Received   Type = "received"
	Started    Type = "started"
	Effected   Type = "effect"
	Retried    Type = "retried"
	Succeeded  Type = "succeeded"
	Failed     Type = "failed"
	Rejected   Type = "rejected"
	Revoked    Type = "revoked"
	Skipped    Type = "skipped"
	WorkerLost Type = "worker_lost"
	Heartbeat  Type = "heartbeat"
)

// Types lists every type, in the order in which a run passes through them.
var Types = []Type{Sent, Received, Started, Effected, Retried, Succeeded, Failed, Rejected, Revoked, Skipped, WorkerLost, Heartbeat}

// Rank orders events that carry the same time by what must have come first.
func (t Type) Rank() int { return slices.Index(Types, t) }

// EndsRun reports whether a run is over once it has said t. A retry ends the run, though not the task.
func (t Type) EndsRun() bool {
	switch t {
	case Retried, Succeeded, Failed, Rejected, Revoked, Skipped, WorkerLost:
		return true
	}
	return false
}

// OfWorker reports whether t speaks of a worker, so that it may come without a task id.
func (t Type) OfWorker() bool { return t == Heartbeat || t == WorkerLost }

// Event is one thing that happened to one task, as a worker or a publisher told it. Text that was not told is empty,
// a time that was not told is zero, an integer that was not told is Unknown, a pointer that was not told is nil.
type Event struct {
	ID          string    // the sender's id of this event; the same id is the same event however often it arrives
	Type        Type      //
	Time        time.Time // when it happened by the sender's clock, UTC, cut to microseconds
	Namespace   string    // environment or team; keys of different namespaces never meet
	System      string    // celery, river, sidekiq, ...
	Task        string    // the task's name
	TaskID      string    // the queue's id of one enqueued message, kept over retries and redeliveries
	BusinessKey string    // what the work is about, the same for every attempt and every copy
	ExecutionID string    // one delivery of the task to one worker
	Retries     int       // 0 at the first attempt
	MaxRetries  int
	RetryIn     int // seconds until the next attempt
	Queue       string
	Worker      string
	PID         int   // 0 when not told
	Redelivered *bool // the broker's flag
	AcksLate    *bool
	Effect      *Effect
	Error       *Error
	Skip        *Skip
	ETA         time.Time // not to be run before
	Expires     time.Time // not to be started after
	Deadline    time.Time // not to run on after
	FirstSent   time.Time
	Runtime     float64 // seconds, 0 when not told
	Requeue     bool
	Terminated  bool
	Expired     bool
	Active      int // a worker's heartbeat or farewell: how many tasks it was running
	RequestID   string
	RootID      string
	ParentID    string
	Traceparent string
	ArgsDigest  string // digest of the original arguments
	Emitter     string // who numbers its events
	Seq         int64  // the emitter's number of this event
	Attributes  string // a JSON object of all that has no field of its own; empty when there is none

	Position            // where it stands in Kafka
	KafkaTime time.Time // the record's timestamp, UTC
}

// Position is where an event stands in Kafka. A record that holds an array holds several events, told apart by Index.
type Position struct {
	Topic     string
	Partition int32
	Offset    int64
	Index     int32 // 0-based place in the record's array; 0 for a single event
}

// WholeRecord is the Index of a reject that stands for a record whose rows could be read, all of them: of those none is
// stored.
const WholeRecord = -1

// Effect is something that a task did to the world outside.
type Effect struct {
	Name           string // payment.charge
	Target         string // whom or what it was done to, when one run does it to several
	IdempotencyKey string
	Deduplicated   bool   // the receiver recognised a copy and dropped it
	Amount         string // a decimal number as it was written
	Currency       string
}

// Error is why a run failed or was retried.
type Error struct {
	Type      string
	Message   string
	Permanent bool // the sender knows that no retry will heal it
}

// Skip is why a run stood aside.
type Skip struct {
	Reason string // duplicate_ignored, already_processed, locked, in_flight, already_running, or another
	Holder string // task id of the run that it stood aside for
}
