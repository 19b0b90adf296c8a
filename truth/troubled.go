package main

import (
	"fmt"
	"time"

	"auditor/event"
)

// troubled lists what goes wrong by itself; what goes wrong with a worker, a broker or a whole population is planned.
var troubled = []*script{
	{name: "acknowledgement lost", weight: 120, amiss: true, tell: lostAck},
	{name: "acknowledgement lost, delivered again at once", weight: 60, amiss: true, tell: lostAckAtOnce},
	{name: "acknowledgement lost again and again", weight: 20, amiss: true, tell: lostAckOften},
	{name: "outlived the visibility time-out", weight: 60, amiss: true, tell: outlived},
	{name: "connection lost while running", weight: 90, amiss: true, tell: connectionLost},
	{name: "lease ran out, and the attempt number grew", weight: 50, amiss: true, tell: leaseRanOut},
	{name: "retried after its effect", weight: 150, amiss: true, tell: retriedAfter},
	{name: "given back after its effect", weight: 40, amiss: true, tell: givenBackAfter},
	{name: "idempotency key of each attempt's own", weight: 60, amiss: true, tell: driftingIdempotency},
	{name: "published twice", weight: 150, amiss: true, tell: publishedTwice},
	{name: "published twice, and run side by side", weight: 80, amiss: true, tell: sideBySide},
	{name: "published twice, run side by side, and guarded", weight: 80, amiss: true, tell: sideBySideGuarded},
	{name: "run side by side for a moment", weight: 40, amiss: true, tell: sideBySideShortly},
	{name: "child lost after its effect", weight: 70, amiss: true, tell: childLostAfter},
	{name: "did it twice in one run", weight: 20, amiss: true, tell: twiceInOneRun},
	{name: "given back again and again", weight: 60, amiss: true, tell: givenBackForEver},
	{name: "kills its child again and again", weight: 30, amiss: true, tell: poison},
	{name: "retries in a tight loop", weight: 60, amiss: true, tell: tightLoop},
	{name: "never received", weight: 60, amiss: true, tell: neverReceived},
	{name: "never started", weight: 60, amiss: true, tell: neverStarted},
	{name: "hangs", weight: 60, amiss: true, tell: hangs},
	{name: "retry never comes", weight: 60, amiss: true, tell: retryNeverComes},
	{name: "swallowed by its own dedup row", weight: 60, amiss: true, tell: swallowedByRow},
	{name: "swallowed by the lock of a dead run", weight: 50, amiss: true, tell: swallowedByLock},
	{name: "swallowed for an hour", weight: 40, amiss: true, tell: swallowedForAnHour},
	{name: "business key of each attempt's own", weight: 50, amiss: true, tell: driftingKey},
	{name: "started after it had expired", weight: 70, amiss: true, tell: startedLate},
	{name: "went on after its deadline", weight: 60, amiss: true, tell: wentOnLate},
	{name: "a moment too late", weight: 30, amiss: true, tell: momentLate},
	{name: "failed between its effects", weight: 80, amiss: true, tell: failedBetween},
	{name: "failed half-way through its targets", weight: 40, amiss: true, tell: failedBetweenTargets},
	{name: "child lost half-way, and never delivered again", weight: 40, amiss: true, tell: lostBetween},
	{name: "marked failed after its success", weight: 60, amiss: true, tell: failedAfterSuccess},
	{name: "succeeded after it was marked failed", weight: 40, amiss: true, tell: succeededAfterFailure},
}

// begin publishes a job of the story's task and lets it wait for a worker.
func (s *story) begin() *job {
	j := s.newJob()
	s.publish(j)
	s.queue()
	return j
}

func lostAck(s *story) {
	s.task = s.among(func(t *task) bool { return repeatable(t) && lateAck(t) })
	j := s.begin()
	if s.chance(4) { // the receiver may have dropped the copies, and does not say so
		j.idem = "once-" + s.key
	}
	r := s.run(j, published, nil)
	s.pause(4500*ms, time.Minute)
	s.run(j, ackLost, r)
}

func lostAckAtOnce(s *story) {
	s.task = s.among(func(t *task) bool { return repeatable(t) && lateAck(t) })
	j := s.begin()
	r := s.run(j, published, nil)
	s.pause(20*ms, 1500*ms)
	s.run(j, ackLost, r)
}

func lostAckOften(s *story) {
	s.task = sendReceipt
	j := s.begin()
	r := s.run(j, published, nil)
	for range 4 + s.rng.IntN(5) {
		s.pause(10*time.Second, 4*time.Minute)
		r = s.run(j, ackLost, r)
	}
}

