package main

import (
	"fmt"
	"time"

	"auditor/event"
)

// healthy lists what goes well, and what only looks like trouble.
var healthy = []*script{
	{name: "plain", weight: 62000, tell: plain},
	{name: "two tasks of one key", weight: 4000, tell: twoTasks},
	{name: "retried before its effect", weight: 6000, tell: retriedOnce},
	{name: "retries exhausted by an error that often heals", weight: 400, tell: exhausted},
	{name: "failed at once", weight: 700, tell: failedAtOnce},
	{name: "copy stood aside", weight: 5000, tell: copyStoodAside},
	{name: "copy stood aside, and the holder took long", weight: 300, tell: stoodAsideForLong},
	{name: "copy stood aside, and the holder failed and was retried", weight: 300, tell: stoodAsideForRetry},
	{name: "delivered again, and its effect was dropped", weight: 1200, tell: dropped},
	{name: "effects done, then retried, and dropped by the receiver", weight: 700, tell: retriedGuarded},
	{name: "periodic without a key", weight: 3500, tell: periodic},
	{name: "polling for a chord", weight: 500, tell: polling},
	{name: "copies revoked", weight: 700, tell: copiesRevoked},
	{name: "expired in the queue", weight: 700, tell: expiredInQueue},
	{name: "expired in the queue without a word", weight: 300, tell: expiredSilently},
	{name: "started in time", weight: 1500, tell: inTime},
	{name: "ran at its eta", weight: 1500, tell: ranAtETA},
	{name: "waits for its eta", weight: 200, tell: waitsForETA},
	{name: "waits for a retry that is far off", weight: 100, tell: waitsForRetry},
	{name: "waited long in the queue", weight: 1200, tell: waitedLong},
	{name: "ignored by its worker", weight: 200, tell: ignored},
	{name: "returned unstarted, and delivered again", weight: 700, tell: returnedUnstarted},
	{name: "lost before its effect by a child, and delivered again", weight: 300, tell: childLostBefore},
	{name: "given back once", weight: 500, tell: givenBack},
	{name: "given back a few times", weight: 200, tell: givenBackFewTimes},
	{name: "failure told twice", weight: 300, tell: failureTwice},
	{name: "many retries with growing pauses", weight: 300, tell: manyRetries},
}

var timeout = event.Error{Type: "TimeoutError", Message: "no answer within 2 s"}

func plain(s *story) {
	j := s.newJob()
	s.publish(j)
	s.queue()
	s.run(j, published, nil)
}

// twoTasks are two kinds of work for one key, each done once.
func twoTasks(s *story) {
	s.key = fmt.Sprintf("order:%d", s.number/2)
	for _, t := range []*task{settleOrder, notifyCRM, sendReceipt} {
		s.task = t
		plain(s)
		s.pause(ms, 2*time.Second)
	}
}

// attempt is a run that fails half-way, before any effect.
func (s *story) attempt(j *job, by via, from *run) *run {
	length := s.length(j.task)
	r := s.deliver(j, s.worker(length+time.Second), by, from)
	s.pause(ms, 15*ms)
	s.start(r)
	s.wait(length / 2)
	return r
}

// tryAgain ends the run in a retry, and waits until its next attempt is due.
func (s *story) tryAgain(r *run, err event.Error) {
	d := r.task.retry.delay(s.world, r.attempt)
	s.retry(r, err, d)
	s.wait(d)
	s.queue()
}

func retriedOnce(s *story) {
	j := s.newJob()
	s.publish(j)
	s.queue()
	r := s.attempt(j, published, nil)
	s.tryAgain(r, timeout)
	for s.chance(3) && j.retries < 3 {
		r = s.attempt(j, retried, r)
		s.tryAgain(r, timeout)
	}
	s.run(j, retried, r)
}

func exhausted(s *story) {
	j := s.newJob()
	s.publish(j)
	s.queue()
	r := s.attempt(j, published, nil)
	for j.retries < j.task.retry.most {
		s.tryAgain(r, timeout)
		r = s.attempt(j, retried, r)
	}
	s.fail(r, timeout)
}

func failedAtOnce(s *story) {
	j := s.newJob()
	s.publish(j)
	s.queue()
	s.fail(s.attempt(j, published, nil), event.Error{Type: "ValueError", Message: "no such item", Permanent: s.chance(2)})
}

// standAside is a run that finds that it is a copy.
func (s *story) standAside(j *job, reason string, holder *job) {
	r := s.deliver(j, s.worker(time.Second), published, nil)
	s.pause(ms, 15*ms)
	if !s.chance(4) {
		s.start(r)
		s.pause(ms, 20*ms)
	}
	s.skip(r, reason, holder)
}

func copyStoodAside(s *story) {
	first := s.newJob()
	s.publish(first)
	s.queue()
	s.run(first, published, nil)
	for range 1 + s.rng.IntN(2) {
		s.pause(ms, 40*time.Second)
		second := s.newJob()
		s.publish(second)
		s.queue()
		s.standAside(second, []string{"already_processed", "duplicate_ignored"}[s.rng.IntN(2)], first)
	}
}

