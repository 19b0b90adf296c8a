package ingest

import (
	"context"
	"errors"
	"time"

	"auditor/event"
)

// carefulBatches is how many batches are compared with the store where one of an unknown range may have been in flight.
const carefulBatches = 4

// gapPiece bounds how many offsets the store is asked about at a time.
const gapPiece = 1 << 20

// facts are what decides where to go on in a partition.
type facts struct {
	committed int64         // the group's offset, -1 when there is none
	intent    intent        // what the metadata beside it says
	newest    event.Covered // the store's newest row in the ledger
	known     bool          // there is one
	start     int64         // first offset in the log
	end       int64         // offset after the log's last
}

// course is where to go on, and how.
type course struct {
	next     int64
	careful  int64         // ranges that begin before it may have been sent already
	exact    *exact        // range of the open intent, if there is one to send again
	doubtful []event.Range // wider ranges of which an attempt may still be under way
}

// plan decides from the facts. The ledger says where to go on, for what it covers is in the store whatever became of the
// group's offset; the group's offset says what may be in the store although the ledger does not cover it.
func plan(f facts, maxRows int) course {
	c := course{next: f.start, doubtful: f.intent.doubtful}
	if f.known {
		c.next = f.newest.Last + 1
	} else if f.committed >= 0 && f.intent.open {
		c.next = min(f.committed, f.start)
	}
	switch {
	case f.intent.open && f.committed >= c.next:
		// The usual end of a process that was killed. Before the range lies a hole if the store is older than the group.
		c.exact = &exact{span{f.committed, f.intent.last}, f.intent.records}
		c.careful = f.intent.last + 1
	case f.committed > c.next:
		// The store is older than the group: it was restored, or is new.
		c.careful = f.committed
	case !f.known && f.committed < 0:
		// Nothing was ever in flight.
	default:
		// The group forgot what was in flight, or what was in flight is stored. Or it says that nothing was, which a
		// confirmation may say that came late, over the intent that followed it.
		c.careful = min(f.end, c.next+int64(carefulBatches*maxRows))
	}
	c.careful = max(c.careful, f.intent.until)
	return c
}

// resume finds out where to go on.
func (p *partition) resume(ctx context.Context) error {
	if err := p.refuseCompacted(ctx); err != nil {
		return err
	}
	f, err := p.learn(ctx)
	if err != nil {
		return err
	}
	c := plan(f, p.config.MaxRows)
	needed := max(c.next, f.committed)
	if f.intent.open {
		needed = max(needed, f.intent.last+1)
	}
	if f.end < needed {
		return stop(Shorter, "the partition ends at offset %d, and the store has read it up to %d", f.end, needed)
	}
	if err := p.recognise(ctx, f); err != nil {
		return err
	}
	p.next, p.careful, p.exact, p.doubtful, p.readable = c.next, c.careful, c.exact, c.doubtful, c.next
	p.refused = nil
	p.lagging, p.unsure = f.committed != p.next || f.intent.open, p.exact != nil
	p.update(func(s *PartitionStatus) {
		s.Next, s.LogStart, s.HighWatermark, s.Checked = p.next, f.start, f.end, time.Now()
		s.Stopped, s.Detail = "", ""
		if f.known && f.newest.Records > 0 {
			s.Newest = f.newest.Time
		}
	})
	p.log.Info("ingest goes on in a partition", "offset", p.next, "end", f.end, "committed", f.committed, "intent", f.intent.String())
	return p.skip(ctx, f.start)
}

// refuseCompacted stands still at a topic whose records may be replaced before they are read. Where the brokers don't let
// the policy be read it goes on: the check guards against a mistake.
func (p *partition) refuseCompacted(ctx context.Context) error {
	var yes bool
	err := p.retry(ctx, p.kafka, func() (err error) {
		yes, err = p.client.compacted(ctx, p.topic)
		if forbidden(err) {
			p.log.Warn("ingest may not read a topic's cleanup policy", "error", err)
			return nil
		}
		return err
	})
	if yes {
		return stop(Compacted, "topic %s has the cleanup policy compact, which deletes events: set cleanup.policy=delete", p.topic)
	}
	return err
}

