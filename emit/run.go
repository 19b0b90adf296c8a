package emit

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"auditor/event"
)

// Task is what is known of a task before it runs. Text that is not known is empty.
type Task struct {
	Name        string
	ID          string // the queue's id of the message, the same for every attempt; one by chance when empty
	BusinessKey string // what the work is about, the same for every attempt and every copy
	Namespace   string
	System      string // asynq, river, cron, ...
	Queue       string
	Worker      string // who runs it; host/pid when empty
	Retries     int    // 0 at the first attempt, event.Unknown where it is not known
	MaxRetries  int    // 0 where it is not known
	Deadline    time.Time
	RequestID   string
	RootID      string
	ParentID    string
	Traceparent string
	ArgsDigest  string // digest of the original arguments
	Attributes  string // a JSON object of whatever else there is to tell
}

// Run is one run of a task, from its start to its end. Whatever it tells is offered to the client: it never waits, and never fails the
// task. It is safe for concurrent use.
type Run struct {
	client    *Client
	task      Task
	execution string
	start     time.Time
	ended     atomic.Bool
}

// worker is who runs tasks where nobody says otherwise.
var worker = sync.OnceValue(func() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return host + "/" + strconv.Itoa(os.Getpid())
})

// Start tells that a run of a task begins. The context leads Effect to it. The caller ends it: by End, or by one of the others.
func (c *Client) Start(ctx context.Context, t Task) (context.Context, *Run) {
	t.ID = cmp.Or(t.ID, strings.ToLower(rand.Text()))
	t.Worker = cmp.Or(t.Worker, worker())
	r := &Run{client: c, task: t, execution: strings.ToLower(rand.Text()), start: time.Now()}
	r.tell(event.Started, r.start, nil)
	return context.WithValue(ctx, runKey{}, r), r
}

// Do runs f as a task: it tells the start, and the end that f's error means (see Run.End). A panic of f is told as a failure, and goes
// on.
func (c *Client) Do(ctx context.Context, t Task, f func(context.Context) error) error {
	ctx, run := c.Start(ctx, t)
	defer run.EndPanicking()
	err := f(ctx)
	run.End(err)
	return err
}

type runKey struct{}

// RunOf gives the run that a context belongs to; nil when there is none. Every method of a Run does nothing to nil.
func RunOf(ctx context.Context) *Run {
	r, _ := ctx.Value(runKey{}).(*Run)
	return r
}

// Effect tells that the run which ctx belongs to did something to the world outside. Outside of a run it does nothing. Tell it after
// the thing was done; Deduplicated where the receiver knew the copy and dropped it.
func Effect(ctx context.Context, e event.Effect) { RunOf(ctx).Effect(e) }

// SkipError ends a run that stood aside. It is no failure: a handler returns it from below, and tells the queue success.
type SkipError struct{ event.Skip }

// Error says why the run stood aside, and for whom.
func (e *SkipError) Error() string {
	if e.Holder == "" {
		return "skipped: " + e.Reason
	}
	return fmt.Sprintf("skipped: %s, for %s", e.Reason, e.Holder)
}

// Skipped makes the error of a run that stands aside: reason is duplicate_ignored, already_processed, locked, in_flight,
// already_running, or another; holder is the task id of the run that it stands aside for, empty when it is not known.
func Skipped(reason, holder string) error {
	return &SkipError{event.Skip{Reason: reason, Holder: holder}}
}

// PermanentError ends a run that no retry will heal.
type PermanentError struct{ Err error }

// Error is the cause's.
func (e *PermanentError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *PermanentError) Unwrap() error { return e.Err }

// TaskID is the id of the run's task.
func (r *Run) TaskID() string {
	if r == nil {
		return ""
	}
	return r.task.ID
}

// ExecutionID is the id of the run itself.
func (r *Run) ExecutionID() string {
	if r == nil {
		return ""
	}
	return r.execution
}

// LogValue names the run in a log: slog.Info("charged", "run", emit.RunOf(ctx)).
func (r *Run) LogValue() slog.Value {
	if r == nil {
		return slog.Value{}
	}
	return slog.GroupValue(slog.String("task", r.task.Name), slog.String("task_id", r.task.ID), slog.String("business_key", r.task.BusinessKey),
		slog.String("execution_id", r.execution), slog.Int("retries", r.task.Retries))
}

// Effect tells of something that the run did to the world outside.
func (r *Run) Effect(e event.Effect) {
	r.tell(event.Effected, time.Now(), func(out *event.Event) { out.Effect = &e })
}