// beside lets a job run a second time, from a moment at which the first run is at work, which goes on until over.
func (s *story) beside(r *run, by via, at, over, length time.Duration) {
	s.at = at
	second := s.deliver(r.job, s.worker(2*length+time.Second, r.process), by, r)
	s.act(second, length)
	s.succeed(second)
	after := s.at
	s.at = over
	s.succeed(r)
	s.at = max(after, over)
}

// outlived runs longer than the broker waits for its acknowledgement.
func outlived(s *story) {
	s.task = buildReport
	j := s.begin()
	limit, sweep := s.fleet.broker.visibility, 95*time.Second
	if limit == 0 {
		limit, sweep = 30*time.Minute, 60*time.Second
	}
	length := limit + sweep + s.between(time.Minute, 8*time.Minute)
	p := s.worker(2 * limit)
	arrived := s.at
	r := s.deliver(j, p, published, nil)
	s.act(r, length)
	s.beside(r, whileRunning, arrived+limit+s.below(sweep), s.at+s.between(5*time.Second, time.Minute), s.between(30*time.Second, 10*time.Minute))
}

func connectionLost(s *story) {
	s.task = buildReport
	j := s.begin()
	length := s.between(time.Minute, 6*time.Minute)
	r := s.deliver(j, s.worker(2*length), published, nil)
	began := s.at
	s.act(r, length)
	s.beside(r, whileRunning, began+s.between(5*time.Second, length/2), s.at+s.between(time.Second, 20*time.Second), s.length(j.task))
}

func leaseRanOut(s *story) {
	t := *buildReport
	t.name, t.lean, t.executions = "video.encode", s.chance(2), s.chance(2)
	s.task = &t
	j := s.begin()
	length := s.between(3*time.Minute, 8*time.Minute)
	r := s.deliver(j, s.worker(2*length), published, nil)
	began := s.at
	s.act(r, length)
	j.retries++
	s.beside(r, whileRunning, began+s.between(time.Minute, length/2), s.at+s.between(time.Second, 20*time.Second), s.between(time.Minute, 2*time.Minute))
}

func retriedAfter(s *story) {
	s.task = s.among(func(t *task) bool { return repeatable(t) && len(t.effects) > 0 })
	j := s.begin()
	var r *run
	by := published
	for range 1 + s.rng.IntN(3) {
		length := s.length(j.task)
		r = s.deliver(j, s.worker(2*length+time.Second), by, r)
		s.act(r, length)
		s.tryAgain(r, event.Error{Type: "ConnectionError", Message: "upstream 503"})
		by = retried
	}
	s.run(j, retried, r)
}

func givenBackAfter(s *story) {
	s.task = s.among(func(t *task) bool { return repeatable(t) && len(t.effects) > 0 && lateAck(t) })
	j := s.begin()
	length := s.length(j.task)
	r := s.deliver(j, s.worker(2*length+time.Second), published, nil)
	s.act(r, length)
	s.reject(r)
	s.pause(5*time.Second, 30*time.Second)
	s.run(j, requeued, r)
}

func driftingIdempotency(s *story) {
	s.task = settleOrder
	j := s.begin()
	j.idem = "charge-" + j.id + "-0"
	length := s.length(j.task)
	r := s.deliver(j, s.worker(2*length+time.Second), published, nil)
	s.act(r, length)
	s.tryAgain(r, event.Error{Type: "DeadlockDetected", Message: "deadlock detected"})
	j.idem = "charge-" + j.id + "-1"
	s.run(j, retried, r)
}

// copyJob is a further message for the same work.
func (s *story) copyJob() *job {
	j := s.newJob()
	if s.task.guarded {
		j.idem = "charge-" + j.id // made of the message, so that no receiver can tell
	}
	return j
}

func publishedTwice(s *story) {
	s.task = s.among(func(t *task) bool { return t != buildReport && t != pushNews })
	for range 2 + s.rng.IntN(4)/3 {
		j := s.copyJob()
		s.publish(j)
		s.queue()
		s.run(j, published, nil)
		s.pause(2*time.Second, 5*time.Minute)
	}
}

// sideBySide runs two copies at once.
func sideBySide(s *story) {
	s.task = buildReport
	s.copies(s.between(30*time.Second, 3*time.Minute), s.within)
}

// sideBySideGuarded runs two copies at once, of which the second effect is dropped.
func sideBySideGuarded(s *story) {
	t := *settleOrder
	t.name = "shop.settle_invoice"
	s.task = &t
	s.copies(s.between(10*time.Second, time.Minute), s.within)
}

// within is a moment in a span that leaves enough of it for any two clocks to agree.
func (s *story) within(length time.Duration) time.Duration { return s.between(0, length-5*time.Second) }

