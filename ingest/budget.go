package ingest

import (
	"context"
	"sync"
)

// costOfByte is about how many bytes of memory a byte of a record takes until its batch is in the store: decoded, as
// columns, and encoded for the wire.
const costOfByte = 8

func batchCost(bytes int) int { return bytes * costOfByte }

// budget bounds the memory that all batches in flight take together. Who waits is served in order, so that no partition
// starves.
type budget struct {
	mu      sync.Mutex
	free    int
	waiting []*claim
}

type claim struct {
	bytes int
	ready chan struct{}
}

// take waits until n bytes are free, or ctx ends. n is never more than the whole budget.
func (b *budget) take(ctx context.Context, n int) error {
	b.mu.Lock()
	if len(b.waiting) == 0 && b.free >= n {
		b.free -= n
		b.mu.Unlock()
		return nil
	}
	c := &claim{n, make(chan struct{})}
	b.waiting = append(b.waiting, c)
	b.mu.Unlock()
	select {
	case <-c.ready:
		return nil
	case <-ctx.Done():
		b.withdraw(c)
		return ctx.Err()
	}
}

// withdraw gives up a claim, and what it got meanwhile.
func (b *budget) withdraw(c *claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, w := range b.waiting {
		if w == c {
			b.waiting = append(b.waiting[:i:i], b.waiting[i+1:]...)
			b.serve()
			return
		}
	}
	b.free += c.bytes
	b.serve()
}

// give returns n bytes. A negative n takes them without waiting, for what turned out larger than it was thought: others
// then wait longer.
func (b *budget) give(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += n
	b.serve()
}

func (b *budget) serve() {
	for len(b.waiting) > 0 && b.free >= b.waiting[0].bytes {
		b.free -= b.waiting[0].bytes
		close(b.waiting[0].ready)
		b.waiting = b.waiting[1:]
	}
}
