package ingest

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"time"

	"github.com/segmentio/kafka-go"

	"auditor/event"
)

const (
	pollBytes  = 1 // of a fetch that only asks whether there is something
	leastFetch = 64 << 10
)

// gather gives the next batch, one without a range when there was nothing to read for a while.
func (p *partition) gather(ctx context.Context) (event.Batch, error) {
	upTo := int64(math.MaxInt64)
	switch {
	case p.exact == nil:
	case p.next == p.exact.first:
		return p.gatherExact(ctx)
	default:
		upTo = p.exact.first - 1
	}
	if len(p.chunk.entries) == 0 {
		p.drop()
		if ready, err := p.await(ctx); err != nil || !ready {
			return event.Batch{First: p.next, Last: p.next - 1}, err
		}
		if err := p.fill(ctx); err != nil {
			return event.Batch{}, err
		}
	}
	return p.cut(bound{upTo, p.most(), p.config.MaxRows, p.share, false}), nil
}

// bound is how far a batch may reach.
type bound struct {
	upTo                 int64 // last offset
	records, rows, bytes int   // about; it holds at least one record
	whole                bool  // it reaches so far whatever memory it takes
}

// await reports whether there is something to read. It waits for that, and then, unless there is plenty, until MaxWait has
// passed since the last batch, so that few records do not make many batches.
func (p *partition) await(ctx context.Context) (bool, error) {
	if p.readable <= p.next {
		if _, err := p.fetchAt(ctx, p.next, demand{limit: pollBytes, wait: p.config.MaxWait}); err != nil || p.readable <= p.next {
			return false, err
		}
	}
	if rest := p.config.MaxWait - time.Since(p.latest); rest > 0 && p.readable-p.next < p.plenty() {
		if !pause(ctx, rest) {
			return false, ctx.Err()
		}
	}
	p.latest = time.Now()
	return true, nil
}

// fill fetches a chunk, once the budget has room for it.
func (p *partition) fill(ctx context.Context) error {
	limit := max(int(float64(p.enough())/p.ratio), min(leastFetch, p.config.MaxBytes))
	return p.within(ctx, false, func() (chunk, error) {
		c, err := p.load(ctx, p.next, limit, 0)
		if err != nil {
			return c, err
		}
		if c.next == p.next && !pause(ctx, p.pace.firstRetry) { // what the broker called readable is gone again
			return c, ctx.Err()
		}
		p.ratio = max(float64(c.bytes)/float64(max(c.packed, 1)), 1)
		return c, nil
	})
}

// within reads a chunk within a part of the budget. Where a single batch or record, or a chunk that must become a batch as a
// whole, takes more than is set aside for a fetch, it is read again once all of the budget is this partition's.
func (p *partition) within(ctx context.Context, whole bool, read func() (chunk, error)) error {
	for _, part := range p.budget.parts(p.config.MaxBytes) {
		p.drop()
		if err := p.budget.take(ctx, part); err != nil {
			return err
		}
		p.held = part
		c, err := read()
		if errors.Is(err, errNoRoom) {
			continue
		}
		if err != nil {
			return err
		}
		if p.keep(c, whole) {
			return nil
		}
	}
	return nil
}

// enough is how many bytes of records make a chunk that fits into its part of the budget as one batch, if they are like the latest.
func (p *partition) enough() int {
	return max(min(p.config.MaxBytes, int(float64(p.budget.part(p.config.MaxBytes))/p.weight*19/20)), 1)
}

// plenty is how many records make such a chunk.
func (p *partition) plenty() int64 { return int64(min(p.enough()/p.size+1, p.config.MaxRows)) }

// load fetches and unpacks about limit bytes from an offset on, within what is held of the budget.
func (p *partition) load(ctx context.Context, from int64, limit int, wait time.Duration) (chunk, error) {
	room := p.budget.room(p.held)
	resp, err := p.fetchAt(ctx, from, demand{limit, room, wait})
	if err != nil {
		return chunk{}, err
	}
	return decodeRecords(p.topic, p.partition, from, resp.records, resp.rolledBack, space{p.enough(), room})
}