// sideBySideShortly runs two copies of which one ends about when the other begins.
func sideBySideShortly(s *story) {
	t := *settleOrder
	t.name = "shop.settle_invoice"
	s.task = &t
	s.copies(s.between(10*time.Second, time.Minute), func(length time.Duration) time.Duration { return s.between(length-1900*ms, length+1900*ms) })
}

// copies runs two copies, each about so long, the second a time after the first that may depend on how long that takes.
func (s *story) copies(length time.Duration, after func(length time.Duration) time.Duration) {
	first := s.begin()
	began := s.at
	r := s.deliver(first, s.worker(2*length+time.Second), published, nil)
	one := s.sketch(r, length)
	s.at = began + after(one.over()-began)
	second := s.newJob()
	s.publish(second)
	o := s.deliver(second, s.worker(2*length+time.Second, r.process), published, nil)
	s.unroll(one, s.sketch(o, length)) // what comes first is done first: the receiver drops the later effect
}

func childLostAfter(s *story) {
	s.task = s.among(func(t *task) bool { return repeatable(t) && len(t.effects) > 0 && lateAck(t) })
	j := s.begin()
	length := s.length(j.task)
	r := s.deliver(j, s.worker(2*length+time.Second), published, nil)
	s.act(r, length)
	s.loseChild(r)
	s.pause(100*ms, time.Minute)
	s.run(j, lostWorker, r)
}

func twiceInOneRun(s *story) {
	s.task = sendReceipt
	j := s.begin()
	length := s.length(j.task)
	r := s.deliver(j, s.worker(2*length+time.Second), published, nil)
	s.act(r, length)
	s.effect(r, j.task.effects[0], s.targetsOf(j.task)[0])
	s.pause(ms, 100*ms)
	s.succeed(r)
}

func givenBackForEver(s *story) {
	j := s.begin()
	r := s.attempt(j, published, nil)
	for range 5 + s.rng.IntN(20) {
		s.reject(r)
		s.pause(time.Second, 2*time.Minute)
		r = s.attempt(j, requeued, r)
	}
	s.fail(r, event.Error{Type: "ValueError", Message: "no such image"})
}

func poison(s *story) {
	s.task = s.among(func(t *task) bool { return lateAck(t) })
	j := s.begin()
	r := s.attempt(j, published, nil)
	for range 5 + s.rng.IntN(4) {
		s.loseChild(r)
		s.pause(3*time.Second, 2*time.Minute)
		r = s.attempt(j, lostWorker, r)
	}
	s.fail(r, event.Error{Type: "MemoryError", Message: "out of memory"})
}

func tightLoop(s *story) {
	t := *notifyCRM
	t.name, t.retry = "crm.push", retryPolicy{most: 30, first: time.Second, factor: 1, jitter: true}
	s.task = &t
	j := s.begin()
	r := s.attempt(j, published, nil)
	for range 15 + s.rng.IntN(12) {
		s.tryAgain(r, timeout)
		r = s.attempt(j, retried, r)
	}
	s.succeed(r)
}

func neverReceived(s *story) {
	s.task = s.among(tells)
	s.begin()
}

func neverStarted(s *story) {
	s.task = s.among(tells)
	j := s.begin()
	s.deliver(j, s.worker(30*time.Minute), published, nil)
}

func hangs(s *story) {
	j := s.begin()
	r := s.deliver(j, s.worker(30*time.Minute), published, nil)
	s.pause(ms, 15*ms)
	s.start(r)
}

func retryNeverComes(s *story) {
	j := s.begin()
	r := s.attempt(j, published, nil)
	if s.chance(4) {
		s.reject(r)
		return
	}
	s.retry(r, timeout, j.task.retry.delay(s.world, 0))
}

// swallowedByRow is a row that says "done", written before the work, which fails: the next attempt finds it.
func swallowedByRow(s *story) {
	j := s.begin()
	r := s.attempt(j, published, nil)
	s.tryAgain(r, event.Error{Type: "ConnectionError", Message: "upstream 503"})
	again := s.deliver(j, s.worker(time.Second), retried, r)
	s.pause(ms, 15*ms)
	s.start(again)
	s.pause(ms, 20*ms)
	s.skip(again, "already_processed", nil)
}

// deadHolder is a run that ends without success, and whose lock stays.
func (s *story) deadHolder() *job {
	j := s.begin()
	r := s.attempt(j, published, nil)
	if s.chance(3) {
		e := blank(event.Revoked)
		e.Terminated = true
		s.end(r, e)
		j.state = isOver
	} else {
		s.fail(r, event.Error{Type: "TimeLimitExceeded", Message: "300"})
	}
	return j
}

