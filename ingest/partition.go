package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"github.com/segmentio/kafka-go"

	"auditor/event"
)

const (
	settleLimit = 3 * time.Second // for the last commit
	pollBytes   = 1               // of a fetch that only asks whether there is something
	leastFetch  = 64 << 10
)

// partition reads one partition during one generation. All of it belongs to one goroutine.
type partition struct {
	*Ingester
	generation
	place
	log *slog.Logger

	next     int64     // first offset that is not known to be in the store
	lagging  bool      // the group's offset is not next: something is left to confirm
	unsure   bool      // the last intent's rows are not known to be in the store, so that the intent must stay
	careful  int64     // ranges that begin before it may have been sent already: the store is asked first
	exact    *exact    // range of an open intent, to be sent with exactly these ends; nil when there is none
	readable int64     // offset before which there are records to read, as far as is known
	latest   time.Time // when the last batch was begun

	chunk chunk // what was fetched and is not yet in a batch
	held  int   // bytes of the budget that the chunk takes
	ratio int   // how many bytes of records came from a byte on the wire, at least 1
}

// span is a range of offsets, both inclusive.
type span struct{ first, last int64 }

// exact is the range of an open intent.
type exact struct {
	span
	records int // how many it held when the intent was written
}

func newPartition(i *Ingester, g generation, p place) *partition {
	return &partition{
		Ingester:   i,
		generation: g,
		place:      p,
		log:        i.log.With("topic", p.topic, "partition", p.partition),
		ratio:      1,
	}
}

// errGone says that the offset to read is not in the log any more, or not yet: what to do has to be found out anew.
var errGone = errors.New("the offset is out of range")

// run reads until the generation ends, which it makes happen by returning.
func (p *partition) run(ctx context.Context) {
	defer p.kafka.end(p.place)
	defer p.stored.end(p.place)
	defer p.drop()
	for {
		err := p.read(ctx)
		var s *stopped
		switch {
		case errors.Is(err, errFenced):
			p.log.Info("ingest gives a partition up", "generation", p.id, "reason", err)
			return
		case errors.As(err, &s):
			p.stand(s)
			if !pause(ctx, p.pace.stopped) {
				return
			}
		case errors.Is(err, errGone):
			if !pause(ctx, p.pace.firstRetry) {
				return
			}
		default: // ctx has ended
			p.settle()
			return
		}
		p.drop()
	}
}

// stand says that the partition stands still, once.
func (p *partition) stand(s *stopped) {
	p.kafka.end(p.place)
	p.stored.end(p.place)
	said := false
	p.update(func(st *PartitionStatus) {
		said = st.Stopped == s.reason && st.Detail == s.detail
		st.Stopped, st.Detail = s.reason, s.detail
	})
	if !said {
		p.log.Error("ingest stopped a partition", "reason", s.reason, "detail", s.detail)
	}
}

// read finds out where to go on, and goes on. It returns only with an error.
func (p *partition) read(ctx context.Context) error {
	if err := p.resume(ctx); err != nil {
		return err
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := p.gather(ctx)
		if err != nil {
			return err
		}
		if b.Last < b.First {
			if err := p.confirm(ctx); err != nil {
				return err
			}
			continue
		}
		if err := p.write(ctx, b); err != nil {
			return err
		}
	}
}

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
	return p.cut(upTo, p.config.MaxRows, p.config.MaxBytes), nil
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

