// Package emitasynq tells the auditor what the tasks of asynq do (github.com/hibiken/asynq).
//
//	mux := asynq.NewServeMux()
//	mux.Use(emitasynq.Middleware(client, emitasynq.Options{Key: func(t *asynq.Task) string { ... }}))
//
// Handlers tell their effects by emit.Effect. One that stands aside returns emit.Skipped, which the middleware tells asynq as success.
// Nothing here waits for the auditor or fails a task: what the client has no room for is dropped and counted. It is safe for concurrent use.
package emitasynq

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/hibiken/asynq"

	"auditor/emit"
)

// Options are how tasks are told of. The zero value will do.
type Options struct {
	Namespace string                   // environment or team
	Worker    string                   // who runs tasks; host/pid when empty
	Key       func(*asynq.Task) string // what a task is about, the same for every copy; nil, or empty text: not known
}

// Middleware tells when each task starts and how it ends: succeeded; skipped; revoked (asynq.RevokeTask); failed, when asynq tries it no
// more; retried otherwise, panics included.
func Middleware(c *emit.Client, o Options) asynq.MiddlewareFunc {
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
			attempts := attemptsOf(ctx)
			ctx, run := c.Start(ctx, o.task(ctx, t, attempts))
			defer func() {
				if p := recover(); p != nil {
					e := emit.PanicOf(p)
					if attempts.last() {
						run.Fail(e)
					} else {
						run.RetryAs(e, 0)
					}
					panic(p)
				}
			}()
			err := next.ProcessTask(ctx, t)
			switch {
			case err == nil:
				run.End(nil)
			case errors.As(err, new(*emit.SkipError)):
				run.End(err)
				return nil
			case errors.Is(err, asynq.RevokeTask):
				run.Revoke()
			case errors.Is(err, asynq.SkipRetry) || attempts.last():
				run.End(err)
			default:
				run.Retry(err, 0)
			}
			return err
		})
	}
}

// Sent tells that a task was put into its queue: what Client.Enqueue has answered.
func Sent(c *emit.Client, t *asynq.Task, info *asynq.TaskInfo, o Options) {
	told := o.describe(t)
	told.ID, told.Queue, told.MaxRetries, told.Deadline = info.ID, info.Queue, info.MaxRetry, info.Deadline
	var eta time.Time
	if info.State == asynq.TaskStateScheduled {
		eta = info.NextProcessAt
	}
	c.Sent(told, eta)
}

// attempts are those of a task: how many there were before, and how many more than the first there may be.
type attempts struct{ retries, most int }

func attemptsOf(ctx context.Context) attempts {
	retries, _ := asynq.GetRetryCount(ctx)
	most, _ := asynq.GetMaxRetry(ctx)
	return attempts{retries, most}
}

// last reports whether asynq tries no more after this one.
func (a attempts) last() bool { return a.retries >= a.most }

func (o Options) task(ctx context.Context, t *asynq.Task, a attempts) emit.Task {
	told := o.describe(t)
	told.Worker, told.Retries, told.MaxRetries = o.Worker, a.retries, a.most
	told.ID, _ = asynq.GetTaskID(ctx)
	told.Queue, _ = asynq.GetQueueName(ctx)
	told.Deadline, _ = ctx.Deadline()
	return told
}

// describe says what a task is, whoever sends or runs it.
func (o Options) describe(t *asynq.Task) emit.Task {
	sum := sha256.Sum256(t.Payload())
	return emit.Task{Name: t.Type(), Namespace: o.Namespace, System: "asynq", BusinessKey: o.key(t), ArgsDigest: "sha256:" + hex.EncodeToString(sum[:16])}
}

// key is the task's business key. A function that panics must not fail the task.
func (o Options) key(t *asynq.Task) (key string) {
	defer func() {
		if recover() != nil {
			key = ""
		}
	}()
	if o.Key == nil {
		return ""
	}
	return o.Key(t)
}
