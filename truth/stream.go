package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"auditor/event"
	"auditor/internal/agenda"
)

// record is what is sent to Kafka.
type record struct {
	at    time.Duration // when it arrives there
	key   string        // its partition follows from it
	value []byte
}

// stream tells the events of many stories in the order of their arrival, as far as they arrive. It is a function of the
// seed, the number of tasks, the span and the start.
type stream struct {
	*world
	faults *rand.Rand
	tasks  int // task ids that there are to be, at least
	truth  truth
	oracle oracle
	events int // that arrived, repetitions aside
	twice  int // that arrived a second time
	late   int // that arrived out of order, by a second or more

	plan     []planned
	next     time.Duration // when the next story that is not planned begins
	ids      int           // task ids so far
	stories  int
	words    agenda.Agenda[*word]
	arrivals agenda.Agenda[record]
	number   int // of events
}

const (
	beatEvery = 10 * time.Second
	margin    = 5 * time.Minute // after the span, in which what is late arrives
)

// newStream plans everything that happens in a span of time, in which so many tasks are published.
func newStream(seed uint64, start time.Time, span time.Duration, tasks int) *stream {
	w := newWorld(seed, start, span, tasks)
	books := newBooks()
	p := &plan{world: w, tasks: tasks, books: books}
	p.make()
	slices.SortStableFunc(p.events, func(a, b planned) int { return cmp.Compare(a.at, b.at) })
	s := &stream{world: w, faults: rand.New(rand.NewPCG(seed, 2)), tasks: tasks, plan: p.events}
	s.oracle = oracle{end: span, books: books}
	s.truth.scripts, s.truth.dark = make(map[string]int), make(map[subject]bool)
	for _, f := range w.fleets {
		for _, worker := range f.workers {
			for _, p := range worker.lives {
				s.beat(f, p, p.from)
				if p.death == announced && p.to < span {
					s.announce(f, p)
				}
			}
		}
	}
	return s
}

// beat plans the next heartbeat of a process.
func (s *stream) beat(f *fleet, p *process, at time.Duration) {
	if at >= p.to || at >= s.span {
		return
	}
	e := blank(event.Heartbeat)
	e.Namespace, e.System, e.Worker, e.PID = f.namespace, "truth", p.worker.full(), p.pid
	s.words.Add(at, &word{at: at, event: e, emitter: p.emitter, process: p})
}

// announce lets a supervisor say that a process was lost.
func (s *stream) announce(f *fleet, p *process) {
	e := blank(event.WorkerLost)
	e.Namespace, e.System, e.Worker, e.PID = f.namespace, "truth", p.worker.full(), p.pid
	by := s.newEmitter("supervisor/"+p.worker.full()+"/"+fmt.Sprint(p.pid), p.emitter.clock)
	at := p.to + s.between(500*ms, 3*time.Second)
	s.words.Add(at, &word{at: at, event: e, emitter: by})
}

// Next gives the next record, false after the last.
func (s *stream) Next() (record, bool) {
	for {
		begin, more := s.begins()
		said, any := s.words.Soonest()
		arrives, waiting := s.arrivals.Soonest()
		switch {
		case waiting && (!any || arrives <= said) && (!more || arrives <= begin):
			_, r, _ := s.arrivals.Next()
			return r, true
		case any && (!more || said <= begin):
			_, w, _ := s.words.Next()
			s.say(w)
		case more:
			s.begin()
		default:
			s.close()
			return record{}, false
		}
	}
}

// begins is when the next story begins.
func (s *stream) begins() (time.Duration, bool) {
	if len(s.plan) > 0 && (s.plan[0].at <= s.next || s.ids >= s.tasks) {
		return s.plan[0].at, true
	}
	return s.next, s.ids < s.tasks && s.next < s.span
}

func (s *stream) begin() {
	at, _ := s.begins()
	if len(s.plan) > 0 && s.plan[0].at == at {
		p := s.plan[0]
		s.plan = s.plan[1:]
		s.tell(p.fleet, p.script, p.root, at)
		return
	}
	s.tell(nil, s.drawScript(), root{}, at)
	// The rest of the tasks is spread evenly over the rest of the time.
	left := s.span - at - 2*time.Second
	if s.ids < s.tasks {
		s.next = at + time.Duration(s.rng.ExpFloat64()*float64(left)/float64(s.tasks-s.ids+1)*perStory)
	}
}

// perStory is how many task ids a story has on average.
const perStory = 1.15

// tell lets a story happen, if it fits into the world.
func (s *stream) tell(f *fleet, script *script, root root, at time.Duration) {
	n := s.stories
	if f == nil {
		f = s.fleets[n%2]
	} else if f != s.fleets[n%2] {
		n++ // every key is there in both namespaces, where it means other work
	}
	st := &story{world: s.world, fleet: f, script: script, root: root, number: n, at: at}
	st.task = s.among(anyTask)
	s.stories = n + 1
	script.tell(st)
	for _, w := range st.words {
		if w.at > s.span || w.at < at {
			st.void = true
		}
	}
	if st.void || !st.done(s.span) {
		s.stories = n // as if it had not been
		return
	}
	s.ids += len(st.jobs)
	s.truth.scripts[script.name]++
	for len(s.truth.byNumber) <= n {
		s.truth.byNumber = append(s.truth.byNumber, nil)
	}
	s.truth.byNumber[n] = script
	st.left = len(st.words)
	for _, w := range st.words {
		s.words.Add(w.at, w)
	}
}