// cut decodes the front of the chunk into a batch that begins at the next offset and ends at upTo or before, with about as
// many rows and bytes at most, though at least one record. Where nothing is left of the chunk the batch covers all of it,
// with what holds no record at its end.
func (p *partition) cut(upTo int64, rows, bytes int) event.Batch {
	b := event.Batch{Topic: p.topic, Partition: p.partition, First: p.next, Last: p.next - 1}
	for len(p.chunk.entries) > 0 {
		e := &p.chunk.entries[0]
		if e.Offset > upTo {
			b.Last = upTo
			return b
		}
		if b.Records > 0 && (len(b.Events)+len(b.Rejects) >= rows || bytes <= 0) {
			return b
		}
		if e.broken != nil {
			b.Rejects = append(b.Rejects, *e.broken)
		} else {
			events, rejects := p.decoder.Decode(e.Record)
			b.Events = append(b.Events, events...)
			b.Rejects = append(b.Rejects, rejects...)
		}
		bytes -= e.size()
		b.Records++
		b.Time = e.Time
		b.Last = e.last
		p.chunk.entries = p.chunk.entries[1:]
	}
	b.Last = max(b.Last, min(p.chunk.next-1, upTo))
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
	p.chunk = chunk{entries: entries, next: want.last + 1}
	b := p.cut(want.last, math.MaxInt, math.MaxInt)
	p.drop()
	return b, nil
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
		if errors.Is(err, kafka.OffsetOutOfRange) {
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

// retry calls do until it succeeds, with growing pauses. It gives up only where a further attempt must not be made: the
// partition has to stand still, the group has gone on, the offset is gone, or ctx has ended.
func (p *partition) retry(ctx context.Context, side *troubles, do func() error) error {
	for wait := p.pace.firstRetry; ; wait = min(2*wait, p.pace.lastRetry) {
		err := do()
		var s *stopped
		switch {
		case err == nil:
			side.end(p.place)
			return nil
		case errors.As(err, &s), errors.Is(err, errFenced), errors.Is(err, errGone):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		side.begin(p.place, err)
		p.metrics.retries.WithLabelValues(side.side).Inc()
		if !pause(ctx, wait/2+rand.N(wait)) {
			return ctx.Err()
		}
	}
}

// write stores a batch: its intent first, then its rows.
func (p *partition) write(ctx context.Context, b event.Batch) error {
	if err := p.intend(ctx, b); err != nil {
		return err
	}
	store := p.insert
	if b.First < p.careful {
		store = p.complete
	}
	if err := store(ctx, b); err != nil {
		return err
	}
	p.advance(b)
	return nil
}

// intend commits that b is about to be stored. Its success says that the partition is still this member's, and that nobody
// else gets it without learning of b.
func (p *partition) intend(ctx context.Context, b event.Batch) error {
	p.unsure = true
	in := intent{last: b.Last, records: b.Records, until: p.careful, open: true}
	return p.commit(ctx, b.First, in.String())
}

// confirm commits that everything before the next offset is stored.
func (p *partition) confirm(ctx context.Context) error {
	if !p.confirmable() {
		return nil
	}
	if err := p.commit(ctx, p.next, ""); err != nil {
		return err
	}
	p.lagging = false
	return nil
}

// confirmable reports whether there is something to confirm, and the intent tells nothing that the next reader needs.
func (p *partition) confirmable() bool { return p.lagging && !p.unsure && p.next >= p.careful }

func (p *partition) commit(ctx context.Context, offset int64, metadata string) error {
	return p.retry(ctx, p.kafka, func() error {
		err := p.client.commit(ctx, p.generation, p.topic, p.partition, offset, metadata)
		if fenced(err) {
			return fmt.Errorf("%w: %w", errFenced, err)
		}
		return err
	})
}

// settle makes the last commit of a generation that ended, so that the next reader has nothing to look up. Whether it
// succeeds does not matter.
func (p *partition) settle() {
	ctx, cancel := context.WithTimeout(context.Background(), settleLimit)
	defer cancel()
	if p.confirmable() {
		_ = p.client.commit(ctx, p.generation, p.topic, p.partition, p.next, "")
	}
}

// insert stores b's rows. An attempt is let end although the generation does, within its own time limit: its outcome is
// worth knowing.
func (p *partition) insert(ctx context.Context, b event.Batch) error {
	return p.retry(ctx, p.stored, func() error {
		attempt, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.config.InsertTimeout)
		defer cancel()
		start := time.Now()
		err := p.store.InsertBatch(attempt, b)
		p.metrics.insertTime.Observe(time.Since(start).Seconds())
		return p.refused(err)
	})
}

// refused turns an error that no retry can heal into the reason to stand still.
func (p *partition) refused(err error) error {
	if permanent(err) {
		return stop(StoreRefuses, "%v", err)
	}
	return err
}

// advance goes on behind b, which is stored.
func (p *partition) advance(b event.Batch) {
	p.next, p.lagging, p.unsure = b.Last+1, true, false
	if p.exact != nil && p.exact.first <= b.First {
		p.exact = nil
	}
	m := p.metrics
	m.records.WithLabelValues(p.topic).Add(float64(b.Records))
	m.events.WithLabelValues(p.topic).Add(float64(len(b.Events)))
	for i := range b.Rejects {
		m.rejects.WithLabelValues(p.topic, string(b.Rejects[i].Reason)).Inc()
	}
	m.batches.WithLabelValues(p.topic).Inc()
	m.batchRows.Observe(float64(len(b.Events) + len(b.Rejects)))
	p.update(func(s *PartitionStatus) {
		s.Next = p.next
		s.Stopped, s.Detail = "", ""
		if b.Records > 0 {
			s.Newest = b.Time
		}
	})
}

func (p *partition) update(change func(*PartitionStatus)) { p.board.update(p.id, p.place, change) }

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
