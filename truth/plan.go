package main

import (
	"fmt"
	"slices"
	"time"

	"auditor/event"
)

// planned is a story that begins at a moment.
type planned struct {
	at     time.Duration
	fleet  *fleet
	script *script
	root   root
}

// plan is everything that does not happen by itself: what a dying worker had in hand, what a broker delivers again when it
// starts, and what befalls whole populations of tasks. Its size follows the number of tasks.
type plan struct {
	*world
	tasks  int
	books  *books
	events []planned
	root   root // of what is added
	errors int
}

func (p *plan) add(at time.Duration, f *fleet, name string, amiss bool, tell func(*story)) {
	if at > 0 && at < p.span {
		p.events = append(p.events, planned{at, f, &script{name: name, amiss: amiss, tell: tell}, p.root})
	}
}

// together lets what is added meanwhile come from one root.
func (p *plan) together(kind, name string, add func()) {
	p.root = root{kind, name}
	add()
	p.root = root{}
}

// atLeast is how many there are for so many tasks, one at least.
func (p *plan) atLeast(tasks int) int { return max(1, p.tasks/tasks) }

func (p *plan) make() {
	for _, f := range p.fleets {
		for _, w := range f.workers {
			for _, life := range w.lives {
				if life.death == killed || life.death == announced {
					p.together("worker_lost", p.minute(life.to), func() { p.workerDies(f, life) })
				}
			}
		}
		for _, at := range f.restarts {
			p.together("redelivery", p.minute(at), func() { p.brokerRestarts(f, at) })
		}
		for n := range p.atLeast(100_000) {
			p.storm(f, n)
			p.surge(f, n)
		}
		for range p.atLeast(200_000) {
			p.publisherRunsTwice(f)
			p.queueStandsStill(f)
		}
		for n := range p.atLeast(40_000) {
			p.permanent(f, n)
			p.declared(f, n)
		}
	}
}

// minute names a moment as far as mishaps can be told apart by when they were.
func (p *plan) minute(at time.Duration) string { return p.moment(at).Format("15:04:05") }

// settled is a moment after which there is time enough for everything to come to an end.
func (p *plan) settled() time.Duration { return p.span - 100*time.Minute }

// workerDies lets a process have something in hand when it is killed.
func (p *plan) workerDies(f *fleet, life *process) {
	if life.to > p.settled() || life.to < 10*time.Minute {
		return
	}
	n := 1 + p.rng.IntN(2)
	if p.chance(4) {
		n = 6 + p.rng.IntN(6)
	}
	for range n {
		length := p.between(500*ms, time.Minute)
		share := p.between(length/20, length*19/20)
		var tell func(*story)
		name, amiss := "worker lost", true
		switch p.rng.IntN(10) {
		case 0:
			tell = func(s *story) { s.lostUnstarted(life) }
			name, amiss = "worker lost before it began", false
		case 1, 2:
			tell = func(s *story) { s.lostForGood(life, length) }
			name = "worker lost, and what it had acknowledged with it"
		case 3:
			tell = func(s *story) { s.lostAndGuarded(life, length) }
			name, amiss = "worker lost, and the effect dropped", false
		default:
			tell = func(s *story) { s.lostAndRepeated(life, length) }
		}
		p.add(life.to-share-200*ms, f, name, amiss, tell)
	}
}

// brokerRestarts lets everything that is being run be delivered again within seconds.
func (p *plan) brokerRestarts(f *fleet, at time.Duration) {
	for range 6 + p.rng.IntN(10) {
		began := at - p.between(5*time.Second, 50*time.Second)
		again := at + p.between(2*time.Second, 8*time.Second)
		p.add(began, f, "broker restarted while running", true, func(s *story) {
			s.task = []*task{buildReport, exportOrders}[s.rng.IntN(2)]
			j := s.begin()
			length := again - s.at + s.between(10*time.Second, time.Minute)
			r := s.deliver(j, s.worker(2*length), published, nil)
			s.act(r, length)
			s.beside(r, whileRunning, again, s.at, s.between(5*time.Second, 20*time.Second))
		})
	}
}

