package history

import (
	"cmp"
	"slices"
	"time"

	"auditor/event"
)

// Build rebuilds what happened to a subject from its events, in whatever order they came and however often. Events
// that name no task (a worker's heartbeats) are passed over. The history points into events.
//
// A delivery is recognised by the sender's execution id. Where it gives none, a run opens with the task's arrival at a
// worker, and each later event joins the run of the same worker and attempt that it can belong to.
func Build(subject Subject, events []event.Event) *History {
	h := &History{Subject: subject, told: map[string][]*event.Event{}}
	h.Events, h.Repeats = distinct(events)

	byTask := map[string]*assembly{}
	for _, e := range h.Events {
		if e.TaskID == "" {
			continue
		}
		h.told[e.TaskID] = append(h.told[e.TaskID], e)
		a := byTask[e.TaskID]
		if a == nil {
			a = &assembly{}
			byTask[e.TaskID] = a
			h.taskIDs = append(h.taskIDs, e.TaskID)
		}
		if a.task == "" {
			a.task = e.Task
		}
		if e.Type == event.Sent {
			h.Sent = append(h.Sent, e)
			continue
		}
		a.add(e)
	}
	for _, id := range h.taskIDs {
		h.Runs = append(h.Runs, byTask[id].finish(id)...)
	}
	slices.SortStableFunc(h.Runs, func(a, b *Run) int { return a.Begin().Compare(b.Begin()) })
	h.byTask = make(map[string][]*Run, len(byTask))
	for i, r := range h.Runs {
		r.Number = i + 1
		h.byTask[r.TaskID] = append(h.byTask[r.TaskID], r)
	}
	for _, runs := range h.byTask {
		inOrder(runs)
	}
	return h
}

// skew is how far apart the clocks of two hosts may be, when the order of two deliveries of one task id is told by more
// than their clocks.
const skew = 2 * time.Second

// inOrder puts deliveries of one task id into the order that attempt number and the broker's flag tell, where two clocks
// told the moments and they lie close together.
func inOrder(runs []*Run) {
	for i := 1; i < len(runs); i++ {
		for k := i; k > 0 && runs[k].precedes(runs[k-1]); k-- {
			runs[k-1], runs[k] = runs[k], runs[k-1]
		}
	}
}

// precedes reports whether r came before other for sure, although it seems to begin after it.
func (r *Run) precedes(other *Run) bool {
	if r.Host() == other.Host() || r.Begin().Sub(other.Begin()) > skew {
		return false
	}
	if r.Retries != event.Unknown && other.Retries != event.Unknown && r.Retries != other.Retries {
		return r.Retries < other.Retries
	}
	return !r.redelivered() && other.redelivered()
}

func (r *Run) redelivered() bool {
	return slices.ContainsFunc(r.Events, func(e *event.Event) bool { return e.Redelivered != nil && *e.Redelivered })
}

// distinct orders the events by time and keeps the first of each id. Which arrived first decides nothing, unless two events
// have one id.
func distinct(events []event.Event) (kept []*event.Event, repeats int) {
	sorted := make([]*event.Event, len(events))
	for i := range events {
		sorted[i] = &events[i]
	}
	slices.SortStableFunc(sorted, func(a, b *event.Event) int {
		return cmp.Or(
			a.Time.Compare(b.Time),
			cmp.Compare(a.Type.Rank(), b.Type.Rank()),
			cmp.Compare(a.Retries, b.Retries),
			cmp.Compare(a.ID, b.ID),
			cmp.Compare(a.Topic, b.Topic),
			cmp.Compare(a.Partition, b.Partition),
			cmp.Compare(a.Offset, b.Offset),
			cmp.Compare(a.Index, b.Index))
	})
	seen := make(map[string]bool, len(sorted))
	for _, e := range sorted {
		if e.ID != "" && seen[e.ID] {
			repeats++
			continue
		}
		seen[e.ID] = true
		kept = append(kept, e)
	}
	return kept, repeats
}

// assembly gathers the events of one task id, in order of time, into runs.
type assembly struct {
	task string
	runs []*Run
}

func (a *assembly) add(e *event.Event) {
	r := a.runOf(e)
	if r == nil {
		r = &Run{Retries: event.Unknown}
		a.runs = append(a.runs, r)
	}
	r.join(e)
}

// runOf finds the run that e belongs to, or nil when e begins one.
func (a *assembly) runOf(e *event.Event) *Run {
	if e.ExecutionID != "" {
		if r := a.last(func(r *Run) bool { return r.executionID() == e.ExecutionID }); r != nil {
			return r
		}
	}
	switch e.Type {
	case event.Received:
		return nil
	case event.Started:
		if r := a.first(func(r *Run) bool { return r.mayHold(e) && r.Started == nil && r.End == nil && r.Received != nil }); r != nil {
			return r
		}
		return a.last(func(r *Run) bool { return r.mayHold(e) && r.startedBefore(e.Time) })
	}
	if r := a.closest(e); r != nil {
		return r
	}
	// What is told of a run after its end: a second end, or an effect that was reported late. It can only be told apart
	// from a further run where the sender reports how runs begin.
	return a.last(func(r *Run) bool { return r.mayHold(e) && r.End != nil && (r.Received != nil || r.Started != nil) })
}

