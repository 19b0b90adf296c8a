package ingest

import (
	"context"
	"math"
	"sync"
)

// About how many bytes of memory records take, and events until they are in the store, each by number and by bytes of records.
// What the store takes beside the events it may tell itself, see Store.
const (
	costOfRecord  = 160
	costOfEvent   = 640
	footprintRow  = 512
	footprintByte = 1
)

// costOfFetch is what is set aside for each byte that one fetch may give.
const costOfFetch = 5

func costOfChunk(records, bytes int) int { return records*costOfRecord + bytes }

// costOfBatch is what a batch takes beside its records.
func (b *budget) costOfBatch(rows, bytes int) int {
	return rows*(costOfEvent+b.footprint.row) + bytes*(1+b.footprint.byte)
}

// weight is how many bytes of memory a byte of records takes that became so many rows, all in one batch.
func (b *budget) weight(records, rows, bytes int) float64 {
	return float64(costOfChunk(records, bytes)+b.costOfBatch(rows, bytes)) / float64(bytes)
}

// usualSize is how many bytes a record is thought to have before the first was read.
const usualSize = 300

// footprint is what an insert takes in memory beside the events, by row and by byte of their records.
type footprint struct{ row, byte int }

func footprintOf(s Store) footprint {
	if teller, ok := s.(interface{ Footprint() (row, perByte int) }); ok {
		row, perByte := teller.Footprint()
		return footprint{row, perByte}
	}
	return footprint{footprintRow, footprintByte}
}

// budget bounds the memory that all partitions' chunks and batches take together. Who waits is served in order, so that no
// partition starves.
type budget struct {
	mu        sync.Mutex
	size      int
	footprint footprint
	free      int // negative where somebody who has all of it takes more
	waiting   []*claim
}

type claim struct {
	bytes int
	ready chan struct{}
}

func newBudget(size int, f footprint) *budget { return &budget{size: size, free: size, footprint: f} }

// part is what to set aside for a fetch of so many bytes, before it is known what they hold. It leaves room for two other batches of
// that size, whose records were let go: one is read while others are stored.
func (b *budget) part(bytes int) int { return min(bytes*costOfFetch, b.size/5*2) }

// parts are what to claim for a fetch, one after the other: its part, and then, for what takes more, all that there is. What takes
// most is in memory alone.
func (b *budget) parts(bytes int) [2]int { return [2]int{b.part(bytes), b.size} }

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
