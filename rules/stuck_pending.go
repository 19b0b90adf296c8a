package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
)

// waiting is how a task without an end stands.
type waiting struct {
	history.Pending
	run  *history.Run // the last delivery; nil while it is only published
	last *event.Event // the last word of the task
}

// stuckPending finds the tasks of the history that should have ended long ago, and says for every task how it stands,
// so that the ones that only wait are looked at again when they are due.
func (j *judge) stuckPending() (found []finding.Finding, tasks []history.Pending) {
	for _, id := range j.history.TaskIDs() {
		w := j.waiting(id)
		if w.Open && !w.Due.After(j.asOf) {
			found = append(found, j.stuck(w))
			// It stays stuck without a further event; its worker may yet say that it is idle, or be lost.
			w.Due = j.asOf.Add(max(recheck, j.asOf.Sub(w.Since)/4))
		}
		tasks = append(tasks, w.Pending)
	}
	return found, tasks
}

// waiting tells how the task id stands at the moment of judgement. Its last delivery decides: an earlier one without an
// end was followed by another.
func (j *judge) waiting(id string) waiting {
	w := waiting{Pending: history.Pending{Subject: j.history.Subject, PendingTaskID: id}}
	var expires, eta, arrived time.Time
	for _, e := range j.history.EventsOf(id) {
		if w.Task == "" {
			w.Task = e.Task
		}
		arrived = later(arrived, e.KafkaTime)
		if w.last == nil || e.Type != event.Sent || e.Retries > w.last.Retries {
			w.last = e
		}
		if !e.Expires.IsZero() {
			expires = e.Expires
		}
		if !e.ETA.IsZero() {
			eta = e.ETA
		}
	}
	if runs := j.history.RunsOf(id); len(runs) > 0 {
		w.run = runs[len(runs)-1]
	}
	w.phase()
	if w.Open && w.run != nil && j.endedAfter(w.run) {
		w.Open = false // an earlier delivery outlived it and came to an end
	}
	if !w.Open {
		return w
	}
	if w.Phase != history.PhaseStarted {
		if !expires.IsZero() && !expires.After(j.asOf) {
			w.Open = false
			return w
		}
		w.Since = later(w.Since, eta)
	} else if idle := j.pulse.idleAfter(j.history.Subject.Namespace, w.run, w.last.Time); !idle.IsZero() {
		w.Open = false // it ended without a word, as a task does that tells its worker to ignore it
		return w
	}
	w.Due = w.Since.Add(j.stuckAfter(w.Task))
	if j.grace > 0 {
		w.Due = later(w.Due, arrived.Add(j.grace))
	}
	return w
}

// endedAfter reports whether another delivery of r's task came to its end after the last word of r, as far as their clocks
// can tell.
func (j *judge) endedAfter(r *history.Run) bool {
	return slices.ContainsFunc(j.history.RunsOf(r.TaskID), func(other *history.Run) bool {
		if other == r || other.End == nil {
			return false
		}
		early := r.LastSeen().Sub(other.End.Time)
		if early >= 0 && (sameClock(other, r) || early > j.config.ClockSkew) {
			return false
		}
		switch other.End.Type {
		case event.Succeeded, event.Failed, event.Revoked, event.Skipped:
			return true
		}
		return false
	})
}

// phase sets how far the task has come and since when, from its last delivery.
func (w *waiting) phase() {
	r := w.run
	w.Open = true
	switch {
	case r == nil:
		w.Phase, w.Since = history.PhaseSent, w.last.Time
	case r.End == nil && r.Started == nil && len(r.Effects) == 0:
		w.Phase, w.Since = history.PhaseReceived, r.Begin()
	case r.End == nil:
		w.Phase, w.Since = history.PhaseStarted, r.Begin()
		if r.Started != nil {
			w.Since = r.Started.Time
		}
	case r.End.Type == event.Retried:
		w.Phase, w.Since = history.PhaseRetry, r.End.Time
		if r.End.RetryIn > 0 {
			w.Since = w.Since.Add(time.Duration(r.End.RetryIn) * time.Second)
		}
	case r.End.Type == event.Rejected && r.End.Requeue:
		w.Phase, w.Since = history.PhaseRetry, r.End.Time
	case r.End.Type == event.WorkerLost:
		w.Phase, w.Since = history.PhaseStarted, r.End.Time
	default:
		w.Open = false
	}
}