// closest picks, among the unfinished runs that e can belong to, the one that fits best: by the runtime that e reports,
// by process, by lacking the effect that e tells, by having been started, and otherwise the youngest, for an older one on
// the same worker may be a corpse.
func (a *assembly) closest(e *event.Event) *Run {
	var best *Run
	for _, r := range a.runs {
		if r.End == nil && r.mayHold(e) && (best == nil || r.fits(e, best)) {
			best = r
		}
	}
	return best
}

func (a *assembly) first(ok func(*Run) bool) *Run {
	if i := slices.IndexFunc(a.runs, ok); i >= 0 {
		return a.runs[i]
	}
	return nil
}

func (a *assembly) last(ok func(*Run) bool) *Run {
	for _, r := range slices.Backward(a.runs) {
		if ok(r) {
			return r
		}
	}
	return nil
}

func (a *assembly) finish(taskID string) []*Run {
	for _, r := range a.runs {
		r.TaskID = taskID
		if r.Task == "" {
			r.Task = a.task
		}
	}
	return a.runs
}

// mayHold reports whether e can be an event of r: the same delivery, worker and attempt, as far as both are known.
func (r *Run) mayHold(e *event.Event) bool {
	id := r.executionID()
	return (id == "" || e.ExecutionID == "" || id == e.ExecutionID) &&
		(r.Worker == "" || e.Worker == "" || r.Worker == e.Worker) &&
		(r.Retries == event.Unknown || e.Retries == event.Unknown || r.Retries == e.Retries)
}

// fits reports whether r suits e at least as well as other does; r is the younger.
func (r *Run) fits(e *event.Event, other *Run) bool {
	if e.Runtime > 0 && r.Started != nil && other.Started != nil {
		start := e.Time.Add(-seconds(e.Runtime))
		return r.Started.Time.Sub(start).Abs() <= other.Started.Time.Sub(start).Abs()
	}
	if e.PID != 0 && (r.PID == e.PID) != (other.PID == e.PID) {
		return r.PID == e.PID
	}
	if did, otherDid := r.did(e), other.did(e); did != otherDid {
		return otherDid
	}
	return r.Started != nil || other.Started == nil
}

// did reports whether the run has told the effect of e before.
func (r *Run) did(e *event.Event) bool {
	return e.Effect != nil && slices.ContainsFunc(r.Effects, func(before *event.Event) bool {
		return before.Effect.Name == e.Effect.Name && before.Effect.Target == e.Effect.Target
	})
}

// clockStep is how much a run's clock may have been set back while it went on.
const clockStep = 100 * time.Millisecond

// startedBefore reports whether r is a run without a start whose end tells that there was one: one told for a moment
// just after that end is its own, by a clock that was set back or another sender's.
func (r *Run) startedBefore(t time.Time) bool {
	if r.Started != nil || r.End == nil || t.Sub(r.End.Time) > clockStep {
		return false
	}
	return r.End.Type == event.Succeeded || r.End.Type == event.Failed || r.End.Type == event.Retried
}

// join adds an event to the run.
func (r *Run) join(e *event.Event) {
	r.Events = append(r.Events, e)
	r.Task = cmp.Or(r.Task, e.Task)
	r.Worker = cmp.Or(r.Worker, e.Worker)
	if r.Retries == event.Unknown {
		r.Retries = e.Retries
	}
	if e.PID != 0 && (r.PID == 0 || e.Type == event.Started) {
		r.PID = e.PID
	}
	switch {
	case e.Type == event.Received && r.Received == nil:
		r.Received = e
	case e.Type == event.Started && r.Started == nil:
		r.Started = e
	case e.Type == event.Effected && e.Effect != nil:
		r.Effects = append(r.Effects, e)
	case e.Type.EndsRun() && r.End == nil:
		r.End = e
	case e.Type.EndsRun():
		r.Conflicting = append(r.Conflicting, e)
	}
}

func (r *Run) executionID() string {
	for _, e := range r.Events {
		if e.ExecutionID != "" {
			return e.ExecutionID
		}
	}
	return ""
}

// seconds gives a sender's number of seconds, however absurd, as a duration.
func seconds(s float64) time.Duration {
	const most = 100 * 365 * 24 * time.Hour
	return time.Duration(min(s, most.Seconds()) * float64(time.Second))
}
