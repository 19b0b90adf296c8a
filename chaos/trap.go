package main

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// mishap is what befalls one request on its way.
type mishap int

const (
	lostAnswer  mishap = iota + 1 // it is passed on and applied; its answer is dropped and the connection cut
	appliedLate                   // the connection is cut at once; it is passed on later, when it may have been sent again
	heldUp                        // it is passed on later, and nobody cuts the connection meanwhile
	cutShort                      // half of it is passed on, and both connections are cut
)

// trap waits for a request to befall. It is laid at the proxies of several ingesters, and catches one request.
type trap struct {
	mishap  mishap
	matches func(request string) bool // what the request asks for, in a proxy's words
	later   time.Duration             // until it is passed on
	release chan struct{}             // closed to pass on what is held up, before later has passed; may be nil
	full    atomic.Bool
	caught  chan catch // gets what it caught
}

// catch is a request in a trap.
type catch struct {
	who     int // the ingester that sent it
	request string
}

// traps are those that are laid at one proxy.
type traps struct {
	who int // the ingester behind it
	mu  sync.Mutex
	set []*trap
}

// lay lays a trap.
func (t *traps) lay(trap *trap) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set = append(t.set, trap)
}

// lift removes a trap.
func (t *traps) lift(old *trap) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set = slices.DeleteFunc(t.set, func(s *trap) bool { return s == old })
}

// befall gives the trap that a request springs, nil where there is none.
func (t *traps) befall(request string) *trap {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, trap := range t.set {
		if trap.matches(request) && trap.full.CompareAndSwap(false, true) {
			trap.caught <- catch{t.who, request}
			return trap
		}
	}
	return nil
}

// wait waits until what is held up may go on.
func (t *trap) wait() {
	timer := time.NewTimer(t.later)
	defer timer.Stop()
	select {
	case <-t.release: // nil where only time counts
	case <-timer.C:
	}
}

// link is the condition of the connections through a proxy.
type link struct {
	mu     sync.Mutex
	slow   time.Duration // added to each request
	until  time.Time
	scarce time.Time // until when the server has no memory
}

// slowDown makes the link slow for a while.
func (l *link) slowDown(by, lasts time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow, l.until = by, time.Now().Add(lasts)
}

// starve leaves the server without memory for a while, or so it seems.
func (l *link) starve(lasts time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.scarce = time.Now().Add(lasts)
}

func (l *link) starves() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.scarce)
}

func (l *link) delay() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().After(l.until) {
		return 0
	}
	return l.slow
}

func (m mishap) String() string {
	switch m {
	case lostAnswer:
		return "applied, the answer was lost"
	case appliedLate:
		return "cut, and applied later"
	case heldUp:
		return "held up"
	case cutShort:
		return "cut in the middle"
	}
	return fmt.Sprintf("mishap %d", int(m))
}