func swallowedByLock(s *story) {
	holder := s.deadHolder()
	for range 1 + s.rng.IntN(6) {
		s.pause(5*time.Second, 10*time.Minute)
		j := s.begin()
		s.standAside(j, "locked", holder)
	}
}

func swallowedForAnHour(s *story) {
	holder := s.deadHolder()
	freed := s.at + time.Hour
	for s.pause(10*time.Second, 25*time.Minute); s.at < freed-20*time.Minute; s.pause(5*time.Minute, 25*time.Minute) {
		j := s.begin()
		s.standAside(j, "locked", holder)
	}
	s.at = freed
	s.pause(time.Second, 5*time.Minute)
	s.run(s.begin(), published, nil)
}

// driftingKey carries the time of its attempt in its business key.
func driftingKey(s *story) {
	s.task = s.among(func(t *task) bool { return t != buildReport })
	j := s.begin()
	r := s.attempt(j, published, nil)
	s.tryAgain(r, timeout)
	j.key = fmt.Sprintf("%s@%d", s.key, s.at/time.Second)
	s.run(j, retried, r)
}

func startedLate(s *story) {
	s.task = s.among(tells)
	j := s.newJob()
	j.expires = s.at + s.between(10*time.Second, 5*time.Minute)
	s.publish(j)
	if s.chance(2) { // it was fetched in time, and waited at its worker
		s.queue()
		length := s.length(j.task)
		r := s.deliver(j, s.worker(15*time.Minute), published, nil)
		s.at = j.expires + s.between(4500*ms, 4*time.Minute)
		s.act(r, length)
		s.succeed(r)
		return
	}
	s.at = j.expires + s.between(4500*ms, 4*time.Minute)
	s.run(j, published, nil)
}

func wentOnLate(s *story) {
	s.task = buildReport
	j := s.newJob()
	length := s.length(j.task)
	j.deadline = s.at + s.between(length/4, length*9/10)
	s.publish(j)
	s.queue()
	r := s.deliver(j, s.worker(2*length+time.Second), published, nil)
	s.act(r, length)
	s.wait(5 * time.Second)
	s.succeed(r)
}

func momentLate(s *story) {
	s.task = s.among(tells)
	j := s.newJob()
	j.expires = s.at + s.between(10*time.Second, 5*time.Minute)
	s.publish(j)
	s.at = j.expires + s.between(ms, 1500*ms)
	s.run(j, published, nil)
}

// partly does some of a task's effects, or some of its targets: one at least, and not all.
func (s *story) partly(j *job) *run {
	length := s.length(j.task)
	r := s.deliver(j, s.worker(2*length+time.Second), published, nil)
	s.pause(ms, 15*ms)
	s.start(r)
	targets := s.targetsOf(j.task)
	for n := range 1 + s.rng.IntN(len(j.task.effects)*len(targets)-1) {
		s.pause(length/20, length/10)
		s.effect(r, j.task.effects[n/len(targets)], targets[n%len(targets)])
	}
	s.wait(length / 10)
	return r
}

func failedBetween(s *story) {
	s.task = fulfilOrder
	s.fail(s.partly(s.begin()), event.Error{Type: "ShippingRefused", Message: "no route"})
}

func failedBetweenTargets(s *story) {
	s.task = pushNews
	s.fail(s.partly(s.begin()), event.Error{Type: "TimeLimitExceeded", Message: "300"})
}

func lostBetween(s *story) {
	s.task = []*task{fulfilOrder, pushNews}[s.rng.IntN(2)]
	s.loseChild(s.partly(s.begin()))
}

// failedAfterSuccess is a sweep that marks a run as failed that had long succeeded. It speaks for the run's worker, or in
// its own name.
func failedAfterSuccess(s *story) {
	j := s.begin()
	length := s.length(j.task)
	r := s.deliver(j, s.worker(2*length+11*time.Minute), published, nil)
	s.act(r, length)
	s.succeed(r)
	s.pause(10*time.Second, 10*time.Minute)
	s.fail(r, event.Error{Type: "AbandonedJobError", Message: "no word of it for too long"})
	if s.chance(2) {
		w, p := r.ends[1], s.worker(time.Second, r.process)
		w.emitter = p.emitter
		w.event.Worker, w.event.PID, w.event.ExecutionID, w.event.Runtime = p.worker.full(), p.pid, "", 0
	}
}

func succeededAfterFailure(s *story) {
	s.task = buildReport
	j := s.begin()
	length := s.length(j.task)
	r := s.deliver(j, s.worker(3*length+time.Second), published, nil)
	s.act(r, length)
	s.fail(r, event.Error{Type: "TimeLimitExceeded", Message: "240"})
	s.pause(5*time.Second, time.Minute)
	s.succeed(r)
}
