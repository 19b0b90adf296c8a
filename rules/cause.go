package rules

import (
	"fmt"
	"slices"
	"time"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
)

// cause is why an effect happened again.
type cause string

// The causes, the first that fits wins.
const (
	redeliveredWhileRunning cause = "redelivered_while_running"
	workerLost              cause = "worker_lost"
	redeliveredAfterSuccess cause = "redelivered_after_success"
	retriedAfterEffect      cause = "retried_after_effect"
	publishedTwice          cause = "published_twice"
	unknownCause            cause = "unknown"
)

var causes = []cause{redeliveredWhileRunning, workerLost, redeliveredAfterSuccess, retriedAfterEffect, publishedTwice, unknownCause}

func (c cause) rank() int { return slices.Index(causes, c) }

// copyOf is one happening of an effect beyond the first, with the earlier one that it repeats.
type copyOf struct {
	earlier, later done
	cause          cause
	why            string // a sentence that leads from the earlier to the later one
	gap            time.Duration
	timeout        string // the known time-out that gap fits, or ""
	evidence       []finding.Evidence
	doubt          doubt
}

// copyOf finds what made an effect happen again: by the closest earlier run of the same task id or, where there is
// none, by a copy of the task under another id.
func (j *judge) copyOf(earlier []done, later done) copyOf {
	before := earlier[0]
	same := false
	for _, d := range slices.Backward(earlier) {
		if d.run.TaskID == later.run.TaskID {
			before, same = d, true
			break
		}
	}
	c := copyOf{earlier: before, later: later, gap: later.run.Begin().Sub(before.run.Begin())}
	switch {
	case !same:
		c.cause = publishedTwice
		c.why = fmt.Sprintf("The same work stood in the queue a second time under another task id (%s beside %s), and", later.run.TaskID, before.run.TaskID)
		c.evidence = j.publications(before.run, later.run)
	case before.run == later.run:
		c.cause = unknownCause
		c.doubt.raise(likely, "Whether the sender told two deliveries as one can't be seen.")
		c.why = "The same run did it more than once: the repetition is inside the task, not in the queue;"
	default:
		j.redelivery(&c)
	}
	return c
}

// redelivery names the cause when one task id ran twice.
func (j *judge) redelivery(c *copyOf) {
	first, again := c.earlier.run, c.later.run
	if previous := j.previousDelivery(again); previous != nil {
		c.gap = again.Begin().Sub(previous.Begin())
	}
	c.timeout = j.config.timeoutOf(again.Task, c.gap)
	c.evidence = append(c.evidence, quote(beginOf(first), "the earlier delivery"), quote(beginOf(again), "the further delivery"))
	if first.End != nil {
		c.evidence = append(c.evidence, quote(first.End, "the earlier run's end"))
	}
	after := span(c.gap) + " after the delivery before"
	if c.timeout != "" {
		after += ", which fits " + c.timeout
	}
	grew := first.Retries >= 0 && again.Retries > first.Retries
	j.doubtOrder(c)
	switch {
	case j.retriedInto(first, again):
		c.cause = retriedAfterEffect
		c.why = fmt.Sprintf("A later step of the same run ended in %s at %s, so the task was tried again, and", failure(first.End), clock(first.End.Time))
	case lost(first.End):
		c.cause = workerLost
		c.why = fmt.Sprintf("The process was reported lost at %s, before the task was acknowledged; the broker delivered it again (%s), and", clock(first.End.Time), after)
	case first.LastSeen().After(again.Begin()):
		c.cause = redeliveredWhileRunning
		c.why = fmt.Sprintf("While that run was still alive (until %s), the same task was delivered again at %s (%s), and", clock(first.LastSeen()), clock(again.Begin()), after)
	case first.Succeeded():
		c.cause = redeliveredAfterSuccess
		c.why = fmt.Sprintf("That run had ended in success at %s, but its acknowledgement did not reach the broker, which delivered the same task again at %s, and", clock(first.End.Time), clock(again.Begin()))
	case first.End != nil:
		c.cause = retriedAfterEffect
		c.why = fmt.Sprintf("That run ended in %s at %s, so the task went back into the queue, and", failure(first.End), clock(first.End.Time))
	default:
		j.unfinished(c, after, grew)
	}
}

// unfinished names the cause when the earlier run has no end, and nothing of it comes after the further delivery.
func (j *judge) unfinished(c *copyOf, after string, grew bool) {
	first, again := c.earlier.run, c.later.run
	j.doubtEnd(&c.doubt, first)
	l := j.pulse.of(j.history.Subject.Namespace, first, again.Begin())
	switch {
	case l.state == alive && !grew && c.timeout == "" && j.pulse.mayHaveRestarted(j.history.Subject.Namespace, first, again):
		c.cause = workerLost
		c.why = fmt.Sprintf("Nothing was heard of that run or its worker after %s until the same task was delivered to that worker again at %s (%s), as when it was killed and started again under its name, and", clock(first.LastSeen()), clock(again.Begin()), after)
	case l.state == alive:
		c.cause = redeliveredWhileRunning
		c.why = fmt.Sprintf("While that run had not ended and its worker was alive (last heard of at %s), the same task was delivered again at %s (%s), and", clock(l.lastHeard), clock(again.Begin()), after)
	case grew && l.why == silent, grew && l.state == unknown:
		c.doubt.raise(likely, "Neither an end of the first run was seen nor whether its worker lived.")
		c.cause = redeliveredWhileRunning
		c.why = fmt.Sprintf("The same task was started again at %s (%s) under a higher attempt number, with no retry or failure in between: its lease or lock ran out, and", clock(again.Begin()), after)
	case l.state == gone:
		if l.why == silent {
			c.doubt.raise(likely, "The worker sent no heartbeats, by whose end its loss would show.")
		}
		c.cause = workerLost
		c.why = fmt.Sprintf("The worker was gone before it could acknowledge (%s, last heard of at %s); the broker delivered the same task again at %s (%s), and", l.why, clock(l.lastHeard), clock(again.Begin()), after)
	default:
		c.cause = unknownCause
		c.doubt.raise(unsure, "The events do not name the worker.")
		c.why = fmt.Sprintf("That run has no end, and the events do not tell which worker held it; the task was delivered again at %s (%s), and", clock(again.Begin()), after)
	}
}