// stoodAsideForLong is a copy that finds a lock whose holder goes on for longer than anyone would wait.
func stoodAsideForLong(s *story) {
	s.task = buildReport
	first := s.newJob()
	s.publish(first)
	s.queue()
	length := s.between(4*time.Minute, 12*time.Minute)
	r := s.deliver(first, s.worker(2*length), published, nil)
	began := s.at
	s.act(r, length)
	over := s.at
	s.at = began + s.between(time.Second, length/2)
	second := s.newJob()
	s.publish(second)
	s.queue()
	s.standAside(second, []string{"locked", "in_flight", "already_running"}[s.rng.IntN(3)], first)
	s.at = over
	s.succeed(r)
}

func stoodAsideForRetry(s *story) {
	first := s.newJob()
	s.publish(first)
	s.queue()
	r := s.attempt(first, published, nil)
	began := s.at
	s.at += 2 * ms
	s.tryAgain(r, timeout)
	resumed := s.at
	s.at = began + ms
	second := s.newJob()
	s.publish(second)
	s.standAside(second, "locked", first)
	s.at = max(resumed, s.at)
	s.run(first, retried, r)
}

func dropped(s *story) {
	s.task = settleOrder
	j := s.newJob()
	s.publish(j)
	s.queue()
	r := s.run(j, published, nil)
	s.pause(3*time.Second, time.Minute)
	s.run(j, ackLost, r)
}

func retriedGuarded(s *story) {
	s.task = settleOrder
	j := s.newJob()
	s.publish(j)
	s.queue()
	length := s.length(j.task)
	r := s.deliver(j, s.worker(2*length+time.Second), published, nil)
	s.act(r, length)
	s.tryAgain(r, timeout)
	s.run(j, retried, r)
}

// periodic work has no key: each launch is work of its own.
func periodic(s *story) {
	s.bare = true
	s.task = &task{name: []string{"cron.cleanup", "cron.tick", "cron.rollup"}[s.rng.IntN(3)], queue: "cron", fastest: 5 * ms, slowest: 200 * ms, lean: s.chance(2)}
	plain(s)
}

// polling retries on purpose until the parts of a chord are done.
func polling(s *story) {
	s.bare = true
	s.task = &task{name: polled, queue: "celery", fastest: ms, slowest: 5 * ms, retry: retryPolicy{most: 100, first: time.Second, factor: 1}}
	j := s.newJob()
	s.publish(j)
	s.queue()
	r := s.attempt(j, published, nil)
	for range 15 + s.rng.IntN(20) {
		s.tryAgain(r, event.Error{Type: "Retry", Message: "the chord is not ready"})
		r = s.attempt(j, retried, r)
	}
	s.succeed(r)
}

func copiesRevoked(s *story) {
	first := s.newJob()
	s.publish(first)
	s.queue()
	s.run(first, published, nil)
	for range 1 + s.rng.IntN(3) {
		s.pause(ms, 10*time.Second)
		second := s.newJob()
		s.publish(second)
		s.pause(time.Second, 20*time.Second)
		r := s.deliver(second, s.worker(time.Second), published, nil)
		s.pause(ms, 15*ms)
		s.end(r, blank(event.Revoked))
		second.state = isOver
	}
}

func expiredInQueue(s *story) {
	j := s.newJob()
	j.task = settleOrder
	j.expires = s.at + s.between(30*time.Second, 5*time.Minute)
	s.publish(j)
	s.at = j.expires
	s.pause(0, 10*time.Second)
	// Celery says so without a word of its arrival.
	r := &run{job: j, process: s.worker(time.Second), number: 1, via: published, until: never}
	s.runs = append(s.runs, r)
	e := blank(event.Revoked)
	e.Expired = true
	s.end(r, e)
	j.state = isOver
}

func expiredSilently(s *story) {
	j := s.newJob()
	j.task = settleOrder
	j.expires = s.at + s.between(30*time.Second, 5*time.Minute)
	s.publish(j)
}

// inTime is a task that starts, and ends, shortly before it is too late.
func inTime(s *story) {
	j := s.newJob()
	j.task = s.among(tells)
	length := s.length(j.task)
	limit := s.at + 2*length + s.between(500*ms, time.Minute)
	if s.chance(2) {
		j.expires = limit
	} else {
		j.deadline = limit
	}
	s.publish(j)
	s.queue()
	r := s.deliver(j, s.worker(2*length+time.Second), published, nil)
	s.act(r, length)
	s.succeed(r)
}

