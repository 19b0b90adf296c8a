// Package agenda orders what a simulation will do or tell by its moment.
package agenda

import "time"

// Agenda is what will happen, soonest first. Things of one moment keep the order in which they were added. The zero value
// is empty. It is not safe for concurrent use.
type Agenda[T any] struct {
	steps []step[T] // a heap
	added uint64
}

type step[T any] struct {
	at     time.Duration
	number uint64
	what   T
}

func (s step[T]) before(o step[T]) bool {
	if s.at != o.at {
		return s.at < o.at
	}
	return s.number < o.number
}

// Len is how many things there are.
func (a *Agenda[T]) Len() int { return len(a.steps) }

// Add plans a thing.
func (a *Agenda[T]) Add(at time.Duration, what T) {
	a.added++
	a.steps = append(a.steps, step[T]{at, a.added, what})
	for i := len(a.steps) - 1; i > 0; {
		up := (i - 1) / 2
		if !a.steps[i].before(a.steps[up]) {
			break
		}
		a.steps[i], a.steps[up] = a.steps[up], a.steps[i]
		i = up
	}
}

// Soonest is the moment of the next thing, false when there is none.
func (a *Agenda[T]) Soonest() (time.Duration, bool) {
	if len(a.steps) == 0 {
		return 0, false
	}
	return a.steps[0].at, true
}

// Next takes the next thing off, false when there is none.
func (a *Agenda[T]) Next() (at time.Duration, what T, ok bool) {
	if len(a.steps) == 0 {
		return 0, what, false
	}
	first, last := a.steps[0], len(a.steps)-1
	a.steps[0], a.steps[last] = a.steps[last], step[T]{}
	a.steps = a.steps[:last]
	for i := 0; ; {
		least := i
		for _, down := range []int{2*i + 1, 2*i + 2} {
			if down < last && a.steps[down].before(a.steps[least]) {
				least = down
			}
		}
		if least == i {
			return first.at, first.what, true
		}
		a.steps[i], a.steps[least] = a.steps[least], a.steps[i]
		i = least
	}
}
