package shop

import (
	"time"

	"auditor/event"
)

// StuckAfter is how long a receipt may wait before it counts as stuck. The healthy ones take a few seconds at most,
// retries included.
const StuckAfter = 20 * time.Second

// planTroubles lets each trouble happen once in the first seconds and then again and again, rarely and by chance.
func (s *Shop) planTroubles() {
	for _, t := range []struct {
		first, mean time.Duration
		happen      func()
	}{
		{1500 * time.Millisecond, 9 * time.Minute, s.outliveVisibility},
		{3 * time.Second, 7 * time.Minute, s.runOutOfMemory},
		{4 * time.Second, 11 * time.Minute, s.getStuck},
		{5 * time.Second, 4 * time.Minute, s.publishTwice},
		{6 * time.Second, 10 * time.Minute, s.retryInLockStep},
		{7 * time.Second, 6 * time.Minute, s.retryInVain},
		{9 * time.Second, 5 * time.Minute, s.swallowWork},
	} {
		s.recur(t.first, t.mean, t.happen)
	}
}

// recur lets something happen after first, and then with pauses of a minute at least and mean on average.
func (s *Shop) recur(first, mean time.Duration, happen func()) {
	s.after(first, func() {
		if s.closing {
			return
		}
		happen()
		pause := time.Duration(s.rng.ExpFloat64() * float64(mean-time.Minute))
		s.recur(time.Minute+pause, mean, happen)
	})
}

// runOutOfMemory kills a worker after it has sent a mail and before it could acknowledge.
func (s *Shop) runOutOfMemory() {
	j := s.receipt(s.newOrder())
	j.runtime = time.Second
	j.mishap = never
	s.publishTo(j, s.longRunner(), func(r *run) {
		s.after(950*time.Millisecond, func() {
			if r.alive() {
				s.kill(r.worker)
			}
		})
	})
}

// outliveVisibility lets a report take longer than the broker waits for its acknowledgement, so that a second worker
// gets it while the first still builds it.
func (s *Shop) outliveVisibility() {
	j := s.report()
	j.runtime = visibilityTimeout + 3*time.Second
	j.mishap = never
	j.cause = "redelivered_while_running"
	s.publishTo(j, nil, func(r *run) {
		s.after(visibilityTimeout, func() {
			if r.alive() { // else the loss of its worker has it delivered again
				j.redelivered = true
				s.deliver(j, s.pick(r.worker))
			}
		})
	})
}

// publishTwice lets a customer's double click become two messages. Each charges under an idempotency key of its own, so
// the bank takes both.
func (s *Shop) publishTwice() {
	o := s.newOrder()
	first, second := s.settlement(o), s.settlement(o)
	second.succeeded = nil
	second.done = first.done
	for _, j := range []*job{first, second} {
		j.guarded = false
		j.mishap = never
		j.cause = "published_twice"
		j.effect.IdempotencyKey = "charge-" + j.id
	}
	s.publish(first)
	s.after(180*time.Millisecond, func() { s.publish(second) })
}

// retryInLockStep lets an outage of the CRM fail many tasks at one moment. All of them wait the same ten seconds, so
// they meet again, and fail again.
func (s *Shop) retryInLockStep() {
	const (
		tasks  = 60
		rounds = 3
		wait   = 10 * time.Second
	)
	outage := func(j *job) *failure {
		if j.retries >= rounds {
			return nil
		}
		return &failure{err: event.Error{Type: "ConnectionRefusedError", Message: "crm.internal:443 refused the connection"}, again: wait}
	}
	for range tasks {
		j := s.newJob(notifyCRM, "crm:"+s.newOrder().number, "crm", 40*time.Millisecond, 60*time.Millisecond)
		j.mishap = outage
		s.publish(j)
	}
	s.truth.add(Trouble{Rule: RetryStorm, Task: notifyCRM, At: s.time().Add(2*wait + time.Second)})
}

// retryInVain lets receipts to addresses that do not exist be tried again and again, although nothing can heal that.
func (s *Shop) retryInVain() {
	const receipts = 6
	refused := func(j *job) *failure {
		f := &failure{err: event.Error{Type: "SMTPRecipientsRefused", Message: "550 5.1.1 no such mailbox", Permanent: true}}
		if j.retries < 3 {
			f.again = s.between(time.Second, 3*time.Second) << j.retries
		}
		return f
	}
	for range receipts {
		j := s.receipt(s.newOrder())
		j.mishap = refused
		s.truth.add(Trouble{Rule: PermanentError, Task: j.task, BusinessKey: j.key, At: s.time().Add(30 * time.Second)})
		s.after(s.between(0, 2*time.Second), func() { s.publish(j) })
	}
}

// getStuck lets a worker take a receipt and then never begin with it, until someone notices minutes later.
func (s *Shop) getStuck() {
	j := s.receipt(s.newOrder())
	j.mishap = never
	sent := blank(event.Sent)
	j.describe(&sent)
	s.tell("web-1", sent)
	s.after(20*time.Millisecond, func() {
		w := s.pick(nil)
		s.say(&run{job: j, worker: w, pid: w.pid}, blank(event.Received))
	})
	s.truth.add(Trouble{Rule: StuckPending, Task: j.task, BusinessKey: j.key, At: s.time().Add(StuckAfter + time.Second)})
	s.after(5*time.Minute, func() {
		if !s.closing {
			s.deliver(j, s.pick(nil))
		}
	})
}

// swallowWork lets a dedup row, written before the work, outlive the work's failure: the retry finds the row, takes the
// work for done, and stands aside.
func (s *Shop) swallowWork() {
	j := s.settlement(s.newOrder())
	j.mishap = func(j *job) *failure {
		if j.retries > 0 {
			return &failure{skip: "already_processed"}
		}
		return &failure{err: event.Error{Type: "DeadlockDetected", Message: "deadlock detected"}, again: s.between(time.Second, 3*time.Second)}
	}
	s.truth.add(Trouble{Rule: SwallowedWork, Task: j.task, BusinessKey: j.key, At: s.time().Add(15 * time.Minute)})
	s.publish(j)
}

// publishTo publishes j, keeps it from the worker not, and lets watch see its first delivery.
func (s *Shop) publishTo(j *job, not *worker, watch func(*run)) {
	sent := blank(event.Sent)
	j.describe(&sent)
	s.tell("web-1", sent)
	s.after(20*time.Millisecond, func() { watch(s.deliver(j, s.pick(not))) })
}

// longRunner is the worker that outlives the visibility time-out just now, nil when none does. Killing it would make one
// trouble out of two.
func (s *Shop) longRunner() *worker {
	for _, w := range s.workers {
		for r := range w.runs {
			if r.runtime > visibilityTimeout {
				return w
			}
		}
	}
	return nil
}

// never is the mishap of a job in which nothing goes wrong by itself.
func never(*job) *failure { return nil }