// learn gathers the facts.
func (p *partition) learn(ctx context.Context) (facts, error) {
	var f facts
	var metadata string
	err := p.retry(ctx, p.kafka, func() (err error) {
		if f.committed, metadata, err = p.client.committed(ctx, p.topic, p.partition); err != nil {
			return err
		}
		f.start, f.end, err = p.client.bounds(ctx, p.topic, p.partition)
		return err
	})
	if err != nil {
		return f, err
	}
	f.intent, err = parseIntent(metadata, f.committed)
	switch {
	case errors.Is(err, errIntentVersion):
		return f, stop(UnknownIntent, "%v: %q", err, metadata)
	case err != nil:
		p.log.Warn("ingest ignores commit metadata", "error", err, "metadata", metadata)
	}
	err = p.retry(ctx, p.stored, func() (err error) {
		f.newest, f.known, err = p.newest(ctx)
		return p.lasting(err)
	})
	return f, err
}

func (p *partition) newest(ctx context.Context) (event.Covered, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, p.config.InsertTimeout)
	defer cancel()
	return p.store.Newest(ctx, p.topic, p.partition)
}

// recognise stands still if the records of the ledger's newest range are not those that the store has: then the topic was
// deleted and made anew, and its offsets mean other events.
func (p *partition) recognise(ctx context.Context, f facts) error {
	n := f.newest
	if !f.known || n.Records == 0 || n.Lost > 0 || n.Time.IsZero() || n.Last < f.start {
		return nil
	}
	defer p.drop()
	entries, err := p.readRange(ctx, span{n.Last, n.Last})
	if err == nil && len(entries) == 0 { // the range ends with what holds no record
		entries, err = p.readRange(ctx, span{max(n.First, f.start), n.Last})
	}
	if err != nil {
		return err
	}
	if len(entries) == 0 {
		if n.First < f.start {
			return nil
		}
		return stop(Replaced, "the store has records of offsets %d to %d, and the topic has none: it was made anew", n.First, n.Last)
	}
	if is := entries[len(entries)-1].Time; !is.Equal(n.Time) {
		return stop(Replaced, "the last record of offsets %d to %d is of %s in the topic and of %s in the store: the topic was made anew",
			n.First, n.Last, is.Format(time.RFC3339Nano), n.Time.Format(time.RFC3339Nano))
	}
	return nil
}

// skip goes on at the log's first offset: retention has deleted what lies before. What of it the store has is counted, and
// the rest is recorded in the ledger as lost.
func (p *partition) skip(ctx context.Context, start int64) error {
	for p.next < start {
		b := event.Batch{Topic: p.topic, Partition: p.partition, First: p.next, Last: start - 1}
		if p.next < p.careful {
			b.Last = min(b.Last, p.next+gapPiece-1)
		}
		if err := p.lose(ctx, b); err != nil {
			return err
		}
	}
	if p.exact != nil && p.exact.first < start {
		p.exact = nil
	}
	return nil
}

// lose records a range of offsets that are in the log no more.
func (p *partition) lose(ctx context.Context, b event.Batch) error {
	if err := p.intend(ctx, b); err != nil {
		return err
	}
	b.Lost = b.Last - b.First + 1
	if b.First < p.careful {
		stored, err := p.present(ctx, b)
		if err != nil {
			return err
		}
		if stored.Complete {
			p.advance(b)
			return nil
		}
		b.StoredEvents, b.StoredRejects = len(stored.Events), len(stored.Rejects)
		b.Records = offsets(stored)
		b.Lost -= int64(b.Records)
	}
	err := p.insert(ctx, b)
	var r *refusal
	if errors.As(err, &r) { // there are no rows that could be divided
		return stop(StoreRefuses, "%v", r.err)
	}
	if err != nil {
		return err
	}
	if b.Lost > 0 {
		p.metrics.gaps.WithLabelValues(p.topic).Inc()
		p.metrics.lost.WithLabelValues(p.topic).Add(float64(b.Lost))
		p.log.Error("retention deleted records before ingest read them", "first", b.First, "last", b.Last, "lost", b.Lost)
	}
	p.advance(b)
	return nil
}

