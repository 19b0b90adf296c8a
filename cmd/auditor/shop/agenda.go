package shop

import (
	"container/heap"
	"time"
)

// step is something that will happen at a moment. Steps of one moment happen in the order in which they were planned.
type step struct {
	at     time.Duration
	number uint64
	do     func()
}

// agenda is what will happen, soonest first.
type agenda struct {
	steps   steps
	planned uint64
}

func (a *agenda) add(at time.Duration, do func()) {
	a.planned++
	heap.Push(&a.steps, step{at, a.planned, do})
}

func (a *agenda) next() step { return heap.Pop(&a.steps).(step) }

type steps []step

func (s steps) Len() int      { return len(s) }
func (s steps) Swap(i, j int) { s[i], s[j] = s[j], s[i] }
func (s *steps) Push(x any)   { *s = append(*s, x.(step)) }

func (s steps) Less(i, j int) bool {
	if s[i].at != s[j].at {
		return s[i].at < s[j].at
	}
	return s[i].number < s[j].number
}

func (s *steps) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	(*s)[last] = step{}
	*s = (*s)[:last]
	return x
}
