package rules

import (
	"slices"
	"time"

	"auditor/event/history"
)

// pulse is what is known of the workers' lives while a history went on.
type pulse map[worker][]history.Signal

type worker struct{ namespace, name string }

// newPulse orders the signals of each worker by time, as far as they were sent by asOf.
func newPulse(signals []history.Signal, asOf time.Time) pulse {
	p := pulse{}
	for _, s := range signals {
		if s.First.After(asOf) {
			continue
		}
		w := worker{s.Namespace, s.Worker}
		p[w] = append(p[w], s)
	}
	for _, of := range p {
		slices.SortFunc(of, func(a, b history.Signal) int { return a.First.Compare(b.First) })
	}
	return p
}

// life is what became of the process that held a run.
type life struct {
	state     lifeState
	lastHeard time.Time // of that process, zero when never
	why       string    // for a person
}

type lifeState string

const (
	alive   lifeState = "alive"
	gone    lifeState = "gone"
	unknown lifeState = "unknown"
)

// silent is the weakest sign of a worker's death: it may just have had nothing to say.
const silent = "nothing was heard from it again"

// minSilence is the shortest silence that counts as a worker's death, whatever its usual interval.
const minSilence = 5 * time.Second

// of tells whether the process that held r was still there at t.
//
// In falling weight: the worker's own parent said that it was lost; events of the same process after t; a silence much
// longer than its heartbeats' interval; nothing heard from it again.
func (p pulse) of(namespace string, r *history.Run, t time.Time) life {
	if r.Worker == "" {
		return life{state: unknown, why: "the events do not name the worker"}
	}
	end := r.LastSeen()
	signals := p.process(namespace, r)
	l := life{state: gone, lastHeard: end, why: silent}
	usual := usualGap(signals, end)
	for _, s := range signals {
		if !s.Lost.IsZero() && !s.Lost.Before(end) {
			return life{gone, s.Lost, "it was reported lost"}
		}
		if s.Last.Before(end) {
			continue
		}
		if silence := s.First.Sub(l.lastHeard); usual > 0 && silence > max(3*usual, minSilence) && !l.lastHeard.After(t) {
			l.why = "its heartbeats stopped"
			return l
		}
		l.lastHeard = later(l.lastHeard, s.Last)
	}
	if l.lastHeard.After(t) {
		l.state, l.why = alive, "it was still heard of afterwards"
	} else if usual > 0 {
		l.why = "its heartbeats stopped"
	}
	return l
}

// mayHaveRestarted reports whether the process that held first may have been another one than that of again, a later
// run of the same worker: no process id tells, and nothing was heard of the worker in between, so that all its later
// signs of life may be the second process's. Process 1 is the first of any container.
func (p pulse) mayHaveRestarted(namespace string, first, again *history.Run) bool {
	told := first.PID > 1 && again.PID > 1
	if first.Worker != again.Worker || told || again.Begin().Sub(first.LastSeen()) < minSilence {
		return false
	}
	return !slices.ContainsFunc(p.process(namespace, first), func(s history.Signal) bool {
		return s.Last.After(first.LastSeen()) && s.First.Before(again.Begin())
	})
}

// idleAfter gives the first time after t at which the process that held r said that it was running nothing.
func (p pulse) idleAfter(namespace string, r *history.Run, t time.Time) time.Time {
	for _, s := range p.process(namespace, r) {
		if s.Idle.After(t) {
			return s.Idle
		}
	}
	return time.Time{}
}

// process lists the signals of the process that held r.
//
// A worker that was started again under its old name shows by another process id, which is first heard of after the
// run. Process ids that live side by side are a parent and its children, of which any speaks for the worker.
func (p pulse) process(namespace string, r *history.Run) []history.Signal {
	all := p[worker{namespace, r.Worker}]
	if r.PID == 0 {
		return all
	}
	type span struct{ first, last time.Time }
	others := map[int]span{}
	for _, s := range all {
		if s.PID == 0 || s.PID == r.PID {
			continue
		}
		o, seen := others[s.PID]
		if !seen {
			o.first = s.First
		}
		o.last = later(o.last, s.Last)
		others[s.PID] = o
	}
	for _, o := range others {
		if !o.first.After(r.LastSeen()) && !o.last.Before(r.Begin()) {
			return all
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(s history.Signal) bool { return s.PID != 0 && s.PID != r.PID })
}

// usualGap is the median time between two signs of life of a worker until t, or 0 when there are too few to say.
func usualGap(signals []history.Signal, t time.Time) time.Duration {
	var gaps []time.Duration
	for i := 1; i < len(signals) && !signals[i].First.After(t); i++ {
		if gap := signals[i].First.Sub(signals[i-1].Last); gap > 0 {
			gaps = append(gaps, gap)
		}
	}
	if len(gaps) < 2 {
		return 0
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2]
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
