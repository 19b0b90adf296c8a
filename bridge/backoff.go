package bridge

import (
	"context"
	"math/rand/v2"
	"time"
)

// Waits between two attempts to connect. Workers keep some events while the broker is away, and send them as soon as it is back: to
// be there by then, the bridge never waits for long.
const (
	firstWait = 200 * time.Millisecond
	lastWait  = 5 * time.Second
)

// backoff says how long to wait before the next attempt. The zero value has not waited yet.
type backoff struct{ last time.Duration }

// next doubles the wait, and gives between half and all of it, so that many do not come at once.
func (b *backoff) next() time.Duration {
	b.last = min(max(2*b.last, firstWait), lastWait)
	return b.last/2 + rand.N(b.last/2+1)
}

func (b *backoff) reset() { b.last = 0 }

// pause waits, and reports whether ctx still holds.
func pause(ctx context.Context, wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
