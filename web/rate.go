package web

import (
	"sync"
	"time"
)

// rate bounds how many events a second somebody may send. Up to two seconds' worth may come at once, and a request that is under
// way is never cut short: what it has too many, the next one waits for.
type rate struct {
	perSecond float64 // 0: unbounded

	mu   sync.Mutex
	left float64
	at   time.Time // of left
}

func newRate(perSecond int) *rate {
	return &rate{perSecond: float64(perSecond), left: 2 * float64(perSecond)}
}

// wait tells how long to wait before anything may be sent.
func (r *rate) wait(now time.Time) time.Duration {
	if r.perSecond == 0 {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fill(now)
	if r.left > 0 {
		return 0
	}
	return time.Duration((1 - r.left) / r.perSecond * float64(time.Second))
}

// take counts events that were sent.
func (r *rate) take(now time.Time, events int) {
	if r.perSecond == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fill(now)
	r.left -= float64(events)
}

func (r *rate) fill(now time.Time) {
	if since := now.Sub(r.at); r.at.IsZero() || since > 0 {
		if !r.at.IsZero() {
			r.left = min(r.left+since.Seconds()*r.perSecond, 2*r.perSecond)
		}
		r.at = now
	}
}
