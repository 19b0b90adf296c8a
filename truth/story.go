package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"auditor/event"
)

// story is what happens to one business key, told as it happens. Its script moves at through time, and may go back to tell
// what went on beside it.
type story struct {
	*world
	fleet  *fleet
	script *script
	number int
	key    string // business key: of the task that is published first, unless it is set before
	bare   bool   // there is no business key
	task   *task  // of the jobs that are published next
	root   root   // what befell other keys as well; zero: nothing
	at     time.Duration

	jobs  []*job
	runs  []*run
	words []*word
	left  int  // words that were not told yet
	void  bool // it does not fit into the world, and never happens
}

// word is one event to be told.
type word struct {
	at      time.Duration // true time
	event   event.Event
	emitter *emitter
	process *process // whose number of running tasks changes, nil: no one's
	busy    int      // by how much
	silent  bool     // only that number changes
	story   *story   // nil for what belongs to no key
	lost    bool
	seq     int64
}

// job is one message in the queue, over all its attempts.
type job struct {
	task     *task
	id       string
	key      string
	retries  int
	idem     string // idempotency key of its effects; empty: made of the business key where the task is guarded, else none
	eta      time.Duration
	expires  time.Duration
	deadline time.Duration
	wait     time.Duration // until the next attempt, after a retry
	state    jobState
	since    time.Duration
	last     *word // its last word, publications after the first aside
	requeues int
}

type jobState string

const (
	isSent     jobState = "sent"
	isReceived jobState = "received"
	isStarted  jobState = "started"
	isRetry    jobState = "retry"
	isOver     jobState = "over"
)

// via is what brought a delivery.
type via string

const (
	published    via = "published"
	retried      via = "retried"
	requeued     via = "requeued"
	whileRunning via = "redelivered_while_running"
	ackLost      via = "redelivered_after_success"
	lostWorker   via = "worker_lost"
	unstarted    via = "unstarted" // it was returned to the queue before it was begun
)

// run is one delivery of a job to a process.
type run struct {
	*job
	process  *process
	attempt  int
	number   int
	via      via
	from     *run // the delivery before it that the broker or a retry followed; nil for the first
	received *word
	started  *word
	effects  []*deed
	ends     []*word // more than one where the run contradicts itself
	words    []*word
	died     bool
	until    time.Duration // when it was over in truth: its end or its death; -1 while it goes on
	redo     bool          // the broker flags it
}

// deed is one effect that was done.
type deed struct {
	name, target, idem string
	dropped            bool
	word               *word
	run                *run
}

const never = time.Duration(-1)

// newJob is a message for the story's key.
func (s *story) newJob() *job {
	if s.key == "" && !s.bare {
		s.key = fmt.Sprintf("%s:%d", s.task.prefix, s.number/2)
	}
	j := &job{task: s.task, id: fmt.Sprintf("t%x-%d", s.number, len(s.jobs)+1), key: s.key}
	s.jobs = append(s.jobs, j)
	return j
}

// wait lets time pass.
func (s *story) wait(d time.Duration) { s.at += d }

// pause lets a random time pass.
func (s *story) pause(low, high time.Duration) { s.at += s.between(low, high) }

func blank(t event.Type) event.Event {
	return event.Event{Type: t, Retries: event.Unknown, MaxRetries: event.Unknown, RetryIn: event.Unknown, Seq: event.Unknown, Active: event.Unknown}
}

func (s *story) say(by *emitter, e event.Event) *word {
	w := &word{at: s.at, event: e, emitter: by, story: s}
	s.words = append(s.words, w)
	return w
}