// done reports whether it is clear at the end what a story comes to: what waits is either far from due or long due.
func (s *story) done(end time.Duration) bool {
	for _, j := range s.jobs {
		due := max(j.since+j.wait, j.eta) + stuckAfter
		if j.state != isOver && (j.expires == 0 || j.expires > end) && due > end-5*time.Minute && due < end+3*time.Hour {
			return false
		}
	}
	for _, r := range s.runs {
		if w := r.ended(event.Skipped); w != nil && w.at+swallowedAfter > end-5*time.Minute {
			return false
		}
	}
	return true
}

// say gives a word its number, and lets it arrive, or not.
func (s *stream) say(w *word) {
	if p := w.process; p != nil {
		p.busy += w.busy
	}
	if w.event.Type == event.Heartbeat {
		w.event.Active = w.process.busy
		for _, f := range s.fleets {
			if f.namespace == w.event.Namespace {
				s.beat(f, w.process, w.at+beatEvery)
			}
		}
	}
	if !w.silent {
		s.number++
		e := w.emitter
		e.seq++
		w.seq = e.seq
		w.event.ID = fmt.Sprintf("e%d", s.number)
		w.event.Time = s.moment(w.told())
		w.event.Emitter, w.event.Seq = e.name, e.seq
		if w.lost = e.loses(w.at); w.lost {
			e.lost = append(e.lost, w)
		} else {
			s.send(w)
		}
	}
	if st := w.story; st != nil {
		if st.left--; st.left == 0 {
			s.truth.add(s.oracle.judge(st)...)
		}
	}
}

// loses tells whether what an emitter says now never arrives.
func (e *emitter) loses(at time.Duration) bool {
	if len(e.losses) == 0 || at < e.losses[0].at {
		return false
	}
	if e.losses[0].count--; e.losses[0].count == 0 {
		e.losses = e.losses[1:]
	}
	return true
}

// send lets a word arrive at Kafka: soon, or late, or twice.
func (s *stream) send(w *word) {
	s.events++
	if e := w.emitter; e.least < 0 || w.seq < e.least {
		e.least = w.seq
	}
	w.emitter.most = max(w.emitter.most, w.seq)
	at := w.at + s.delay(w)
	key := cmp.Or(w.event.BusinessKey, w.event.TaskID, w.emitter.name)
	if w.event.Namespace != "" { // these emitters know of no keys: a key's events are spread over partitions
		key = w.emitter.name
	}
	r := record{at, key, w.event.AppendJSON(nil)}
	s.arrivals.Add(at, r)
	if s.faults.IntN(80) == 0 {
		s.twice++
		r.at += time.Duration(s.faults.Int64N(int64(2 * time.Minute)))
		s.arrivals.Add(r.at, r)
	}
}

// delay is how long a word is on its way.
func (s *stream) delay(w *word) time.Duration {
	d := 5*ms + time.Duration(s.faults.Int64N(int64(200*ms)))
	if s.faults.IntN(200) == 0 {
		d += time.Duration(s.faults.Int64N(int64(30 * time.Second)))
	}
	for _, h := range w.emitter.hiccups {
		if h.from <= w.at && w.at < h.to {
			d += h.to - w.at
		}
	}
	if d >= time.Second {
		s.late++
	}
	return d
}

// close makes the truth whole.
func (s *stream) close() {
	s.truth.add(s.oracle.books.close()...)
	s.truth.add(lostEvents(s.emitters)...)
	for i := range s.truth.troubles {
		t := &s.truth.troubles[i]
		if t.last != nil && (t.last.lost || s.mayHaveGoneOn(t)) {
			t.evidence = hidden
		}
	}
	for _, e := range s.emitters {
		for _, w := range e.lost {
			if w.story != nil && !w.leavesTrace() {
				s.truth.dark[subject{w.event.Namespace, w.event.BusinessKey}] = true
				s.truth.dark[subject{w.event.Namespace, w.event.TaskID}] = true
			}
		}
	}
	s.oracle.books = newBooks()
}

// mayHaveGoneOn reports whether events were lost among which the next word of a task that is stuck may have been: of the
// emitter of its last word, ever since; and, where anyone may have the next word, of all of its namespace at about the time when that
// was due.
func (s *stream) mayHaveGoneOn(t *trouble) bool {
	if slices.ContainsFunc(t.last.emitter.lost, func(l *word) bool { return l.seq > t.last.seq }) {
		return true
	}
	if t.kind != string(isSent) && t.kind != string(isRetry) && t.last.event.Type != event.WorkerLost {
		return false
	}
	return slices.ContainsFunc(s.emitters, func(e *emitter) bool {
		return slices.ContainsFunc(e.lost, func(l *word) bool {
			return l.event.Namespace == t.namespace && l.at > t.last.at-skew && l.at < t.due+2*time.Minute
		})
	})
}

// leavesTrace reports whether whoever looks at what is known of the story can see that a lost word is missing: its emitter's
// numbers have a gap, and that emitter told something else of the story.
func (w *word) leavesTrace() bool {
	return w.emitter.lacks(w.seq) && slices.ContainsFunc(w.story.words, func(o *word) bool {
		return o.emitter == w.emitter && o.event.TaskID == w.event.TaskID && o.seen()
	})
}
