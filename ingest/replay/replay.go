// Package replay sends rejects through again, as they are or mended.
//
// # Contract
//
// A reject is sent once. What is about to be sent is written down before, with the offset at which the partition ends, and
// what came of it after. So a replay that was cut off in between shows, and is not taken for one that never began: sending
// such a reject again has to be asked for. First the store is asked, which knows, by their ids, whether the events have
// arrived since.
//
// Nothing is sent that ingest would reject again, or that makes another event than an earlier replay which may have
// arrived (see reject.Order.Plan). So even what is sent twice counts once.
//
// Of those who replay one reject at the same time one sends it, or none: each writes its intent and then looks for others'.
package replay

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"auditor/event"
	"auditor/event/reject"
	"auditor/ingest"
)

// Store keeps the rejects and their log.
type Store interface {
	// RejectsAt gives the reject at a position whole, with its log; with event.AnyIndex, all of that record.
	RejectsAt(ctx context.Context, at event.Position) ([]reject.Reject, error)
	// RejectLogs gives the logs of rejects as they are now.
	RejectLogs(ctx context.Context, at []event.Position) (map[event.Position][]reject.Entry, error)
	// LogRejects adds entries. Once it returns without an error, RejectLogs gives them to everybody.
	LogRejects(ctx context.Context, entries []reject.Entry) error
	// Arrived tells whether an event is stored of to's partition, from to's offset on, under one of the ids, and where.
	Arrived(ctx context.Context, to event.Position, ids []string) (offset int64, ok bool, err error)
}

// Kafka takes the records.
type Kafka interface {
	// End gives an offset before which the next record of a partition will not be.
	End(ctx context.Context, topic string, partition int32) (int64, error)
	// Partition chooses the partition of a record by its key.
	Partition(ctx context.Context, topic string, key []byte) (int32, error)
	// Send writes a record once and gives its offset. After an *ingest.NotSentError it is surely not in Kafka, after
	// another error it may be.
	Send(ctx context.Context, r event.Record) (int64, error)
}

// Replayer carries out orders. It may be used by many goroutines at once.
type Replayer struct {
	Store   Store
	Kafka   Kafka
	Decoder reject.Decoder // as ingest is configured
	Rate    int            // records a second at most; 0: as fast as it goes
	DryRun  bool           // says what would be done, and writes nothing

	now func() time.Time // nil: time.Now
}

const (
	mostAtOnce   = 50               // whose intents are written together: so many outcomes may be unknown after a crash
	mostFailures = 3                // in a row, after which no more is tried
	settleLimit  = 30 * time.Second // for writing down what came of it, whatever ends
)

// ErrStopped is why the rest of an order was not tried.
var ErrStopped = errors.New("stopped")