func (s *story) describe(j *job, e *event.Event) {
	e.Namespace, e.System, e.Task, e.TaskID, e.BusinessKey, e.Queue = s.fleet.namespace, "truth", j.task.name, j.id, j.key, j.task.queue
	if e.MaxRetries == event.Unknown && j.task.retry.most > 0 {
		e.MaxRetries = j.task.retry.most
	}
	// Limits are set by the clock of who publishes, whatever clock tells them.
	set := func(at time.Duration) time.Time {
		if at == 0 {
			return time.Time{}
		}
		return s.moment(at + s.fleet.web[0].clock)
	}
	e.ETA, e.Expires, e.Deadline = set(j.eta), set(j.expires), set(j.deadline)
	if j.task.priority != "" {
		e.Attributes = `{"priority":` + strconv.Quote(j.task.priority) + `}`
	}
}

// publish puts a job into the queue.
func (s *story) publish(j *job) {
	if j.state == "" {
		j.state, j.since = isSent, s.at
	}
	if j.task.lean {
		return
	}
	by := s.fleet.web[0]
	if s.number%3 == 0 && j.eta == 0 && j.expires == 0 && j.deadline == 0 {
		by = s.fleet.web[1]
	}
	e := blank(event.Sent)
	s.describe(j, &e)
	e.Retries = j.retries
	w := s.say(by, e)
	if j.last == nil {
		j.last = w
	}
}

// worker is a process that will live as long as a run takes. There may be none: then the story never happens.
func (s *story) worker(length time.Duration, not ...*process) *process {
	p := s.pick(s.fleet, s.at, length, not...)
	if p == nil {
		s.void = true
		p = s.fleet.workers[0].lives[0]
	}
	return p
}

// deliver hands a job to a process.
func (s *story) deliver(j *job, p *process, by via, from *run) *run {
	r := &run{job: j, process: p, attempt: j.retries, number: len(s.runs) + 1, via: by, from: from, until: never}
	r.redo = s.fleet.broker.tells && by != published && by != retried
	s.runs = append(s.runs, r)
	j.state, j.since = isReceived, s.at
	if !j.task.lean {
		r.received = s.tell(r, blank(event.Received))
	}
	return r
}

// tell lets the run's process say something about it.
func (s *story) tell(r *run, e event.Event) *word {
	s.describe(r.job, &e)
	e.Retries, e.Worker, e.PID = r.attempt, r.process.worker.full(), r.process.pid
	if r.task.executions {
		e.ExecutionID = r.id + "/" + strconv.Itoa(r.number)
	}
	if s.fleet.broker.tells {
		e.Redelivered = &r.redo
	}
	late := !r.task.early
	e.AcksLate = &late
	w := s.say(r.process.emitter, e)
	r.words = append(r.words, w)
	r.job.last = w
	return w
}

func (s *story) start(r *run) {
	r.started = s.tell(r, blank(event.Started))
	r.started.process, r.started.busy = r.process, 1
	r.job.state, r.job.since = isStarted, s.at
}

// effect does one effect. A guarded one that was done before under the same idempotency key is dropped by its receiver.
func (s *story) effect(r *run, name, target string) *deed {
	d := &deed{name: name, target: target, idem: r.idem, run: r}
	if d.idem == "" && r.task.guarded {
		d.idem = "once-" + r.key
	}
	if d.idem != "" && r.task.guarded {
		d.dropped = slices.ContainsFunc(s.deeds(), func(o *deed) bool {
			return !o.dropped && o.name == name && o.target == target && o.idem == d.idem
		})
	}
	e := blank(event.Effected)
	e.Effect = &event.Effect{Name: name, Target: target, IdempotencyKey: d.idem, Deduplicated: d.dropped}
	d.word = s.tell(r, e)
	r.effects = append(r.effects, d)
	return d
}

// deeds are all effects that were done so far.
func (s *story) deeds() []*deed {
	var all []*deed
	for _, r := range s.runs {
		all = append(all, r.effects...)
	}
	return all
}

// end lets the run say its last word.
func (s *story) end(r *run, e event.Event) *word {
	if r.started != nil {
		e.Runtime = (s.at - r.started.at).Seconds()
	}
	w := s.tell(r, e)
	r.ends = append(r.ends, w)
	if r.until == never {
		r.until = s.at
		if r.started != nil {
			w.process, w.busy = r.process, -1
		}
	}
	return w
}

