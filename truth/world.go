package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// skew is by how much two hosts' clocks differ at most: each is off by half of it, to either side.
const skew = 2 * time.Second

// world is what all stories share: machines, workers with their lives and deaths, and who numbers which events.
type world struct {
	rng      *rand.Rand
	start    time.Time     // from which all moments are counted
	span     time.Duration // from the start to the last moment
	fleets   []*fleet
	emitters []*emitter
}

// fleet is the workers of one namespace with their broker.
type fleet struct {
	namespace string
	broker    broker
	anew      bool // each process numbers its events anew under a name of its own; else a worker's numbers go on
	web       []*emitter
	workers   []*worker
	restarts  []time.Duration // of the broker, at which it delivers everything again that is not acknowledged
}

// broker is what a queue is made of, which decides when what was not acknowledged is delivered again.
type broker struct {
	visibility time.Duration // after the delivery, whatever the worker does; 0: once the connection is seen to be lost
	tells      bool          // it flags what it delivers again
}

// worker is a name that lives on; process is one life of it.
type worker struct {
	name  string
	host  string
	calm  bool // it runs little, and is never killed
	lives []*process
}

type process struct {
	worker  *worker
	pid     int
	from    time.Duration
	to      time.Duration // beyond the span where it outlives it
	death   death
	emitter *emitter
	busy    int // tasks that it is running, as far as the telling has come
}

// death is how a process ends.
type death string

const (
	outlives  death = "outlives"  // it does not
	stopped   death = "stopped"   // told to, with nothing in hand
	killed    death = "killed"    // without a word
	announced death = "announced" // killed, and its supervisor says so
)

// emitter is who numbers events: a publisher, a worker process, or a supervisor.
type emitter struct {
	name    string
	clock   time.Duration // by how much its host's clock is ahead
	life    window
	seq     int64
	losses  []loss
	hiccups []window // in which nothing leaves it

	lost  []*word
	least int64 // of the numbers that arrived; -1 as long as none did
	most  int64
}

// loss is a number of events in a row that never arrive.
type loss struct {
	at    time.Duration
	count int
}

type window struct{ from, to time.Duration }

// newWorld builds the machines, and lets lives begin and end.
func newWorld(seed uint64, start time.Time, span time.Duration, tasks int) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1)), start: start.UTC().Truncate(time.Microsecond), span: span}
	hosts, perHost := 3, 3
	if tasks > 200_000 {
		hosts, perHost = 4, 6
	}
	w.fleets = []*fleet{
		{namespace: "", broker: broker{visibility: time.Hour}, anew: true},
		{namespace: "eu", broker: broker{tells: true}},
	}
	for _, f := range w.fleets {
		w.build(f, hosts, perHost)
	}
	for _, e := range w.emitters {
		w.mislay(e)
	}
	return w
}

func (w *world) build(f *fleet, hosts, perHost int) {
	for n := range 2 {
		f.web = append(f.web, w.newEmitter(fmt.Sprintf("web-%d%s", n+1, f.namespace), w.clock(n+1)))
	}
	deploys := []time.Duration{w.between(w.span/5, w.span/3), w.between(w.span/2, 2*w.span/3)}
	for h := range hosts {
		clock := w.clock(h)
		for n := range perHost {
			worker := &worker{name: fmt.Sprintf("w%d", h*perHost+n+1), host: fmt.Sprintf("%shost-%c", f.namespace, 'a'+rune(h))}
			worker.calm = n == 0 && h == hosts-1
			f.workers = append(f.workers, worker)
			w.live(f, worker, clock, deploys)
		}
	}
	for at := w.between(w.span/6, w.span/3); at < w.span-45*time.Minute; at += w.between(90*time.Minute, 3*time.Hour) {
		f.restarts = append(f.restarts, at)
	}
}

// clock is how far ahead the clock of a host is: the first two are as far apart as any can be.
func (w *world) clock(host int) time.Duration {
	switch host {
	case 0:
		return skew / 2
	case 1:
		return -skew / 2
	}
	return w.between(-skew/2, skew/2)
}