func (j *judge) stuck(w waiting) finding.Finding {
	s := w.Subject
	f := finding.Finding{
		ID:          finding.ID(StuckPending, s.Namespace, w.Task, s.String()+"\x00"+w.PendingTaskID),
		Rule:        StuckPending,
		Severity:    finding.Warning,
		Namespace:   s.Namespace,
		Task:        w.Task,
		BusinessKey: s.BusinessKey,
		TaskIDs:     []string{w.PendingTaskID},
		FirstSeen:   w.Since,
		LastSeen:    later(w.Since, w.last.Time),
		Fields: map[string]any{
			"phase": w.Phase, "since": w.Since, "due": w.Since.Add(j.stuckAfter(w.Task)), "retries": w.last.Retries,
			"worker": "", "worker_state": unknown,
		},
		Evidence: []finding.Evidence{quote(w.last, "the last word of the task")},
	}
	f.Title = fmt.Sprintf("%s for %s is stuck: %s and no end", nameOf(w.Task), s, phaseWords[w.Phase])
	limit := span(j.stuckAfter(w.Task))
	var b strings.Builder
	switch w.Phase {
	case history.PhaseSent:
		fmt.Fprintf(&b, "It was published at %s and no worker has received it since; it was due within %s.", clock(w.last.Time), limit)
		f.Remedy = "Look at the queue: a queue that no worker reads, a routing key that nobody binds, or workers that are full of waiting tasks."
	case history.PhaseReceived:
		fmt.Fprintf(&b, "%s received it at %s and has not started it; it was due to start by %s.", workerOf(w.run), clock(w.run.Begin()), clock(w.Since.Add(j.stuckAfter(w.Task))))
		f.Remedy = "Lower the prefetch count so that a worker does not hold tasks it can't start, and look at what keeps this worker busy."
	case history.PhaseRetry:
		fmt.Fprintf(&b, "%s ended its last attempt at %s with %s, and the next attempt has not come; it was due at %s.", workerOf(w.run), clock(w.run.End.Time), failure(w.run.End), clock(w.Since))
		f.Remedy = "Look at the scheduler or delay queue that holds retries; publish the task again if it is gone, and end the pending record by a sweep that compares it with the queue."
	default:
		fmt.Fprintf(&b, "%s started it at %s and no end was seen; a run of this task is expected to end within %s.", workerOf(w.run), clock(w.Since), limit)
		f.Remedy = "Give the task a time limit and the pending record an expiry; acknowledge late, so that a lost worker's task is delivered again; sweep what is pending for longer than the longest run."
	}
	if w.run != nil {
		f.Evidence = append([]finding.Evidence{quote(beginOf(w.run), "its last delivery")}, f.Evidence...)
		l := j.pulse.of(s.Namespace, w.run, later(w.last.Time, j.asOf.Add(-recently)))
		if w.run.End != nil && lost(w.run.End) {
			l = life{gone, w.run.End.Time, "it was reported lost"}
		}
		f.Fields["worker"], f.Fields["worker_state"] = w.run.Worker, l.state
		switch l.state {
		case alive:
			fmt.Fprintf(&b, " The worker is alive (last heard of at %s), so the run hangs or its end was not told.", clock(l.lastHeard))
		case gone:
			fmt.Fprintf(&b, " The worker is gone: %s (last heard of at %s).", l.why, clock(l.lastHeard))
		}
	}
	if f.Evidence[0].EventID == f.Evidence[len(f.Evidence)-1].EventID {
		f.Evidence = f.Evidence[:1]
	}
	j.stuckDoubt(&f, w)
	f.Explanation = sameDay(b.String())
	return f
}

// stuckDoubt lowers a stuck task to an information where the events that followed may have been lost, and tells what it
// may come from.
func (j *judge) stuckDoubt(f *finding.Finding, w waiting) {
	var d doubt
	if w.run != nil {
		if g, ok := j.lostAfter(w.run); ok {
			f.Severity = finding.Info
			f.Fields["evidence_missing"] = true
			d.raise(unsure, fmt.Sprintf("Events of %s were lost after the last word of the task (numbers %d to %d): its end may have been among them.", g.Emitter, g.First, g.Last))
		}
	}
	if anotherSpeaksNext(w) {
		for _, g := range j.gapsOfAll {
			if g.Before.After(w.last.Time.Add(-j.config.ClockSkew)) && g.After.Before(w.Since.Add(soon)) {
				f.Severity = finding.Info
				f.Fields["evidence_missing"] = true
				d.raise(unsure, fmt.Sprintf("Events of %s were lost at about the time when the next word of the task was due (numbers %d to %d): it may have had the task.", g.Emitter, g.First, g.Last))
				break
			}
		}
	}
	d.into(f)
	r := root{rootStuck, nameOf(w.Task) + ", " + string(w.Phase), w.Since, ""}
	if w.run != nil && w.Phase != history.PhaseRetry && f.Fields["worker_state"] == gone {
		r = root{rootWorkerLost, "", later(w.run.LastSeen(), j.pulse.of(f.Namespace, w.run, w.last.Time).lastHeard), w.run.Worker}
	}
	r.into(f)
}

// soon is how long after its time the next word of a task that waits for a worker is usually told. What was lost later than
// that says nothing of it: else a single event that was lost anywhere would silence every task that nobody receives.
const soon = time.Minute

// anotherSpeaksNext reports whether the next word of a task is not its last worker's: whose it is can't be known.
func anotherSpeaksNext(w waiting) bool {
	return w.Phase == history.PhaseSent || w.Phase == history.PhaseRetry || w.run != nil && lost(w.run.End)
}

// awaitsAnother reports whether a task of the history is stuck for the want of a word that another emitter would have had.
func (j *judge) awaitsAnother() bool {
	return slices.ContainsFunc(j.history.TaskIDs(), func(id string) bool {
		w := j.waiting(id)
		return w.Open && !w.Due.After(j.asOf) && anotherSpeaksNext(w)
	})
}

func (j *judge) stuckAfter(task string) time.Duration { return j.config.stuckAfterOf(task, j.p99) }

// recently is how long ago a worker that counts as alive was heard of.
const recently = 5 * time.Minute

var phaseWords = map[history.Phase]string{
	history.PhaseSent: "published", history.PhaseReceived: "received", history.PhaseStarted: "started", history.PhaseRetry: "waiting for its next attempt",
}
