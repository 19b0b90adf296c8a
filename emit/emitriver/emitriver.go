// Package emitriver tells the auditor what the jobs of River do (github.com/riverqueue/river).
//
//	river.NewClient(driver, &river.Config{
//		Middleware: []rivertype.Middleware{emitriver.New(client, emitriver.Options{Key: func(job *rivertype.JobRow) string { ... }})},
//	})
//
// Workers tell their effects by emit.Effect. One that stands aside returns emit.Skipped, which the middleware tells River as success.
// Nothing here waits for the auditor or fails a job: what the client has no room for is dropped and counted. It is safe for concurrent use.
package emitriver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/riverqueue/river/rivertype"

	"auditor/emit"
	"auditor/event"
)

// Options are how jobs are told of. The zero value will do.
type Options struct {
	Namespace string                         // environment or team
	Key       func(*rivertype.JobRow) string // what a job is about, the same for every copy; nil, or empty text: not known

	// Inserts says to tell of jobs that are inserted. Not where they are inserted in transactions that may be rolled back: a job that was
	// told of and is never there would look stuck.
	Inserts bool
}

// Middleware is one of River's for jobs that are inserted and for jobs that are worked.
type Middleware struct {
	client  *emit.Client
	options Options
}

var (
	_ rivertype.WorkerMiddleware    = (*Middleware)(nil)
	_ rivertype.JobInsertMiddleware = (*Middleware)(nil)
)

// New makes a middleware that tells c.
func New(c *emit.Client, o Options) *Middleware { return &Middleware{c, o} }

// IsMiddleware says what this is.
func (m *Middleware) IsMiddleware() bool { return true }

// Work tells when a job starts and how it ends: succeeded; skipped; revoked, when it is cancelled; failed, when River tries it no more;
// retried otherwise, snoozes and panics included.
func (m *Middleware) Work(ctx context.Context, job *rivertype.JobRow, doInner func(context.Context) error) error {
	ctx, run := m.client.Start(ctx, m.task(job))
	last := job.Attempt >= job.MaxAttempts
	defer func() {
		if p := recover(); p != nil {
			if e := emit.PanicOf(p); last {
				run.Fail(e)
			} else {
				run.RetryAs(e, 0)
			}
			panic(p)
		}
	}()
	err := doInner(ctx)
	var snooze *rivertype.JobSnoozeError
	switch {
	case err == nil:
		run.End(nil)
	case errors.As(err, new(*emit.SkipError)):
		run.End(err)
		return nil
	case errors.As(err, &snooze):
		run.RetryAs(event.Error{}, snooze.Duration)
	case errors.As(err, new(*rivertype.JobCancelError)):
		run.Revoke()
	case last:
		run.End(err)
	default:
		run.Retry(err, 0)
	}
	return err
}

// InsertMany tells of the jobs that were inserted, where the options say so.
func (m *Middleware) InsertMany(ctx context.Context, params []*rivertype.JobInsertParams,
	doInner func(context.Context) ([]*rivertype.JobInsertResult, error)) ([]*rivertype.JobInsertResult, error) {
	results, err := doInner(ctx)
	if err != nil || !m.options.Inserts {
		return results, err
	}
	for _, r := range results {
		if r.UniqueSkippedAsDuplicate {
			continue
		}
		sent := m.task(r.Job)
		sent.Retries, sent.Worker = 0, ""
		var eta time.Time
		if r.Job.State == rivertype.JobStateScheduled {
			eta = r.Job.ScheduledAt
		}
		m.client.Sent(sent, eta)
	}
	return results, nil
}

// task says what a job is. Its number is one of its database, and so carries the queue's name.
func (m *Middleware) task(job *rivertype.JobRow) emit.Task {
	sum := sha256.Sum256(job.EncodedArgs)
	t := emit.Task{
		Name: job.Kind, ID: "river:" + strconv.FormatInt(job.ID, 10), BusinessKey: m.key(job), Namespace: m.options.Namespace,
		System: "river", Queue: job.Queue, Retries: max(0, job.Attempt-1) + snoozes(job.Metadata), MaxRetries: max(0, job.MaxAttempts-1),
		ArgsDigest: "sha256:" + hex.EncodeToString(sum[:16]),
	}
	if n := len(job.AttemptedBy); n > 0 {
		t.Worker = job.AttemptedBy[n-1]
	}
	return t
}

// snoozes is how often a job was put off. River does not count that as an attempt, but each is a run of its own.
func snoozes(metadata []byte) int {
	var told struct {
		Snoozes int `json:"snoozes"`
	}
	if json.Unmarshal(metadata, &told) != nil {
		return 0
	}
	return max(told.Snoozes, 0)
}

// key is the job's business key. A function that panics must not fail the job.
func (m *Middleware) key(job *rivertype.JobRow) (key string) {
	defer func() {
		if recover() != nil {
			key = ""
		}
	}()
	if m.options.Key == nil {
		return ""
	}
	return m.options.Key(job)
}
