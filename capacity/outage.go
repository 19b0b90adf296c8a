package main

import (
	"cmp"
	"slices"
)

// scenario is a load at a constant rate, what takes it, and what goes wrong. Times are in seconds; so is a step.
type scenario struct {
	rate                  float64 // events a second, the same in each partition
	partitions, processes int

	partition, process, store float64 // what one partition, one process, and the store take a second

	downFrom, downTo int // in between the store takes nothing
	killed           int // when the first process dies; 0: it does not
	session, deal    int // how long its partitions stand still before, and all of them while they are dealt anew

	fullRows, rowMemory, memory float64 // a process holds one batch of each of its partitions, up to its memory
}

// state is how things stand after a step.
type state struct {
	arrived, stored, lag []float64 // by partition
	owner                []int
	held                 float64 // the most that a process has in memory
}

// outcome is what a scenario comes to.
type outcome struct {
	peak   float64 // the largest lag, in events
	oldest float64 // the longest that an event waited, in seconds
	caught int     // when the lag was gone, in seconds after the last thing that went wrong was over
	never  bool    // it does not go: what is there takes no more than what comes
	held   float64 // the most that a process had in memory, in bytes
}

// run plays the scenario until nothing that went wrong is left, or the lag no longer falls. It calls see, unless nil, after each
// step.
func (s *scenario) run(see func(at int, st *state)) outcome {
	st := &state{arrived: make([]float64, s.partitions), stored: make([]float64, s.partitions), lag: make([]float64, s.partitions),
		owner: make([]int, s.partitions)}
	s.share(st, 0)
	over := max(s.downTo, s.dealt())
	var out outcome
	last := 0.0
	for at := 0; ; at++ {
		if s.killed > 0 && at == s.dealt() {
			s.share(st, 1)
		}
		s.step(st, at)
		if see != nil {
			see(at, st)
		}
		lag := 0.0
		for p := range st.lag {
			lag += st.lag[p]
			out.oldest = max(out.oldest, st.lag[p]/s.rate*float64(s.partitions))
		}
		out.peak, out.held = max(out.peak, lag), max(out.held, st.held)
		if at >= over {
			const nothing = 1e-3 // events, of which there are fractions here
			if out.caught = at - over + 1; lag < nothing {
				return out
			}
			if at > over && lag >= last-nothing {
				out.never = true
				return out
			}
		}
		last = lag
	}
}

// dealt is when the partitions have owners again.
func (s *scenario) dealt() int {
	if s.killed == 0 {
		return 0
	}
	return s.killed + s.session + s.deal
}

// share deals the partitions to the processes from the given one on.
func (s *scenario) share(st *state, first int) {
	alive := s.processes - first
	for p := range st.owner {
		st.owner[p] = -1
		if alive > 0 {
			st.owner[p] = first + p%alive
		}
	}
}

// reads reports whether a partition is read in the step that begins at the given second.
func (s *scenario) reads(st *state, p, at int) bool {
	switch {
	case st.owner[p] < 0:
		return false
	case s.killed == 0 || at < s.killed || at >= s.dealt():
		return true
	default:
		return st.owner[p] != 0 && at < s.killed+s.session
	}
}

// step lets a second pass: events arrive, and what has room is stored. Room is shared so that who wants little gets it.
func (s *scenario) step(st *state, at int) {
	wants := make([]float64, s.partitions)
	held := make([]float64, s.processes)
	for p := range st.lag {
		come := s.rate / float64(s.partitions)
		st.arrived[p] += come
		st.lag[p] += come
		if !s.reads(st, p, at) {
			continue
		}
		wants[p] = min(st.lag[p], s.partition)
		held[st.owner[p]] += min(st.lag[p], s.fullRows) * s.rowMemory
	}
	st.held = min(s.memory, slices.Max(held))
	if at >= s.downFrom && at < s.downTo {
		return
	}
	for process := range s.processes {
		var of []*float64
		for p := range wants {
			if st.owner[p] == process {
				of = append(of, &wants[p])
			}
		}
		level(s.process, of)
	}
	var all []*float64
	for p := range wants {
		all = append(all, &wants[p])
	}
	level(s.store, all)
	for p, n := range wants {
		st.stored[p] += n
		st.lag[p] -= n
	}
}

// level cuts what is wanted so that it comes to no more than there is: the largest wants alone are cut, to the same amount.
func level(there float64, wants []*float64) {
	slices.SortFunc(wants, func(a, b *float64) int { return cmp.Compare(*a, *b) })
	for i, w := range wants {
		*w = min(*w, there/float64(len(wants)-i))
		there -= *w
	}
}

// usual is the load of a plan without anything that goes wrong. The store takes what was bought, and so do the partitions.
func (in *inputs) usual(p *plan) scenario {
	bought := p.rate / in.utilisation
	return scenario{
		rate: p.rate, partitions: p.partitions, processes: p.processes,
		partition: in.partitionRate, process: in.cores / in.ingest * 1e6, store: bought,
		session: ceil(in.session), deal: ceil(in.heartbeat + in.deal),
		fullRows: in.fullBatch(), rowMemory: in.rowMemory, memory: in.memory * mib,
	}
}

// trouble is a scenario by name.
type trouble struct {
	name string
	scenario
}

// outages are the troubles that a plan is played through.
func (in *inputs) outages(p *plan) []trouble {
	const begin = 60
	away := in.usual(p)
	away.downFrom, away.downTo = begin, begin+ceil(in.outage)
	killed := in.usual(p)
	killed.killed = begin
	slow := killed
	slow.deal = ceil(in.rebalance)
	both := away
	both.killed = away.downTo
	return []trouble{
		{"ClickHouse is away for " + span(in.outage), away},
		{"an ingest process is killed", killed},
		{"the same, and another does not come to the deal", slow},
		{"ClickHouse is away, and as it comes back a process is killed", both},
	}
}