// Replay carries out an order on rejects, one after another, and tells the result of each to report. An order with a value
// is for one reject. The error says why the rest was not tried.
func (r *Replayer) Replay(ctx context.Context, at []event.Position, o reject.Order, report func(reject.Result)) error {
	size := mostAtOnce
	if r.Rate > 0 {
		size = min(size, r.Rate)
	}
	run := &run{Replayer: r, order: o, report: report}
	for some := range slices.Chunk(at, size) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := run.some(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// run is one order that is being carried out.
type run struct {
	*Replayer
	order    reject.Order
	report   func(reject.Result)
	failures int // in a row
}

// job is one reject on its way.
type job struct {
	reject  reject.Reject
	plan    reject.Plan
	attempt string
	to      event.Position // with the offset at which the partition ended
}

func (r *run) some(ctx context.Context, at []event.Position) error {
	var jobs []*job
	var err error
	for _, position := range at {
		j := &job{attempt: rand.Text()}
		var result *reject.Result
		if result, err = r.prepare(ctx, j, position); err != nil {
			err = fmt.Errorf("%s: %w", event.FormatPosition(position), err)
			break
		}
		switch {
		case result == nil:
			jobs = append(jobs, j)
			continue
		case result.Outcome == reject.HasFailed:
			err = r.failed(result.Err)
		}
		r.report(*result)
		if err != nil {
			break
		}
	}
	if r.DryRun {
		for _, j := range jobs {
			r.report(j.result(reject.WouldBeSent, event.Position{Topic: j.to.Topic, Partition: j.to.Partition}, nil))
		}
	}
	if len(jobs) == 0 || r.DryRun {
		return err
	}
	return errors.Join(err, r.carryOut(ctx, jobs))
}

// failed counts a failure, and gives an error when there were too many.
func (r *run) failed(why error) error {
	if r.failures++; r.failures < mostFailures {
		return nil
	}
	return fmt.Errorf("%w after %d failures: %w", ErrStopped, r.failures, why)
}

// carryOut writes down what is about to be sent, sends it, and writes down what came of it.
func (r *run) carryOut(ctx context.Context, jobs []*job) error {
	intents := make([]reject.Entry, len(jobs))
	for i, j := range jobs {
		intents[i] = r.entry(j, reject.Intended, j.to, r.order.Note)
	}
	if err := r.Store.LogRejects(ctx, intents); err != nil {
		return fmt.Errorf("write down what is about to be sent: %w", err)
	}
	outcomes, err := r.send(ctx, jobs)
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleLimit)
	defer cancel()
	unlogged := r.Store.LogRejects(settle, outcomes)
	if unlogged != nil {
		unlogged = fmt.Errorf("what came of it could not be written down, and will be taken for unknown: %w", unlogged)
	}
	return errors.Join(err, unlogged)
}

// prepare decides what to do about one reject: a job or, where there is nothing to do, the result. The error is the store's.
func (r *run) prepare(ctx context.Context, j *job, at event.Position) (*reject.Result, error) {
	found, err := r.Store.RejectsAt(ctx, at)
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		refusal := &reject.Refusal{Cause: reject.CauseNotOne, Why: notOne(found)}
		return &reject.Result{Position: at, Outcome: reject.WasRefused, Err: refusal}, nil
	}
	j.reject = found[0]
	if j.reject.State == reject.Unknown {
		if arrived, err := r.settle(ctx, j.reject); err != nil || arrived != nil {
			return arrived, err
		}
	}
	if j.plan, err = r.order.Plan(j.reject, r.Decoder, r.clock()); err != nil {
		return new(j.result(reject.WasRefused, event.Position{}, err)), nil
	}
	if j.to, err = r.target(ctx, j.plan.Record); err != nil {
		return new(j.result(reject.HasFailed, event.Position{}, err)), nil
	}
	j.plan.Record.Partition = j.to.Partition
	return nil, nil
}

// target gives where a record is to go, with the offset at which the partition ends.
func (r *run) target(ctx context.Context, record event.Record) (to event.Position, err error) {
	to = record.Position
	if to.Partition == reject.AnyPartition {
		if to.Partition, err = r.Kafka.Partition(ctx, to.Topic, record.Key); err != nil {
			return to, err
		}
	}
	to.Offset, err = r.Kafka.End(ctx, to.Topic, to.Partition)
	return to, err
}

func notOne(found []reject.Reject) string {
	if len(found) == 0 {
		return "there is no such reject"
	}
	text := "the record has several rejects, name one:"
	for _, one := range found[:min(len(found), 10)] {
		text += " " + event.FormatPosition(one.Position)
	}
	if len(found) > 10 {
		text += " ..."
	}
	return text
}

// settle looks whether a replay whose outcome is unknown has arrived, and writes down that it has.
func (r *run) settle(ctx context.Context, of reject.Reject) (*reject.Result, error) {
	for _, intent := range of.Unsettled() {
		offset, ok, err := r.Store.Arrived(ctx, intent.To, intent.EventIDs)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		sent := intent
		sent.Action, sent.Time, sent.Note = reject.Sent, r.clock(), "found in the store"
		sent.To.Offset = offset
		if !r.DryRun {
			if err := r.Store.LogRejects(ctx, []reject.Entry{sent}); err != nil {
				return nil, err
			}
		}
		return &reject.Result{Position: of.Position, Outcome: reject.HadArrived, To: sent.To, EventIDs: sent.EventIDs, Mended: sent.Mended}, nil
	}
	return nil, nil
}