// alone reports whether all of the budget is this partition's.
func (p *partition) alone() bool { return p.held >= p.budget.size }

// keep takes over a chunk, which is to be one batch if it is whole, and reports whether there is memory for it. It gives back
// what is not needed of the budget, and takes what is needed more if that can be had at once; if not, the chunk's batches are
// smaller.
func (p *partition) keep(c chunk, whole bool) bool {
	p.chunk = c
	bytes, largest := 0, 0
	for i := range c.entries {
		n := c.entries[i].size()
		bytes, largest = bytes+n, max(largest, n)
	}
	p.share = bytes/(bytes/(aFewMore(p.config.MaxBytes)+1)+1) + 1 // a few bytes more make no batch of their own
	own := costOfChunk(len(c.entries), bytes)
	most := own + p.budget.costOfBatch(min(len(c.entries), p.config.MaxRows), p.share)
	least := own + p.budget.costOfBatch(1, largest)
	if whole {
		most = own + p.budget.costOfBatch(len(c.entries), bytes)
		least = most
	}
	switch {
	case most <= p.held:
		p.budget.give(p.held - most)
		p.held = most
	case p.alone():
		n := max(p.held, least)
		p.budget.give(p.held - n)
		p.held = n
	case p.budget.try(most - p.held):
		p.held = most
	case least > p.held:
		return false
	}
	p.own, p.allowance = own, p.held-own
	if most > p.held { // batches of one size rather than large ones and rests
		p.share = min(p.share, bytes/(p.budget.costOfBatch(len(c.entries), bytes)/p.allowance+1)+1)
	}
	return true
}

// drop forgets the chunk.
func (p *partition) drop() {
	p.chunk = chunk{}
	p.budget.give(p.held)
	p.held, p.own = 0, 0
}

// affords reports whether a batch of so many rows and bytes may have more of them. Where all that was set aside for it is taken, as
// by arrays, which make many rows, it takes more if that can be had at once.
func (p *partition) affords(rows, bytes int) bool {
	if p.budget.costOfBatch(rows, bytes) < p.allowance {
		return true
	}
	more := p.allowance/4 + p.budget.costOfBatch(1, 0)
	if !p.budget.try(more) {
		return false
	}
	p.held += more
	p.allowance += more
	return true
}

// charge takes what a batch of so many rows and bytes takes beyond what was set aside for it: the others then wait longer.
func (p *partition) charge(rows, bytes int) {
	if over := p.budget.costOfBatch(rows, bytes) - p.allowance; over > 0 {
		p.budget.give(-over)
		p.held += over
		p.allowance += over
	}
}

// aFewMore is how many bytes are still taken for the limit.
func aFewMore(limit int) int { return limit + limit/4 }