// complete stores what the store lacks of b, which may have been sent before, in whole or in part, and may still be on its
// way there.
//
// The rows that are missing go under the range's own token first. So an earlier attempt that is still being applied and
// this one are the same insert, of which the store keeps one. Only what is missing even then goes under a second token: its
// place was taken, under the first, by rows that the records decoded to before the decoder or its configuration changed.
// If the range is a part of a wider one of which an attempt may still be under way, then that one's token comes before.
func (p *partition) complete(ctx context.Context, b event.Batch) error {
	stored, err := p.present(ctx, b)
	if err != nil {
		return err
	}
	if stored.Complete {
		p.metrics.replays.WithLabelValues(replayComplete).Inc()
		return nil
	}
	rest := missing(b, stored)
	switch {
	case rowsOf(rest) == 0:
		p.metrics.replays.WithLabelValues(replayStored).Inc()
	case rowsStored(rest) == 0:
		p.metrics.replays.WithLabelValues(replayMissing).Inc()
	default:
		p.metrics.replays.WithLabelValues(replayPartial).Inc()
	}
	for i := range p.doubtful {
		if rowsOf(rest) == 0 {
			break
		}
		rest.Within = &p.doubtful[i]
		if rest, err = p.send(ctx, b, rest); err != nil {
			return err
		}
	}
	if rowsOf(rest) > 0 && rowsStored(rest) > 0 {
		if rest, err = p.send(ctx, b, rest); err != nil {
			return err
		}
		rest.Supplement = true
	}
	return p.insert(ctx, rest)
}

func rowsOf(b event.Batch) int     { return len(b.Events) + len(b.Rejects) }
func rowsStored(b event.Batch) int { return b.StoredEvents + b.StoredRejects }

// send inserts the rest of b, and gives what is missing even then.
func (p *partition) send(ctx context.Context, b, rest event.Batch) (event.Batch, error) {
	rest.Unconfirmed = true
	if err := p.insert(ctx, rest); err != nil {
		return rest, err
	}
	stored, err := p.present(ctx, b)
	return missing(b, stored), err
}

// present asks the store what it has of b's range.
func (p *partition) present(ctx context.Context, b event.Batch) (event.Stored, error) {
	var stored event.Stored
	err := p.retry(ctx, p.stored, func() (err error) {
		attempt, cancel := context.WithTimeout(ctx, p.config.InsertTimeout)
		defer cancel()
		stored, err = p.store.Present(attempt, b.Topic, b.Partition, b.First, b.Last)
		return p.lasting(err)
	})
	return stored, err
}

// missing gives b without the rows that are stored. A row that is stored as an event or as a reject is stored, and so is one
// of whose record a reject stands for the whole.
func missing(b event.Batch, stored event.Stored) event.Batch {
	type place struct {
		offset int64
		index  int32
	}
	has := make(map[place]bool, len(stored.Events)+len(stored.Rejects))
	for _, positions := range [][]event.Position{stored.Events, stored.Rejects} {
		for _, at := range positions {
			has[place{at.Offset, at.Index}] = true
		}
	}
	rest := b
	rest.Events, rest.Rejects = nil, nil
	rest.StoredEvents, rest.StoredRejects = len(stored.Events), len(stored.Rejects)
	for i := range b.Events {
		if e := &b.Events[i]; !has[place{e.Offset, e.Index}] && !has[place{e.Offset, event.WholeRecord}] {
			rest.Events = append(rest.Events, *e)
		}
	}
	for i := range b.Rejects {
		if r := &b.Rejects[i]; !has[place{r.Offset, r.Index}] && !has[place{r.Offset, event.WholeRecord}] {
			rest.Rejects = append(rest.Rejects, *r)
		}
	}
	return rest
}

// offsets counts the offsets of which the store has something.
func offsets(stored event.Stored) int {
	distinct := make(map[int64]bool)
	for _, positions := range [][]event.Position{stored.Events, stored.Rejects} {
		for _, at := range positions {
			distinct[at.Offset] = true
		}
	}
	return len(distinct)
}
