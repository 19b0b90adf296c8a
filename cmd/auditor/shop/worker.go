package shop

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"auditor/event"
)

// worker is one worker process at a time: a name that lives on and a process id that changes with each start.
type worker struct {
	name  string
	pid   int            // 0 while the process is dead
	runs  map[*run]int64 // in the worker's hands, by order of arrival
	count int64
}

// run is one delivery of a job to one worker process.
type run struct {
	*job
	worker   *worker
	pid      int
	attempt  int // the job's retries when it was delivered
	copy     bool
	started  time.Duration
	affected bool // its effect happened
}

// alive reports whether the process that got the run is still there.
func (r *run) alive() bool { return r.pid == r.worker.pid }

// boot starts the worker's process.
func (s *Shop) boot(w *worker) {
	w.pid = 1000 + s.rng.IntN(60000)
	w.runs = make(map[*run]int64)
	s.heartbeat(w, w.pid)
}

func (s *Shop) heartbeat(w *worker, pid int) {
	if w.pid != pid || s.closing {
		return
	}
	e := blank(event.Heartbeat)
	e.Worker, e.PID, e.Active = w.name, w.pid, len(w.runs)
	s.tell(emitter(w), e)
	s.after(2*time.Second, func() { s.heartbeat(w, pid) })
}

// kill ends the worker's process at once, as the kernel does when memory runs out: it says nothing more. What it held
// is delivered again once the broker has waited long enough, and the process comes back later.
func (s *Shop) kill(w *worker) {
	held := slices.SortedFunc(maps.Keys(w.runs), func(a, b *run) int { return int(w.runs[a] - w.runs[b]) })
	w.pid, w.runs = 0, nil
	for _, r := range held {
		s.after(s.between(visibilityTimeout-time.Second, visibilityTimeout), func() {
			if r.affected {
				r.cause = "worker_lost"
			}
			r.redelivered = true
			s.deliver(r.job, s.pick(nil))
		})
	}
	s.after(20*time.Second, func() { s.boot(w) })
}

// pick is a living worker other than not.
func (s *Shop) pick(not *worker) *worker {
	living := slices.DeleteFunc(slices.Clone(s.workers), func(w *worker) bool { return w.pid == 0 || w == not })
	return living[s.rng.IntN(len(living))]
}

// publish puts j into the queue; a worker gets it soon after.
func (s *Shop) publish(j *job) {
	e := blank(event.Sent)
	j.describe(&e)
	s.tell("web-1", e)
	s.after(s.between(2*time.Millisecond, 40*time.Millisecond), func() { s.deliver(j, s.pick(nil)) })
}

// deliver hands j to w, which runs it.
func (s *Shop) deliver(j *job, w *worker) *run {
	r := &run{job: j, worker: w, pid: w.pid, attempt: j.retries, copy: j.redelivered}
	w.count++
	w.runs[r] = w.count
	s.say(r, blank(event.Received))
	s.after(s.between(time.Millisecond, 15*time.Millisecond), func() { s.begin(r) })
	return r
}

func (s *Shop) begin(r *run) {
	if !r.alive() {
		return
	}
	r.started = s.now
	s.say(r, blank(event.Started))
	if wrong := r.mishap(r.job); wrong != nil {
		s.after(r.runtime/2, func() { s.goWrong(r, wrong) })
		return
	}
	if r.effect.Name != "" {
		s.after(r.runtime*8/10, func() { s.affect(r) })
	}
	s.after(r.runtime, func() { s.succeed(r) })
}

// affect does the job's effect.
func (s *Shop) affect(r *run) {
	if !r.alive() {
		return
	}
	effect := r.effect
	effect.Deduplicated = r.guarded && *r.done > 0
	if !effect.Deduplicated {
		*r.done++
		r.affected = true
		if *r.done == 2 {
			s.truth.add(Trouble{Rule: RepeatedEffect, Cause: r.cause, Task: r.task, BusinessKey: r.key, Effect: effect.Name, At: s.time()})
		}
	}
	e := blank(event.Effected)
	e.Effect = &effect
	s.say(r, e)
}

func (s *Shop) succeed(r *run) {
	if !r.alive() {
		return
	}
	s.end(r, blank(event.Succeeded))
	if follow := r.job.succeeded; follow != nil {
		r.job.succeeded = nil // a second success of a copy is followed by nothing new
		follow()
	}
}

func (s *Shop) goWrong(r *run, wrong *failure) {
	if !r.alive() {
		return
	}
	if wrong.skip != "" {
		e := blank(event.Skipped)
		e.Skip = &event.Skip{Reason: wrong.skip}
		s.end(r, e)
		return
	}
	e := blank(event.Failed)
	e.Error = &wrong.err
	if wrong.again > 0 {
		e.Type = event.Retried
		e.RetryIn = int(math.Ceil(wrong.again.Seconds()))
	}
	s.end(r, e)
	if wrong.again > 0 {
		r.job.retries++
		r.job.redelivered = false
		s.after(wrong.again, func() { s.deliver(r.job, s.pick(nil)) })
	}
}

// end lets the run say its last word.
func (s *Shop) end(r *run, e event.Event) {
	delete(r.worker.runs, r)
	e.Runtime = (s.now - r.started).Seconds()
	s.say(r, e)
}

// say lets the run's worker tell e about it.
func (s *Shop) say(r *run, e event.Event) {
	redelivered := r.copy
	r.describe(&e)
	e.Worker, e.PID, e.Retries, e.Redelivered = r.worker.name, r.pid, r.attempt, &redelivered
	s.tell(emitter(r.worker), e)
}

func (j *job) describe(e *event.Event) {
	e.Task, e.TaskID, e.BusinessKey, e.Queue = j.task, j.id, j.key, j.queue
	e.Retries, e.MaxRetries = j.retries, 3
}

// emitter names who numbers the events of w: its process, for a new one starts at 1 again.
func emitter(w *worker) string {
	name, _, _ := strings.Cut(w.name, "@")
	return name + "-" + strconv.Itoa(w.pid)
}

// blank is an event of type t that tells nothing else.
func blank(t event.Type) event.Event {
	return event.Event{Type: t, Retries: event.Unknown, MaxRetries: event.Unknown, RetryIn: event.Unknown,
		Seq: event.Unknown, Active: event.Unknown}
}
