package rules

import (
	"cmp"
	"slices"
	"time"

	"auditor/event"
	"auditor/event/history"
)

// suspects says which subjects may be in trouble, by the numbers that their tasks told: whatever a judge would find something of is
// among them. Their histories are read, those of the others are not. Besides, it says which tasks have no end.
type suspects struct {
	config      *Config
	p99         map[string]time.Duration
	drifting    map[uint64]bool // keys that are suspect for what is known of them besides
	loopRetries int
	stuckAfter  map[string]time.Duration // by task, of those that were asked for
	subjects    map[history.Subject]*suspect
	tasks       []history.Pending // those that have no end, or were noted to have none
}

func newSuspects(config *Config, p99 map[string]time.Duration, drifting map[uint64]bool) *suspects {
	return &suspects{config: config, p99: p99, drifting: drifting, loopRetries: config.leastRetries(), stuckAfter: map[string]time.Duration{},
		subjects: map[history.Subject]*suspect{}}
}

// suspect is what the tasks of one subject told together. It grows with the names of its tasks and effects, not with its events.
type suspect struct {
	hash uint64 // of its key
	sure bool   // one of its tasks is enough

	effects, successes, atWork int
	kinds                      map[uint64]bool // of effects
	succeeded, worked          map[string]bool // names of tasks

	skipped                   map[string]bool
	firstSkip, lastSkip       time.Time
	firstSuccess, lastSuccess time.Time
	did, endedBadly, open     bool
}

// add takes in what a task told.
func (s *suspects) add(t *history.Told) {
	of := s.subjects[t.Subject]
	if of == nil {
		of = &suspect{hash: t.KeyHash}
		s.subjects[t.Subject] = of
	}
	phase, open := phaseOf(t)
	if open || t.Waited {
		s.tasks = append(s.tasks, history.Pending{Subject: t.Subject, PendingTaskID: t.ID, Task: t.Task, Phase: phase, Since: t.LastStep,
			Due: dueOf(t, phase).Add(s.stuckAfterOf(t.Task)), Open: open})
	}
	of.sure = of.sure || t.Found || s.drifting[t.KeyHash] || t.Retries >= s.loopRetries ||
		deliveredAgain(t) || beganElsewhere(t) || contradicts(t) || late(t)
	of.open = of.open || open
	of.endedBadly = of.endedBadly || endedBadly(t)
	of.did = of.did || t.Did
	of.add(t)
}

// stuckAfterOf is Config.stuckAfterOf, which takes as long as there are patterns.
func (s *suspects) stuckAfterOf(task string) time.Duration {
	after, known := s.stuckAfter[task]
	if !known {
		after = s.config.stuckAfterOf(task, s.p99)
		s.stuckAfter[task] = after
	}
	return after
}

func (of *suspect) add(t *history.Told) {
	of.effects += t.Effects
	for _, kind := range t.Kinds {
		enter(&of.kinds, kind)
	}
	if t.Successes > 0 {
		of.successes += t.Successes
		enter(&of.succeeded, t.Task)
		of.firstSuccess, of.lastSuccess = earliest(of.firstSuccess, t.FirstSuccess), later(of.lastSuccess, t.LastSuccess)
	}
	if t.Skips > 0 {
		enter(&of.skipped, t.Task)
		of.firstSkip, of.lastSkip = earliest(of.firstSkip, t.FirstSkip), later(of.lastSkip, t.LastSkip)
	} else if t.Ran {
		of.atWork++
		enter(&of.worked, t.Task)
	}
}

func enter[T comparable](all *map[T]bool, one T) {
	if *all == nil {
		*all = map[T]bool{}
	}
	(*all)[one] = true
}

// earliest is the earlier of two times of which zero ones are none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// all gives the subjects that may be in trouble, in the order in which their events lie: as many as are read at once lie together.
func (s *suspects) all() []history.Subject {
	var all []history.Subject
	swallowed := s.config.leastSwallowed()
	for subject, of := range s.subjects {
		if of.inTrouble(swallowed) {
			all = append(all, subject)
		}
	}
	slices.SortFunc(all, func(a, b history.Subject) int { return cmp.Compare(s.subjects[a].hash, s.subjects[b].hash) })
	return all
}

func (of *suspect) inTrouble(swallowed time.Duration) bool {
	switch {
	case of.sure, of.effects > len(of.kinds), of.successes > len(of.succeeded),
		of.atWork > len(of.worked), // several ids of one task at work
		of.did && of.endedBadly:    // effects, and an end that is no success
		return true
	case len(of.skipped) == 0:
		return false
	}
	// A run stood aside, and the work was not done at about that time, or another run has no good end.
	for name := range of.skipped {
		if !of.succeeded[name] {
			return true
		}
	}
	return of.lastSuccess.Before(of.lastSkip.Add(-swallowed)) || of.firstSuccess.After(of.firstSkip.Add(swallowed)) || of.endedBadly || of.open
}

// deliveredAgain reports whether a task was delivered more often, or ended more often, than it had attempts.
func deliveredAgain(t *history.Told) bool {
	return max(t.Starts, t.Receipts) > t.Attempts || t.Ends > t.EndedAttempts || max(t.UnnumberedStarts, t.UnnumberedReceipts) > 1+t.Retries
}

// beganElsewhere reports whether the first attempt of a task, or its first delivery, is not among the events of this key.
func beganElsewhere(t *history.Told) bool {
	return t.FirstAttempt > 0 || t.Received == 1 && t.ReceivedAgain == 1
}

// contradicts reports whether one attempt may have both succeeded and failed.
func contradicts(t *history.Told) bool {
	good, bad := t.GoodAttempts, t.BadAttempts
	if len(good) == 0 || len(bad) == 0 {
		return false
	}
	return slices.Contains(good, event.Unknown) || slices.Contains(bad, event.Unknown) ||
		slices.ContainsFunc(good, func(attempt int32) bool { return slices.Contains(bad, attempt) })
}

// late reports whether a task was begun after it expired, or at work after its deadline.
func late(t *history.Told) bool {
	return !t.Expires.IsZero() && t.LastStart.After(t.Expires) || !t.Deadline.IsZero() && t.LastWork.After(t.Deadline)
}

// phaseOf tells how far a task has come by its last word, and whether it is still to go on.
func phaseOf(t *history.Told) (phase history.Phase, open bool) {
	switch last := event.Type(t.Last); last {
	case event.Sent, event.Received, event.Started:
		return history.Phase(t.Last), true
	case event.Effected, event.WorkerLost:
		return history.PhaseStarted, true
	case event.Retried:
		return history.PhaseRetry, true
	case event.Rejected:
		if t.Requeue {
			return history.PhaseRetry, true
		}
	}
	return history.Phase(t.Last), false
}

func endedBadly(t *history.Told) bool {
	switch event.Type(t.Last) {
	case event.Failed, event.Revoked:
		return true
	case event.Rejected:
		return !t.Requeue
	}
	return false
}

// dueOf is from when on a task without an end could have gone on.
func dueOf(t *history.Told, phase history.Phase) time.Time {
	due := t.LastStep
	if phase == history.PhaseStarted {
		return due
	}
	if phase == history.PhaseRetry && t.RetryIn > 0 {
		due = due.Add(time.Duration(t.RetryIn) * time.Second)
	}
	return later(due, t.ETA)
}
