package web

import (
	"context"
	"time"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
	"auditor/event/proof"
	"auditor/event/reject"
	"auditor/event/review"
	"auditor/event/silence"
	"auditor/event/view"
)

// Store is all that the pages and the API read and change.
type Store interface {
	Findings
	Silences
	Histories
	Figures
	Reviews
	Rejects
}

// Findings holds what the rules found, and what became of it.
type Findings interface {
	// Findings lists what the filter chooses. A cursor that was not given out is view.ErrCursor.
	Findings(ctx context.Context, filter view.FindingFilter) (view.FindingPage, error)
	// Finding gives one finding, or view.ErrNotFound.
	Finding(ctx context.Context, id string) (finding.Finding, error)
	// FindingLog gives what was done to a finding, the oldest first.
	FindingLog(ctx context.Context, id string) ([]finding.Change, error)
	// Act does to a finding what somebody asks for, and logs it; the same again changes nothing. An error is
	// view.ErrNotFound, or a finding.Refusal where it cannot be done as the finding stands.
	Act(ctx context.Context, a finding.Act) error
	// FindingValues gives what the filters can be set to.
	FindingValues(ctx context.Context) (view.FindingValues, error)
}

// Silences holds what keeps findings silent.
type Silences interface {
	// Silences lists those in some states, or all: the active ones first, then the one that was over last.
	Silences(ctx context.Context, states []silence.State, limit int) ([]silence.Silence, error)
	// Silence gives one silence, or view.ErrNotFound.
	Silence(ctx context.Context, id string) (silence.Silence, error)
	// AddSilence makes one, and gives it as it is in the store; the same request again gives the same silence. An error may
	// be a finding.Refusal.
	AddSilence(ctx context.Context, one silence.Silence) (silence.Silence, error)
	// EndSilence ends one before its time, and gives it as it is then, or view.ErrNotFound. One that is over stays as it is.
	EndSilence(ctx context.Context, id string, at time.Time, by, note, request string) (silence.Silence, error)
}

// Histories holds the events of each key and task.
type Histories interface {
	// SubjectEvents gives the events of a subject in order of time, the newest limit of them. It follows task ids: an
	// event without a key whose task id is known to belong to the key is among the key's events.
	SubjectEvents(ctx context.Context, subject history.Subject, limit int) ([]event.Event, error)
	// TaskEvents gives the events of a task id in any namespace, in order of time, the newest limit of them.
	TaskEvents(ctx context.Context, taskID string, limit int) ([]event.Event, error)
	// Heard gives when workers were heard of within a stretch of time, in order of time.
	Heard(ctx context.Context, namespace string, workers []string, from, until time.Time) ([]history.Signal, error)
	// Search finds what a text may be: a business key or the beginning of one, a task id, a request id, a worker.
	Search(ctx context.Context, text string, limit int) ([]view.Hit, error)
}

// Reviews holds how tasks behave.
type Reviews interface {
	// Review measures the tasks that a query chooses, on a bounded share of their keys, those with the most ids first.
	Review(ctx context.Context, q review.Query) ([]review.Measure, error)
}

// Figures holds what the pages count.
type Figures interface {
	FindingCounts(ctx context.Context) ([]view.FindingCount, error)
	// Changes gives the latest changes of findings' states, the newest first.
	Changes(ctx context.Context, limit int) ([]view.LoggedChange, error)
	// ExtraEffects counts effects beyond the first, from a time on, by slots of the given length.
	ExtraEffects(ctx context.Context, from time.Time, slot time.Duration) ([]view.ExtraEffects, error)
	// Activity counts what tasks did, from a time on, by slots of the given length, whole minutes.
	Activity(ctx context.Context, from time.Time, slot time.Duration) ([]view.Activity, error)
	Workers(ctx context.Context, limit int) ([]view.Worker, error)
	// Ledger gives what the ledger proves of the partitions that were written to since from.
	Ledger(ctx context.Context, from time.Time) ([]view.Ledger, error)
	// Progress gives where ingest stands in each partition, in order, as the process that reads it told last.
	Progress(ctx context.Context) ([]view.Partition, error)
	// ConfigLog tells what the rules went by, the newest first.
	ConfigLog(ctx context.Context, limit int) ([]view.ConfigChange, error)
	// Proofs gives what is known of each partition from comparing Kafka, the ledger and the tables.
	Proofs(ctx context.Context) ([]proof.Proof, error)
}

// Rejects holds what could not be read as an event, and what became of it.
type Rejects interface {
	// Rejects gives one page of the rejects that a filter chooses, the newest first, without headers and log.
	Rejects(ctx context.Context, list view.RejectList) ([]reject.Reject, error)
	// RejectCounts counts what a filter chooses by topic, reason and state, the most frequent first.
	RejectCounts(ctx context.Context, filter view.RejectFilter) ([]view.RejectCount, error)
	// RejectRates counts rejects by reason, from a time on, by slots of the given length.
	RejectRates(ctx context.Context, from time.Time, slot time.Duration) ([]view.RejectRate, error)
	// Reject gives a reject whole, with its log, or view.ErrNotFound.
	Reject(ctx context.Context, at event.Position) (reject.Reject, error)
	// RejectFates gives what the store knows of a reject's replays that were sent or may have been.
	RejectFates(ctx context.Context, r reject.Reject) ([]reject.Fate, error)
	// PurgeReject deletes what a reject holds, once it has logged who asked for that.
	PurgeReject(ctx context.Context, at event.Position, by, note string) error
}