// doubtOrder raises doubt where what happened first is told by two clocks that may differ by more than what lies between.
func (j *judge) doubtOrder(c *copyOf) {
	first, again := c.earlier.run, c.later.run
	between := first.LastSeen().Sub(again.Begin()).Abs()
	if first.End != nil && (first.End.Type == event.Succeeded) && !sameClock(first, again) && between <= j.config.ClockSkew {
		c.doubt.raise(likely, fmt.Sprintf("The first run's end and the further delivery are %s apart, told by two machines whose clocks may differ by more (rules.clock_skew is %s).", span(between), span(j.config.ClockSkew)))
	}
}

// retryOverlap is how much earlier than the word "retried" its next attempt may be seen: the message is published
// before the event.
const retryOverlap = 2 * time.Second

// retriedInto reports whether again is the attempt that first's retry or failure led to.
func (j *judge) retriedInto(first, again *history.Run) bool {
	end := first.End
	if end == nil || lost(end) || (end.Type != event.Retried && end.Type != event.Failed && end.Type != event.Rejected) {
		return false
	}
	if first.Retries >= 0 && again.Retries >= 0 && again.Retries <= first.Retries {
		return false
	}
	tolerance := retryOverlap
	if !sameClock(first, again) {
		tolerance += j.config.ClockSkew
	}
	return !again.WorkFrom().Before(end.Time.Add(-tolerance))
}

// lost reports whether an end says that the process was lost: told by its parent, or as Celery's pool reports it.
func lost(end *event.Event) bool {
	return end != nil && (end.Type == event.WorkerLost || end.Error != nil && end.Error.Type == "WorkerLostError")
}

// previousDelivery is the delivery of the same task id before r.
func (j *judge) previousDelivery(r *history.Run) *history.Run {
	var previous *history.Run
	for _, other := range j.history.RunsOf(r.TaskID) {
		if other.Number < r.Number {
			previous = other
		}
	}
	return previous
}

// publications quotes how two task ids came into the queue.
func (j *judge) publications(runs ...*history.Run) []finding.Evidence {
	var proof []finding.Evidence
	for _, r := range runs {
		at := slices.IndexFunc(j.history.Sent, func(e *event.Event) bool { return e.TaskID == r.TaskID })
		if at >= 0 {
			proof = append(proof, quote(j.history.Sent[at], "published as "+r.TaskID))
		} else {
			proof = append(proof, quote(beginOf(r), "seen first as "+r.TaskID))
		}
	}
	return proof
}

func beginOf(r *history.Run) *event.Event { return r.Events[0] }

func failure(end *event.Event) string {
	word := map[event.Type]string{event.Retried: "a retry", event.Failed: "a failure", event.Rejected: "a rejection", event.Revoked: "a revocation", event.Skipped: "a skip"}[end.Type]
	if end.Error != nil && end.Error.Type != "" {
		word += " (" + end.Error.Type + ")"
	}
	return word
}

// remedy is what usually mends a cause.
func (c cause) remedy(sameKey bool) string {
	stable := "Derive an idempotency key from the task's arguments, the same for every attempt, and send it with the effect; or guard the effect with a unique constraint on the business key."
	if sameKey {
		stable = "Have the receiver report that it dropped the copy (deduplicated), so that a guarded copy is told from a second effect."
	}
	switch c {
	case redeliveredWhileRunning:
		return "Make the visibility time-out, lease or lock longer than the longest run, or split the task so that it ends in time. " + stable
	case workerLost:
		return stable + " Write the record of the effect in the same transaction as the effect, so that the next delivery finds it."
	case redeliveredAfterSuccess:
		return "Acknowledge as soon as the effect is recorded, and look for lost broker connections at that moment. " + stable
	case retriedAfterEffect:
		return "Do the effect last, or put the failing step into a task of its own, so that its retry does not do the effect again. " + stable
	case publishedTwice:
		return "Publish once: write an outbox row with the order in one transaction, and let the publisher use the business key as task id. " + stable
	default:
		return stable
	}
}

// causesOf lists the distinct causes of copies, in the order in which the first that fits wins.
func causesOf(copies []copyOf) []string {
	var all []string
	for _, c := range causes {
		if slices.ContainsFunc(copies, func(of copyOf) bool { return of.cause == c }) {
			all = append(all, string(c))
		}
	}
	return all
}
