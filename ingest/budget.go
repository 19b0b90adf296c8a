package ingest

import (
	"context"
	"math"
	"sync"
)

// About how many bytes of memory records take until they are in the store. The first is of a record that was unpacked, the
// other two of what a batch takes beside its records, by row and by byte: events, then columns, then the block on its way.
const (
	costOfRecord = 160
	costOfRow    = 1024
	costOfByte   = 3
)

// costOfFetch is what is set aside for each byte that one fetch may give, before it is known what it holds.
const costOfFetch = 8

func costOfChunk(records, bytes int) int { return records*costOfRecord + bytes }

func costOfBatch(rows, bytes int) int { return rows*costOfRow + bytes*costOfByte }

// budget bounds the memory that all partitions' chunks and batches take together. Who waits is served in order, so that no
// partition starves.
type budget struct {
	mu      sync.Mutex
	size    int
	free    int // negative where somebody who has all of it takes more
	waiting []*claim
}

type claim struct {
	bytes int
	ready chan struct{}
}

func newBudget(size int) *budget { return &budget{size: size, free: size} }

// parts are what to claim for n bytes, one after the other: those, and then, for what takes more, all that there is. What takes
// most is in memory alone.
func (b *budget) parts(n int) [2]int { return [2]int{min(n, b.size), b.size} }

// room is how large a response may be of which the fetch has such a part of the budget, and how much of it may be unpacked: half
// of the part each. For who has all there is no limit here.
func (b *budget) room(part int) int {
	if part >= b.size {
		return math.MaxInt
	}
	return part / 2
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

// try takes n bytes if they are free and nobody waits, and reports whether it did.
func (b *budget) try(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 || b.free < n {
		return false
	}
	b.free -= n
	return true
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

// give returns n bytes. A negative n takes them without waiting: the others then wait longer.
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

// state tells how much is taken, and how many wait.
func (b *budget) state() (taken, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.size - b.free, len(b.waiting)
}