// publisherRunsTwice lets a batch of work be published a second time.
func (p *plan) publisherRunsTwice(f *fleet) {
	at := p.between(20*time.Minute, p.settled())
	again := p.between(30*time.Second, 5*time.Minute)
	p.together("published", "batch "+p.minute(at), func() {
		for range 8 + p.rng.IntN(20) {
			p.add(at+p.below(10*time.Second), f, "batch published twice", true, func(s *story) {
				s.task = chargeFees
				began := s.at
				s.run(s.begin(), published, nil)
				s.at = began + again
				s.run(s.begin(), published, nil)
			})
		}
	})
}

// queueStandsStill lets a queue have no reader for a while, and forget what it held.
func (p *plan) queueStandsStill(f *fleet) {
	at := p.between(20*time.Minute, p.settled())
	p.together("stuck", "queue "+p.minute(at), func() {
		for range 8 + p.rng.IntN(20) {
			p.add(at+p.below(40*time.Second), f, "published to a queue without a reader", true, func(s *story) {
				s.task = chargeFees
				s.begin()
			})
		}
	})
}

// interrupted runs a job on a process until that dies, and gives the run.
func (s *story) interrupted(life *process, length time.Duration) *run {
	j := s.begin()
	r := s.deliver(j, life, published, nil)
	c := s.sketch(r, length)
	c = c[:len(c)-1] // it dies before it can say that it is done
	s.unroll(slices.DeleteFunc(c, func(p step) bool { return p.at >= life.to }))
	s.at = life.to
	s.die(r)
	return r
}

// again is when the broker delivers the run's message again: a time after the delivery, or after it has seen the loss.
func (s *story) again(r *run) {
	if s.fleet.broker.visibility > 0 {
		s.at = r.first().at + s.redeliveryAfter(0)
		return
	}
	s.wait(s.redeliveryAfter(0))
}

func (s *story) lostAndRepeated(life *process, length time.Duration) {
	s.task = s.among(func(t *task) bool { return repeatable(t) && lateAck(t) && len(t.effects) > 0 })
	r := s.interrupted(life, length)
	s.again(r)
	s.run(r.job, lostWorker, r)
}

func (s *story) lostAndGuarded(life *process, length time.Duration) {
	s.task = settleOrder
	r := s.interrupted(life, length)
	s.again(r)
	s.run(r.job, lostWorker, r)
}

func (s *story) lostForGood(life *process, length time.Duration) {
	s.task = []*task{pushNews, warmCache, fulfilEarly}[s.rng.IntN(3)]
	s.interrupted(life, length)
}

func (s *story) lostUnstarted(life *process) {
	s.task = s.among(func(t *task) bool { return tells(t) && lateAck(t) })
	j := s.begin()
	r := s.deliver(j, life, published, nil)
	s.at = life.to
	s.die(r)
	s.again(r)
	s.run(j, unstarted, r)
}

// clear gives a moment that keeps away from midnight, at which what is found of a population is cut.
func (p *plan) clear(from, to, around time.Duration) time.Duration {
	for {
		at := p.between(from, to)
		day := p.start.Add(at).Sub(p.start.Add(at).Truncate(24 * time.Hour))
		if day > around && day < 24*time.Hour-around {
			return at
		}
	}
}