func ranAtETA(s *story) {
	j := s.newJob()
	j.task = s.among(tells)
	length := s.length(j.task)
	j.eta = s.at + s.between(10*time.Second, 90*time.Minute)
	s.publish(j)
	if s.fleet.broker.visibility == 0 || j.eta-s.at < 50*time.Minute { // it is fetched at once and waits at the worker
		s.queue()
		r := s.deliver(j, s.worker(j.eta-s.at+2*length+time.Second), published, nil)
		s.at = j.eta
		s.act(r, length)
		s.succeed(r)
		return
	}
	s.at = j.eta
	s.queue()
	s.run(j, published, nil)
}

func waitsForETA(s *story) {
	j := s.newJob()
	j.task = s.among(tells)
	j.eta = s.span + s.between(6*time.Hour, 12*time.Hour)
	s.publish(j)
	if s.chance(2) {
		s.queue()
		if p := s.calmProcess(s.fleet, s.at, s.span-s.at); p != nil {
			s.deliver(j, p, published, nil)
		}
	}
}

func waitsForRetry(s *story) {
	j := s.newJob()
	s.publish(j)
	s.queue()
	r := s.attempt(j, published, nil)
	s.retry(r, timeout, s.span-s.at+s.between(6*time.Hour, 12*time.Hour))
}

// waitedLong is work of low priority that waits, in the queue or at its worker.
func waitedLong(s *story) {
	s.task = warmCache
	j := s.newJob()
	s.publish(j)
	s.pause(time.Second, 10*time.Minute)
	length := s.length(j.task)
	prefetched := s.between(ms, 2*time.Minute)
	r := s.deliver(j, s.worker(prefetched+2*length+time.Second), published, nil)
	s.wait(prefetched)
	s.act(r, length)
	s.succeed(r)
}

// ignored is a task that tells its worker to forget it: no end is told, and the worker goes on to say that it runs nothing.
func ignored(s *story) {
	s.task = notifyCRM
	j := s.newJob()
	p := s.calmProcess(s.fleet, s.at, time.Minute)
	if p == nil {
		s.void = true
		return
	}
	s.publish(j)
	s.queue()
	r := s.deliver(j, p, published, nil)
	s.pause(ms, 15*ms)
	s.start(r)
	s.pause(10*ms, 300*ms)
	s.words = append(s.words, &word{at: s.at, emitter: p.emitter, process: p, busy: -1, silent: true, story: s})
	r.until, j.state = s.at, isOver
}

// returnedUnstarted is a message that a worker held and never began, until the broker gave it to another.
func returnedUnstarted(s *story) {
	s.task = s.among(func(t *task) bool { return tells(t) && lateAck(t) })
	j := s.newJob()
	s.publish(j)
	s.queue()
	r := s.deliver(j, s.worker(time.Minute), published, nil)
	s.wait(s.redeliveryAfter(0))
	r.until = s.at
	s.run(j, unstarted, r)
}

// redeliveryAfter is how long after a delivery that began some time ago the broker gives its message to another worker.
func (s *story) redeliveryAfter(ago time.Duration) time.Duration {
	if v := s.fleet.broker.visibility; v > 0 {
		return v - ago + s.between(0, 95*time.Second)
	}
	return s.between(4*time.Second, 2*time.Minute)
}

func childLostBefore(s *story) {
	s.task = s.among(func(t *task) bool { return lateAck(t) })
	j := s.newJob()
	s.publish(j)
	s.queue()
	r := s.attempt(j, published, nil)
	s.loseChild(r)
	s.pause(3*time.Second, time.Minute)
	s.run(j, lostWorker, r)
}

func givenBack(s *story) {
	j := s.newJob()
	s.publish(j)
	s.queue()
	r := s.attempt(j, published, nil)
	s.reject(r)
	s.pause(100*ms, 5*time.Second)
	s.run(j, requeued, r)
}

func givenBackFewTimes(s *story) {
	j := s.newJob()
	s.publish(j)
	s.queue()
	r := s.attempt(j, published, nil)
	for range 2 {
		s.reject(r)
		s.pause(time.Second, 20*time.Second)
		r = s.attempt(j, requeued, r)
	}
	s.reject(r)
	s.pause(time.Second, 20*time.Second)
	s.run(j, requeued, r)
}

// failureTwice is a hard time limit that both the worker and its pool tell.
func failureTwice(s *story) {
	j := s.newJob()
	s.publish(j)
	s.queue()
	r := s.attempt(j, published, nil)
	limit := event.Error{Type: "TimeLimitExceeded", Message: "TimeLimitExceeded(300,)"}
	s.fail(r, limit)
	s.pause(ms, 200*ms)
	s.fail(r, limit)
}

// manyRetries backs off as it should: never ten retries in a minute.
func manyRetries(s *story) {
	t := *notifyCRM
	t.name, t.retry = "crm.sync", retryPolicy{most: 20, first: 2 * time.Second, factor: 1.5, jitter: true}
	s.task = &t
	j := s.newJob()
	s.publish(j)
	s.queue()
	r := s.attempt(j, published, nil)
	for range 8 + s.rng.IntN(3) {
		s.tryAgain(r, timeout)
		r = s.attempt(j, retried, r)
	}
	s.succeed(r)
}