// live gives a worker its processes: each ends at a deploy or is killed, and the next begins soon after.
func (w *world) live(f *fleet, worker *worker, clock time.Duration, deploys []time.Duration) {
	type end struct {
		at    time.Duration
		death death
	}
	var ends []end
	for _, at := range deploys {
		ends = append(ends, end{at + w.below(4*time.Minute), stopped})
	}
	for at := w.exponential(90 * time.Minute); at < w.span && !worker.calm; at += 10*time.Minute + w.exponential(90*time.Minute) {
		death := killed
		if w.rng.IntN(3) == 0 {
			death = announced
		}
		ends = append(ends, end{at, death})
	}
	slices.SortFunc(ends, func(a, b end) int { return int(a.at - b.at) })
	from := time.Duration(0)
	var lasting *emitter
	for _, end := range append(ends, end{w.span * 2, outlives}) {
		if end.at < from+8*time.Minute {
			continue
		}
		p := &process{worker: worker, pid: 1000 + w.rng.IntN(60000), from: from, to: end.at, death: end.death}
		switch {
		case f.anew:
			p.emitter = w.newEmitter(fmt.Sprintf("%s/%d", worker.full(), p.pid), clock)
			p.emitter.life = window{p.from, min(p.to, w.span)}
		case lasting == nil:
			lasting = w.newEmitter(worker.full(), clock)
			fallthrough
		default:
			p.emitter = lasting
		}
		worker.lives = append(worker.lives, p)
		from = end.at + w.between(15*time.Second, 90*time.Second)
	}
}

func (w *worker) full() string { return w.name + "@" + w.host }

func (w *world) newEmitter(name string, clock time.Duration) *emitter {
	e := &emitter{name: name, clock: clock, life: window{0, w.span}, least: -1}
	w.emitters = append(w.emitters, e)
	return e
}

// mislay decides when an emitter loses events, and when they leave it late.
func (w *world) mislay(e *emitter) {
	for at := w.exponential(2 * time.Hour); at < w.span; at += w.exponential(2 * time.Hour) {
		e.hiccups = append(e.hiccups, window{at, at + w.between(10*time.Second, 3*time.Minute)})
	}
	if !w.chance(5) {
		return
	}
	for range 1 + w.rng.IntN(3) {
		e.losses = append(e.losses, loss{w.between(e.life.from, e.life.to), 1 + w.rng.IntN(1+w.rng.IntN(30))})
	}
	slices.SortFunc(e.losses, func(a, b loss) int { return int(a.at - b.at) })
}

// at gives the process that a worker is at a moment, nil between two.
func (w *worker) at(t time.Duration) *process {
	for _, p := range w.lives {
		if p.from+time.Second <= t && t < p.to {
			return p
		}
	}
	return nil
}

// pick gives a worker process that lives from a moment on for a time, and is none of the others.
func (w *world) pick(f *fleet, from, length time.Duration, not ...*process) *process {
	for range 60 {
		worker := f.workers[w.rng.IntN(len(f.workers))]
		p := worker.at(from)
		if p != nil && !worker.calm && p.to > from+length+2*time.Second && !slices.Contains(not, p) {
			return p
		}
	}
	return nil
}

// calmProcess gives a process of the worker that has little to do.
func (w *world) calmProcess(f *fleet, from, length time.Duration) *process {
	for _, worker := range f.workers {
		if p := worker.at(from); worker.calm && p != nil && p.to > from+length {
			return p
		}
	}
	return nil
}

// moment is a time as an event tells it.
func (w *world) moment(at time.Duration) time.Time { return w.start.Add(at).Truncate(time.Microsecond) }

func (w *world) below(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d))) }

// between is a duration from low to high.
func (w *world) between(low, high time.Duration) time.Duration { return low + w.below(high-low) }

func (w *world) exponential(mean time.Duration) time.Duration {
	return time.Duration(w.rng.ExpFloat64() * float64(mean))
}

// chance is true once in so many times.
func (w *world) chance(in int) bool { return w.rng.IntN(in) == 0 }
