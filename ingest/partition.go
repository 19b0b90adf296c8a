package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"auditor/event"
)

const settleLimit = 3 * time.Second // for the last commit

// partition reads one partition during one generation. All of it belongs to one goroutine.
type partition struct {
	*Ingester
	generation
	place
	log *slog.Logger

	next     int64     // first offset that is not known to be in the store
	lagging  bool      // the group's offset is not next: something is left to confirm
	unsure   bool      // the last intent's rows are not known to be in the store, so that the intent must stay
	intent   string    // the last intent, as it was committed
	owned    time.Time // when the last commit that the group took was sent: for a session from then on the partition is nobody else's
	careful  int64     // ranges that begin before it may have been sent already: the store is asked first
	exact    *exact    // range of an open intent, to be sent with exactly these ends; nil when there is none
	readable int64     // offset before which there are records to read, as far as is known
	latest   time.Time // when the last batch was begun

	chunk     chunk   // what was fetched and is not yet in a batch
	held      int     // bytes of the budget that the chunk and a batch of it take
	own       int     // bytes of them that the chunk takes
	allowance int     // bytes of them that a batch may take
	share     int     // bytes of records that make a batch of it
	ratio     float64 // how many bytes of records came from a byte on the wire, at least 1
	weight    float64 // how many bytes of memory a byte of records took
	size      int     // how many bytes a record had

	// What the store refuses, see divide.
	taken    span          // offsets of the first and the last record in the last batch
	bad      int64         // last offset of the smallest range known to hold what the store refuses, -1 at first
	limit    int           // records that one batch may hold, as the store was asked too much before; 0: no limit but the usual ones
	refused  *refusedAlone // becomes a reject
	refusals int           // records that were refused alone, with none accepted between
	heavy    heavy         // the record that asks too much alone
	doubtful []event.Range // ranges, now divided, of which an attempt may still be under way
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
		weight:     i.budget.weight(1, 1, usualSize),
		size:       usualSize,
		bad:        -1,
	}
}

// errAnew says that the batch is to be read and tried anew: it may take long, and what else was read takes room meanwhile
// that others need.
var errAnew = errors.New("the batch is read anew")

// errGone says that the offset to read is not in the log any more, or not yet: what to do has to be found out anew.
var errGone = errors.New("the offset is out of range")

// run reads until the generation ends, which it makes happen by returning.
func (p *partition) run(ctx context.Context) {
	defer p.kafka.end(p.place)
	defer p.stored.end(p.place)
	for {
		err := p.read(ctx)
		p.drop() // before any pause: others need the memory
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
		case errors.Is(err, errGone), errors.Is(err, errAnew):
			if !pause(ctx, p.pace.firstRetry) {
				return
			}
		default: // ctx has ended
			p.settle()
			return
		}
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

// retry calls do until it succeeds, with growing pauses. It gives up only where a further attempt must not be made: the
// partition has to stand still, the group has gone on, the offset is gone, or ctx has ended.
func (p *partition) retry(ctx context.Context, side *troubles, do func() error) error {
	for wait := p.pace.firstRetry; ; wait = min(2*wait, p.pace.lastRetry) {
		err := do()
		var s *stopped
		var r *refusal
		switch {
		case err == nil:
			side.end(p.place)
			return nil
		case errors.As(err, &s), errors.As(err, &r), errors.Is(err, errFenced), errors.Is(err, errGone), errors.Is(err, errNoRoom), errors.Is(err, errAnew):
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
	err := store(ctx, b)
	var r *refusal
	switch {
	case errors.As(err, &r):
		return p.divide(ctx, b, r)
	case err == nil:
		p.advance(b)
	}
	return err
}

// intend commits that b is about to be stored. Its success says that the partition is still this member's, and that nobody
// else gets it without learning of b.
func (p *partition) intend(ctx context.Context, b event.Batch) error {
	p.unsure = true
	p.intent = intent{last: b.Last, records: b.Records, until: p.careful, doubtful: p.doubtful, open: true}.String()
	return p.commit(ctx, b.First, p.intent)
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
		asked := time.Now()
		err := p.client.commit(ctx, p.generation, p.topic, p.partition, offset, metadata)
		switch {
		case fenced(err):
			return fmt.Errorf("%w: %w", errFenced, err)
		case err == nil:
			p.owned = asked
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
// worth knowing. But none is begun long after the intent, unless the group takes that once more: the process may have been
// paused, the partition be another's, and the store have forgotten b's token. What the store refuses comes back as a refusal.
func (p *partition) insert(ctx context.Context, b event.Batch) error {
	doubt := p.exact != nil && p.exact.first == b.First // whoever had the partition before may have sent it
	tooMuch := 0
	return p.retry(ctx, p.stored, func() error {
		if time.Since(p.owned) > p.pace.owned {
			if err := p.commit(ctx, b.First, p.intent); err != nil {
				return err
			}
		}
		attempt, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.config.InsertTimeout)
		defer cancel()
		start := time.Now()
		err := p.store.InsertBatch(attempt, b)
		p.metrics.insertTime.Observe(time.Since(start).Seconds())
		switch {
		case ofContent(err):
			return &refusal{err, true, doubt}
		case !ofSize(err):
			doubt = doubt || err != nil
			return p.lasting(err)
		}
		tooMuch++
		switch {
		case b.Records > 1 && tooMuch >= enoughTries:
			return &refusal{err, false, doubt}
		case b.Records == 1 && p.tooMuchAlone(b.First):
			return &refusal{err, true, doubt}
		case b.Records == 1 && tooMuch >= enoughAlone:
			return errAnew
		}
		return err
	})
}

// lasting turns an error that no retry can heal into the reason to stand still.
func (p *partition) lasting(err error) error {
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
	p.recover(b)
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