// storm lets many ids of a task fail at once, and retry after the same fixed time, again and again.
func (p *plan) storm(f *fleet, n int) {
	t := &task{name: fmt.Sprintf("sync.partner_%d", n+1), prefix: "partner", queue: "sync", fastest: 200 * ms, slowest: 250 * ms,
		retry: retryPolicy{most: 10, first: []time.Duration{20 * time.Second, 30 * time.Second, time.Minute}[n%3], factor: 1}}
	at := p.clear(20*time.Minute, p.settled(), 15*time.Minute)
	waves := 2 + p.rng.IntN(3)
	for range 60 + p.rng.IntN(60) {
		first := at + p.below(100*ms)
		p.add(first, f, "retries in lock-step", true, func(s *story) {
			s.task = t
			j := s.newJob()
			s.publish(j)
			s.wait(5 * ms)
			r := s.attempt(j, published, nil)
			for range waves {
				s.retry(r, event.Error{Type: "ServiceUnavailable", Message: "503"}, t.retry.first)
				s.wait(t.retry.first)
				r = s.attempt(j, retried, r)
			}
			s.wait(s.below(20 * time.Second))
			s.succeed(r)
		})
	}
	p.expect(retryStorm, "synchronised", f, t.name, "retries in lock-step")
}

// surge lets a task whose retries are few meet an outage of what it calls. Its retries back off, with jitter.
func (p *plan) surge(f *fleet, n int) {
	t := &task{name: fmt.Sprintf("billing.sync_%d", n+1), prefix: "billing", queue: "billing", fastest: 100 * ms, slowest: 500 * ms,
		retry: retryPolicy{most: 100, first: 25 * time.Second, factor: 1.05, jitter: true}}
	outage := p.clear(95*time.Minute, p.settled(), 30*time.Minute)
	over := outage + 7*time.Minute
	tell := func(s *story) {
		s.task = t
		j := s.begin()
		var r *run
		by := published
		for s.at > outage && s.at < over {
			r = s.attempt(j, by, r)
			s.tryAgain(r, timeout)
			by = retried
		}
		s.run(j, by, r)
	}
	for at := outage - 90*time.Minute; at < outage+20*time.Minute; at += p.between(15*time.Second, 35*time.Second) {
		p.add(at, f, "usual runs before a surge", false, tell)
		if at > outage && at < over {
			for range 3 {
				p.add(at+p.below(20*time.Second), f, "retries in an outage", true, tell)
			}
		}
	}
	p.expect(retryStorm, "surge", f, t.name, "retries in an outage")
}

func (p *plan) expect(rule, kind string, f *fleet, task, script string) {
	p.books.planned = append(p.books.planned, trouble{about: about{rule, f.namespace, task, kind}, kind: kind, task: task, evidence: evident, script: script})
}

// inVain is a job all of whose attempts fail with an error.
func inVain(err event.Error, t *task) func(*story) {
	return func(s *story) {
		s.task = t
		j := s.begin()
		r := s.attempt(j, published, nil)
		for j.retries < t.retry.most {
			s.tryAgain(r, err)
			r = s.attempt(j, retried, r)
		}
		s.fail(r, err)
	}
}

// permanent lets some ids exhaust their retries on an error that no retry heals, and fewer on another.
func (p *plan) permanent(f *fleet, n int) {
	t := []*task{sendReceipt, notifyCRM, settleOrder, fulfilOrder}[n%4]
	for _, many := range []bool{true, false} {
		p.errors++
		count, name := 6+p.rng.IntN(5), "retried in vain"
		if !many {
			count, name = 2+p.rng.IntN(3), "retried in vain by a few"
		}
		at := p.between(10*time.Minute, p.settled())
		tell := inVain(event.Error{Type: errorNumber(p.errors), Message: "550 no such user"}, t)
		for range count {
			p.add(at+p.below(20*time.Minute), f, name, many, tell)
		}
	}
}

// declared lets an error be retried of which it was said that no retry heals it.
func (p *plan) declared(f *fleet, n int) {
	p.errors++
	t := []*task{settleOrder, sendReceipt, notifyCRM, handleHook}[n%4]
	at := p.between(10*time.Minute, p.settled())
	for range 1 + p.rng.IntN(3) {
		p.add(at+p.below(20*time.Minute), f, "retried though declared permanent", true,
			inVain(event.Error{Type: errorNumber(p.errors), Message: "card declined", Permanent: true}, t))
	}
}
