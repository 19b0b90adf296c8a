package ingest

import (
	"context"
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
	return p.cut(bound{upTo, p.most(), p.config.MaxRows, p.config.MaxBytes}), nil
}

// bound is how far a batch may reach.
type bound struct {
	upTo                 int64 // last offset
	records, rows, bytes int   // about; it holds at least one record
}

// await reports whether there is something to read. It waits for that, and then, unless there is plenty, until MaxWait has
// passed since the last batch, so that few records do not make many batches.
func (p *partition) await(ctx context.Context) (bool, error) {
	if p.readable <= p.next {
		if _, err := p.fetch(ctx, pollBytes, p.config.MaxWait); err != nil || p.readable <= p.next {
			return false, err
		}
	}
	if rest := p.config.MaxWait - time.Since(p.latest); rest > 0 && p.readable-p.next < int64(p.config.MaxRows) {
		if !pause(ctx, rest) {
			return false, ctx.Err()
		}
	}
	p.latest = time.Now()
	return true, nil
}

// fill fetches a chunk, once the budget has room for it.
func (p *partition) fill(ctx context.Context) error {
	limit := max(p.config.MaxBytes/p.ratio, min(leastFetch, p.config.MaxBytes))
	if err := p.reserve(ctx, limit); err != nil {
		return err
	}
	resp, err := p.fetch(ctx, limit, 0)
	if err != nil {
		return err
	}
	chunk, err := decodeRecords(p.topic, p.partition, p.next, resp.records, resp.rolledBack)
	if err != nil {
		return err
	}
	if chunk.next == p.next && !pause(ctx, p.pace.firstRetry) { // what the broker called readable is gone again
		return ctx.Err()
	}
	p.keep(chunk, len(resp.records))
	return nil
}

// reserve takes the place of the chunk's part of the budget with one for so many bytes of records.
func (p *partition) reserve(ctx context.Context, bytes int) error {
	p.drop()
	if err := p.budget.take(ctx, batchCost(bytes)); err != nil {
		return err
	}
	p.held = batchCost(bytes)
	return nil
}

// keep takes over a chunk that was read from so many bytes on the wire.
func (p *partition) keep(c chunk, wire int) {
	bytes := 0
	for i := range c.entries {
		bytes += c.entries[i].size()
	}
	p.ratio = max(bytes/max(wire, 1), 1)
	p.chunk = c
	p.budget.give(p.held - batchCost(bytes))
	p.held = batchCost(bytes)
}

// drop forgets the chunk.
func (p *partition) drop() {
	p.chunk = chunk{}
	p.budget.give(p.held)
	p.held = 0
}

// cut decodes the front of the chunk into a batch that begins at the next offset and stays within the bound. Where nothing
// is left of the chunk the batch covers all of it, with what holds no record at its end.
func (p *partition) cut(to bound) event.Batch {
	p.uncut = p.chunk.entries
	b := event.Batch{Topic: p.topic, Partition: p.partition, First: p.next, Last: p.next - 1}
	b.Events = make([]event.Event, 0, min(len(p.chunk.entries), to.records, to.rows)) // nearly every record is one event
	for len(p.chunk.entries) > 0 {
		e := &p.chunk.entries[0]
		if e.Offset > to.upTo {
			b.Last = to.upTo
			return b
		}
		if b.Records > 0 && (b.Records >= to.records || len(b.Events)+len(b.Rejects) >= to.rows || to.bytes <= 0) {
			return b
		}
		switch {
		case e.broken != nil:
			b.Rejects = append(b.Rejects, *e.broken)
		case p.refused != nil && p.refused.offset == e.Offset:
			r := rejectOf(e.Record, event.ReasonStoreRefused, p.refused.detail)
			r.Index = event.WholeRecord
			b.Rejects = append(b.Rejects, r)
		default:
			b.Events, b.Rejects = p.decode(b.Events, b.Rejects, e.Record)
		}
		to.bytes -= e.size()
		b.Records++
		b.Time = e.Time
		if b.Oldest.IsZero() || e.Time.Before(b.Oldest) {
			b.Oldest = e.Time
		}
		b.Last = e.last
		p.chunk.entries = p.chunk.entries[1:]
	}
	b.Last = max(b.Last, min(p.chunk.next-1, to.upTo))
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
	p.chunk = chunk{entries: entries, next: want.last + 1} // its part of the budget is held until the batch is stored
	return p.cut(bound{want.last, math.MaxInt, math.MaxInt, math.MaxInt}), nil
}

// readRange reads all records of a range that is known to have been readable. They take their part of the budget until
// drop.
func (p *partition) readRange(ctx context.Context, want span) ([]entry, error) {
	if err := p.reserve(ctx, p.config.MaxBytes); err != nil {
		return nil, err
	}
	var all []entry
	for from := want.first; from <= want.last; {
		resp, err := p.fetchAt(ctx, from, p.config.MaxBytes, p.config.MaxWait)
		if err != nil {
			return nil, err
		}
		c, err := decodeRecords(p.topic, p.partition, from, resp.records, resp.rolledBack)
		if err != nil {
			return nil, err
		}
		if c.next == from && !pause(ctx, p.pace.firstRetry) {
			return nil, ctx.Err()
		}
		for i := range c.entries {
			if c.entries[i].Offset <= want.last {
				all = append(all, c.entries[i])
			}
		}
		from = c.next
	}
	return all, nil
}

// fetch asks for records from the next offset on.
func (p *partition) fetch(ctx context.Context, limit int, wait time.Duration) (*fetchResponse, error) {
	return p.fetchAt(ctx, p.next, limit, wait)
}

func (p *partition) fetchAt(ctx context.Context, offset int64, limit int, wait time.Duration) (*fetchResponse, error) {
	var resp *fetchResponse
	err := p.retry(ctx, p.kafka, func() (err error) {
		resp, err = p.client.fetch(ctx, p.topic, p.partition, offset, 1, limit, wait)
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

// size is how many bytes of the chunk an entry takes.
func (e *entry) size() int {
	n := len(e.Key) + len(e.Value)
	for i := range e.Headers {
		n += len(e.Headers[i].Key) + len(e.Headers[i].Value)
	}
	if e.broken != nil {
		n += len(e.broken.Raw)
	}
	return n + recordOverhead
}

// recordOverhead stands for what a record takes besides its bytes, in units of bytes of records.
const recordOverhead = 64