// End tells how the run ended: nil is success, a SkipError a run that stood aside, everything else a failure. Only the first end
// of a run is told.
func (r *Run) End(err error) {
	var skip *SkipError
	switch {
	case err == nil:
		r.end(event.Succeeded, nil)
	case errors.As(err, &skip):
		r.end(event.Skipped, func(out *event.Event) { out.Skip = &skip.Skip })
	default:
		r.end(event.Failed, func(out *event.Event) { out.Error = errorOf(err) })
	}
}

// Retry tells that the run failed, and that the queue will run the task again, after a while where that is known (0 otherwise).
func (r *Run) Retry(err error, after time.Duration) { r.retry(errorOf(err), after) }

// RetryAs is Retry for a failure that is no Go error.
func (r *Run) RetryAs(e event.Error, after time.Duration) { r.retry(&e, after) }

func (r *Run) retry(e *event.Error, after time.Duration) {
	r.end(event.Retried, func(out *event.Event) {
		out.Error = e
		if after > 0 {
			out.RetryIn = int((after + time.Second - 1) / time.Second)
		}
	})
}

// Fail tells that the run failed as e says.
func (r *Run) Fail(e event.Error) { r.end(event.Failed, func(out *event.Event) { out.Error = &e }) }

// Revoke tells that the task was called off.
func (r *Run) Revoke() { r.end(event.Revoked, func(out *event.Event) { out.Terminated = true }) }

// EndPanicking is to be deferred: it ends a run whose function panics, and lets the panic go on.
func (r *Run) EndPanicking() {
	if p := recover(); p != nil {
		r.Fail(PanicOf(p))
		panic(p)
	}
}

// PanicOf makes the error of what a function panicked with.
func PanicOf(p any) event.Error { return event.Error{Type: "panic", Message: fmt.Sprint(p)} }

func (r *Run) end(t event.Type, fill func(*event.Event)) {
	if r == nil || r.ended.Swap(true) {
		return
	}
	now := time.Now()
	r.tell(t, now, func(out *event.Event) {
		out.Runtime = now.Sub(r.start).Seconds()
		if fill != nil {
			fill(out)
		}
	})
}

// tell offers an event of the run.
func (r *Run) tell(t event.Type, at time.Time, fill func(*event.Event)) {
	if r == nil {
		return
	}
	e := r.task.event(t, at)
	e.ExecutionID, e.PID = r.execution, os.Getpid()
	if fill != nil {
		fill(&e)
	}
	if err := r.client.Offer(e); err != nil && !errors.Is(err, ErrFull) {
		r.client.log.Warn("an event was not taken", "type", t, "run", r, "error", err)
	}
}

// event makes an event of the task.
func (t Task) event(kind event.Type, at time.Time) event.Event {
	if t.MaxRetries <= 0 {
		t.MaxRetries = event.Unknown
	}
	return event.Event{Type: kind, Time: at, Namespace: t.Namespace, System: t.System, Task: t.Name, TaskID: t.ID, BusinessKey: t.BusinessKey,
		Retries: t.Retries, MaxRetries: t.MaxRetries, RetryIn: event.Unknown, Queue: t.Queue, Worker: t.Worker, Active: event.Unknown,
		Deadline: t.Deadline, RequestID: t.RequestID, RootID: t.RootID, ParentID: t.ParentID, Traceparent: t.Traceparent,
		ArgsDigest: t.ArgsDigest, Attributes: t.Attributes, Seq: event.Unknown}
}

// Sent tells that a task was put into its queue, not to be run before eta where that is not zero. Like a Run it never waits.
func (c *Client) Sent(t Task, eta time.Time) {
	e := t.event(event.Sent, time.Now())
	e.Worker, e.ETA = cmp.Or(t.Worker, worker()), eta
	if err := c.Offer(e); err != nil && !errors.Is(err, ErrFull) {
		c.log.Warn("an event was not taken", "type", event.Sent, "task_id", t.ID, "error", err)
	}
}

// errorOf describes an error by the type that says the most: of a wrapped one, the innermost that is no mere text.
func errorOf(err error) *event.Error {
	if err == nil {
		return nil
	}
	out := &event.Error{Type: "error", Message: err.Error(), Permanent: errors.As(err, new(*PermanentError))}
	for ; err != nil; err = errors.Unwrap(err) {
		if name := fmt.Sprintf("%T", err); !plain[name] {
			out.Type = name
		}
	}
	out.Type = strings.TrimPrefix(out.Type, "*")
	return out
}

// plain are the types of errors that are only words.
var plain = map[string]bool{"*errors.errorString": true, "*fmt.wrapError": true, "*fmt.wrapErrors": true, "*errors.joinError": true, "*emit.PermanentError": true}