func (s *story) succeed(r *run) {
	s.end(r, blank(event.Succeeded))
	r.job.state = isOver
}

func failing(t event.Type, err event.Error) event.Event {
	e := blank(t)
	e.Error = &err
	return e
}

func (s *story) fail(r *run, err event.Error) {
	s.end(r, failing(event.Failed, err))
	r.job.state = isOver
}

// retry ends the run, and puts the job back for a further attempt after a pause.
func (s *story) retry(r *run, err event.Error, wait time.Duration) {
	e := failing(event.Retried, err)
	e.RetryIn = int((wait + time.Second - 1) / time.Second)
	s.end(r, e)
	r.job.state, r.job.since, r.job.wait = isRetry, s.at, wait
	r.job.retries++
}

func (s *story) skip(r *run, reason string, holder *job) {
	e := blank(event.Skipped)
	e.Skip = &event.Skip{Reason: reason}
	if holder != nil {
		e.Skip.Holder = holder.id
	}
	s.end(r, e)
	r.job.state = isOver
}

// reject gives the message back.
func (s *story) reject(r *run) {
	e := blank(event.Rejected)
	e.Requeue = true
	s.end(r, e)
	r.job.state, r.job.since = isRetry, s.at
	r.job.wait = 0
}

// die ends the run with its process, without a word.
func (s *story) die(r *run) {
	r.died, r.until = true, s.at
}

// loseChild ends the run with a child of its process, which says so.
func (s *story) loseChild(r *run) {
	r.died = true
	s.end(r, blank(event.WorkerLost))
	r.job.state, r.job.since = isStarted, s.at
}

// length is how long a run of a task takes.
func (s *story) length(t *task) time.Duration { return s.between(t.fastest, t.slowest) }

// course is what a run will do when.
type course []step

type step struct {
	at time.Duration
	do func()
}

// over is when it comes to its end.
func (c course) over() time.Duration { return c[len(c)-1].at }

// sketch plans a run of a length that comes to its success. Its effects lie in its second half.
func (s *story) sketch(r *run, length time.Duration) course {
	at := s.at + s.between(ms, 15*ms)
	c := course{{at, func() { s.start(r) }}}
	targets := s.targetsOf(r.task)
	n := len(r.task.effects) * len(targets)
	for i := range n {
		name, target := r.task.effects[i/len(targets)], targets[i%len(targets)]
		c = append(c, step{at + length/2 + length*4/10*time.Duration(i+1)/time.Duration(n+1), func() { s.effect(r, name, target) }})
	}
	return append(c, step{at + length, func() { s.succeed(r) }})
}

// unroll tells courses in the order of time.
func (s *story) unroll(courses ...course) {
	for {
		next := -1
		for i, c := range courses {
			if len(c) > 0 && (next < 0 || c[0].at < courses[next][0].at) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		s.at = courses[next][0].at
		courses[next][0].do()
		courses[next] = courses[next][1:]
	}
}

// act is a run up to the moment of its end.
func (s *story) act(r *run, length time.Duration) {
	c := s.sketch(r, length)
	s.unroll(c[:len(c)-1])
	s.at = c.over()
}

// targetsOf is to whom a task's effect is done for the story's key.
func (s *story) targetsOf(t *task) []string {
	if t.targets == 0 {
		return []string{""}
	}
	all := make([]string, t.targets)
	for i := range all {
		all[i] = fmt.Sprintf("customer%d@example.com", (s.number*7+i)%50000)
	}
	return all
}

// run delivers a job and lets it come to its success.
func (s *story) run(j *job, by via, from *run, not ...*process) *run {
	length := s.length(j.task)
	r := s.deliver(j, s.worker(length+length/2+time.Second, not...), by, from)
	s.act(r, length)
	s.succeed(r)
	return r
}

// queue lets the job wait for a worker.
func (s *story) queue() { s.pause(2*ms, 60*ms) }