// send sends the jobs, each once, and gives what to write down of them. The error says why not all were tried.
func (r *run) send(ctx context.Context, jobs []*job) (outcomes []reject.Entry, err error) {
	end := func(j *job, action reject.Action, outcome reject.Outcome, to event.Position, why error) {
		note := r.order.Note
		if why != nil {
			note = why.Error()
		}
		outcomes = append(outcomes, r.entry(j, action, to, note))
		r.report(j.result(outcome, to, why))
	}
	rivals, err := r.rivals(ctx, jobs)
	for _, j := range jobs {
		if err == nil {
			err = r.pause(ctx)
		}
		switch {
		case err != nil:
			end(j, reject.NotSent, reject.HasFailed, event.Position{}, fmt.Errorf("%w before it was tried", ErrStopped))
			continue
		case rivals[j.reject.Position]:
			end(j, reject.NotSent, reject.WasRefused, event.Position{}, &reject.Refusal{Cause: reject.CauseAtOnce, Why: "somebody else replays it at the same time"})
			continue
		}
		offset, failure := r.Kafka.Send(context.WithoutCancel(ctx), j.plan.Record) // whose own time limit is short
		switch {
		case failure == nil:
			to := j.to
			to.Offset = offset
			end(j, reject.Sent, reject.WasSent, to, nil)
			r.failures = 0
		case errors.As(failure, new(*ingest.NotSentError)):
			end(j, reject.NotSent, reject.HasFailed, event.Position{}, failure)
			err = r.failed(failure)
		default:
			end(j, reject.Unclear, reject.WasLeftOpen, event.Position{}, failure)
			err = fmt.Errorf("%w, for nobody can say whether the last record arrived: %w", ErrStopped, failure)
		}
	}
	return outcomes, err
}

// rivals tells which rejects somebody else is about to send, or has sent since they were read. Of two who ask at the same
// time at least one sees the other, for each has written its intent before.
func (r *run) rivals(ctx context.Context, jobs []*job) (map[event.Position]bool, error) {
	at := make([]event.Position, len(jobs))
	for i, j := range jobs {
		at[i] = j.reject.Position
	}
	logs, err := r.Store.RejectLogs(ctx, at)
	if err != nil {
		return nil, err
	}
	rivals := make(map[event.Position]bool)
	for _, j := range jobs {
		now := reject.Reject{Log: logs[j.reject.Position]}
		theirs := func(e reject.Entry) bool {
			same := func(known reject.Entry) bool { return known.Attempt == e.Attempt }
			return e.Attempt != j.attempt && !slices.ContainsFunc(j.reject.Log, same)
		}
		sent := func(e reject.Entry) bool { return e.Action == reject.Sent && theirs(e) }
		rivals[j.reject.Position] = slices.ContainsFunc(now.Unsettled(), theirs) || slices.ContainsFunc(now.Log, sent)
	}
	return rivals, nil
}

// pause keeps to the rate.
func (r *run) pause(ctx context.Context) error {
	if r.Rate <= 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Second / time.Duration(r.Rate)):
		return ctx.Err()
	}
}

func (r *run) entry(j *job, action reject.Action, to event.Position, note string) reject.Entry {
	e := reject.Entry{Position: j.reject.Position, KafkaTime: j.reject.KafkaTime, Time: r.clock(), Action: action, Attempt: j.attempt, By: r.order.By, Note: note}
	if action == reject.Intended || action == reject.Sent {
		e.To, e.Mended, e.Digest, e.EventIDs = to, j.plan.Mended, j.plan.Digest, j.plan.EventIDs
	}
	return e
}

func (j *job) result(outcome reject.Outcome, to event.Position, err error) reject.Result {
	return reject.Result{Position: j.reject.Position, Outcome: outcome, To: to, EventIDs: j.plan.EventIDs, Mended: j.plan.Mended, Err: err}
}

func (r *Replayer) clock() time.Time {
	if r.now != nil {
		return r.now()
	}
	return time.Now().UTC().Truncate(time.Microsecond)
}