// cut decodes the front of the chunk into a batch that begins at the next offset and stays within the bound. Where nothing
// is left of the chunk the batch covers all of it, with what holds no record at its end.
func (p *partition) cut(to bound) event.Batch {
	b := event.Batch{Topic: p.topic, Partition: p.partition, First: p.next, Last: p.next - 1}
	b.Events = make([]event.Event, 0, min(len(p.chunk.entries), to.records, to.rows, 1+p.allowance/costOfEvent)) // nearly every record is one event
	bytes := 0
	for len(p.chunk.entries) > 0 {
		e := &p.chunk.entries[0]
		if e.Offset > to.upTo {
			b.Last = to.upTo
			return b
		}
		full := b.Records >= to.records || rowsOf(b) >= to.rows || bytes >= to.bytes || !to.whole && !p.affords(rowsOf(b), bytes)
		if b.Records > 0 && full {
			return b
		}
		switch {
		case e.broken != nil:
			b.Rejects = append(b.Rejects, *e.broken)
		case p.refused != nil && p.refused.offset == e.Offset:
			record, _ := e.record()
			r := rejectOf(record, event.ReasonStoreRefused, p.refused.detail)
			r.Index = event.WholeRecord
			b.Rejects = append(b.Rejects, r)
		default:
			b.Events, b.Rejects = p.readEntry(b.Events, b.Rejects, e)
		}
		bytes += e.size()
		p.charge(rowsOf(b), bytes)
		if b.Records == 0 {
			p.taken.first = e.Offset
		}
		p.taken.last = e.Offset
		b.Records++
		b.Time = e.Time
		if b.Oldest.IsZero() || e.Time.Before(b.Oldest) {
			b.Oldest = e.Time
		}
		b.Last = e.last
		p.chunk.entries = p.chunk.entries[1:]
	}
	b.Last = max(b.Last, min(p.chunk.next-1, to.upTo))
	if bytes > 0 {
		p.weight, p.size = p.budget.weight(b.Records, rowsOf(b), bytes), max(bytes/b.Records, 1)
	}
	p.chunk.entries = nil // events hold no bytes of records
	p.budget.give(p.own)
	p.held -= p.own
	p.own = 0
	return b
}

// gatherExact gives the batch of an open intent: all of its range, and not an offset more.
func (p *partition) gatherExact(ctx context.Context) (event.Batch, error) {
	want := p.exact
	entries, err := p.readRange(ctx, want.span)
	if err != nil {
		return event.Batch{}, err
	}
	if len(entries) != want.records {
		return event.Batch{}, stop(Replaced, "offsets %d to %d held %d records, and hold %d: the topic was made anew",
			want.first, want.last, want.records, len(entries))
	}
	p.chunk.next = want.last + 1
	return p.cut(bound{want.last, math.MaxInt, math.MaxInt, math.MaxInt, true}), nil
}

// readRange reads all records of a range that is known to have been readable, into the chunk.
func (p *partition) readRange(ctx context.Context, want span) ([]entry, error) {
	limit := p.config.MaxBytes
	if want.first == want.last {
		limit = pollBytes // one batch of records comes all the same
	}
	err := p.within(ctx, true, func() (all chunk, err error) {
		for from := want.first; from <= want.last; {
			c, err := p.load(ctx, from, limit, p.config.MaxWait)
			if err != nil {
				return all, err
			}
			if c.next == from && !pause(ctx, p.pace.firstRetry) {
				return all, ctx.Err()
			}
			for i := range c.entries {
				if c.entries[i].Offset <= want.last {
					all.entries = append(all.entries, c.entries[i])
				}
			}
			from = c.next
		}
		return all, nil
	})
	return p.chunk.entries, err
}

// fetchAt asks for records, until there is an answer.
func (p *partition) fetchAt(ctx context.Context, offset int64, d demand) (*fetchResponse, error) {
	var resp *fetchResponse
	err := p.retry(ctx, p.kafka, func() (err error) {
		resp, err = p.client.fetch(ctx, p.topic, p.partition, offset, d)
		if errors.Is(err, kafka.OffsetOutOfRange) || errors.Is(err, kafka.UnknownTopicOrPartition) { // it may come back as another
			return errGone
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	p.readable = resp.stable
	p.update(func(s *PartitionStatus) {
		s.HighWatermark, s.Checked = resp.end, time.Now()
		if resp.logStart >= 0 {
			s.LogStart = resp.logStart
		}
	})
	return resp, nil
}

// costOfHeader is about how many bytes of memory a header takes in a reject, beside its own.
const costOfHeader = 40

// size is how many bytes of records an entry is.
func (e *entry) size() int {
	headers, _ := binary.Varint(e.headers)
	n := len(e.Key) + len(e.Value) + len(e.headers) + int(min(headers, maxHeaders))*costOfHeader
	if e.broken != nil {
		n += len(e.broken.Raw)
	}
	return n
}
