package ingest

import (
	"context"
	"errors"
	"math"

	"auditor/event"
	"auditor/event/proof"
)

const (
	heldPage    = 1 << 17 // offsets of which the rows are asked for at once
	absentSpans = 1000    // spans of absent offsets that are kept of one segment
	mostAmong   = 16      // candidates that are told with a trouble
)

// look is a close look at one segment: what lies in the tables of each offset, beside what Kafka holds there.
type look struct {
	*comparison
	ctx    context.Context
	seg    segment
	asked  bool // Kafka is asked: there are not as many rows as there should be
	rest   held
	stored error // what failed with the store

	split   int64 // offset from which on Kafka tells which offsets hold a record
	offsets int64 // that have rows
	places  int64 // that those take
	doubled []proof.Trouble

	// Of the offsets before split:
	absent      int64        // that have no row
	absentSpans []proof.Span // the first of them
	absentLast  int64        // the last of them

	// Of those from split on:
	records int64 // that Kafka holds
	gone    int64 // of them that have no row
	rows    int64 // that those made
	foreign int64 // offsets with rows of which Kafka holds no record
	aged    int64 // records that are in the tables no more for their age
	lacking []proof.Trouble

	// Of arrays of which some rows are there, and some seem not to be:
	short   int64 // rows
	partial []proof.Trouble
}

// closely finds out which offsets of a segment have too few rows or too many. got is what the tables were said to have.
// Kafka says which offsets hold a record, as far back as it goes; before that only the ledger says how many did.
func (c *comparison) closely(ctx context.Context, s segment, got event.Tally) error {
	differs := s.hole || got.Offsets != s.records || got.Positions != s.rows
	for n := 1; ; n++ {
		l := &look{comparison: c, ctx: ctx, seg: s, asked: differs, split: min(max(c.start, s.First), s.Last+1)}
		l.rest = held{look: l, from: s.First}
		err := l.see()
		switch {
		case l.stored != nil:
			return l.stored
		case err == nil:
			l.conclude()
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errGone) && n < attempts: // Kafka's retention has moved on
			if start, _, err := c.bounds(ctx, c.of); err == nil && start > c.start {
				c.start = start
				continue
			}
		}
		c.unread(err.Error())
		c.start = math.MaxInt64
	}
}

func (c *comparison) unread(why string) {
	if c.verdict.Unread == "" {
		c.verdict.Unread = why
	}
}

func (l *look) see() error {
	if l.asked {
		l.before()
		if l.split <= l.seg.Last {
			span := proof.Span{First: l.split, Last: l.seg.Last}
			if err := l.each(l.ctx, l.of, span, l.record); err != nil {
				return err
			}
		}
	}
	for { // what lies behind the last record
		h, ok := l.next(l.seg.Last + 1)
		if !ok {
			return l.stored
		}
		if l.asked && h.Offset >= l.split {
			l.foreign++
		}
	}
}

// next gives what the tables have of the next offset that they have something of, if that lies before limit.
func (l *look) next(limit int64) (event.Held, bool) {
	h, ok := l.rest.before(limit)
	if !ok {
		return h, false
	}
	l.offsets++
	l.places += h.Positions
	if h.Rows > h.Positions {
		l.doubled = short(append(l.doubled, l.trouble(proof.Doubled, h.Offset, h.Rows-h.Positions)))
	}
	return h, true
}

func (l *look) trouble(k proof.Kind, offset, count int64) proof.Trouble {
	return proof.Trouble{Kind: k, Span: proof.Span{First: offset, Last: offset}, Count: count, Exact: true, Time: l.seg.time}
}

// short keeps a list of troubles from growing.
func short(all []proof.Trouble) []proof.Trouble {
	if len(all) > 10*namedTroubles {
		return proof.Bound(all, namedTroubles)
	}
	return all
}

// before notes what lies before split.
func (l *look) before() {
	expected := l.seg.First
	lack := func(s proof.Span) {
		if s.Len() == 0 {
			return
		}
		l.absent += s.Len()
		l.absentLast = s.Last
		if len(l.absentSpans) < absentSpans {
			l.absentSpans = append(l.absentSpans, s)
		}
	}
	for {
		h, ok := l.next(l.split)
		if !ok {
			lack(proof.Span{First: expected, Last: l.split - 1})
			return
		}
		lack(proof.Span{First: expected, Last: h.Offset - 1})
		expected = h.Offset + 1
		if n := int64(h.Top) + 1 - h.Positions; n > 0 { // the elements of an array are numbered without a gap
			l.lackElements(h.Offset, n)
		}
	}
}

// record sees what the tables have of a record that Kafka holds.
func (l *look) record(e *entry) error {
	l.records++
	for {
		if _, ok := l.next(e.Offset); !ok {
			break
		}
		l.foreign++
	}
	h, ok := l.next(e.last + 1)
	if l.stored != nil {
		return l.stored
	}
	want := int64(1)
	if e.broken == nil {
		events, rejects := l.read(nil, nil, e)
		want = int64(len(events) + len(rejects))
	}
	switch {
	case ok && h.Positions < want:
		l.lackElements(e.Offset, want-h.Positions)
	case ok:
	default:
		l.gone++
		l.rows += want
		if l.expired(e.Time) {
			l.aged++
			break
		}
		t := l.trouble(proof.Missing, e.Offset, 1)
		t.Time = e.Time
		l.lacking = short(append(l.lacking, t))
	}
	return nil
}

func (l *look) lackElements(offset, rows int64) {
	l.short += rows
	l.partial = short(append(l.partial, l.trouble(proof.Missing, offset, 1)))
}

// conclude adds to the verdict what was seen.
func (l *look) conclude() {
	l.add(l.doubled...)
	if l.foreign > 0 || l.asked && l.split == l.seg.First && !l.seg.hole && l.seg.lost == 0 && l.records != l.seg.records {
		l.unread("kafka holds other records than those that were read: the topic was made anew")
		l.roughly(l.seg, event.Tally{Rows: l.places, Positions: l.places, Offsets: l.offsets})
		return
	}
	l.verdict.Expired += l.aged
	l.add(l.lacking...)
	if l.seg.hole {
		return
	}
	rest := l.seg.records - l.offsets - l.gone
	l.concludeAbsent(rest)
	l.concludeElements(l.seg.rows-l.places-l.rows-max(rest, 0), rest <= 0)
}

// concludeAbsent names the records without a row that Kafka holds no more, of which there are so many.
func (l *look) concludeAbsent(records int64) {
	t := proof.Trouble{Kind: proof.Missing, Time: l.seg.time}
	switch {
	case records <= 0 || l.absent == 0:
	case records == l.absent && len(l.absentSpans) < absentSpans:
		for _, s := range l.absentSpans {
			t.Span, t.Exact = s, true
			l.lack(s.Len(), t, l.seg)
		}
	default:
		t.Span = proof.Span{First: l.absentSpans[0].First, Last: l.absentLast}
		if len(l.absentSpans) <= mostAmong {
			t.Among = l.absentSpans
		}
		l.lack(records, t, l.seg)
	}
}

// concludeElements names the records of which some rows are there and others not, as many rows as that by the ledger, and
// where alone not more for absent records that were arrays. What records decode to only says which they may be: one that
// the store refused was one row, whatever it holds.
func (l *look) concludeElements(rows int64, alone bool) {
	switch {
	case rows <= 0:
	case rows < l.short:
		first, last := l.partial[0], l.partial[len(l.partial)-1]
		t := proof.Trouble{Kind: proof.Missing, Span: proof.Span{First: first.First, Last: last.Last}, Time: l.seg.time}
		l.lack(min(rows, int64(len(l.partial))), t, l.seg)
	default:
		l.add(l.partial...)
		if alone && rows > l.short && l.split > l.seg.First { // at the end of arrays
			t := proof.Trouble{Kind: proof.Missing, Span: proof.Span{First: l.seg.First, Last: l.split - 1}, Time: l.seg.time}
			l.lack(rows-l.short, t, l.seg)
		}
	}
}

// held reads what the tables have of a segment, a page at a time.
type held struct {
	*look
	page []event.Held
	from int64 // of the page to come
}

// before gives the next offset of which there is something, if it lies before limit.
func (r *held) before(limit int64) (event.Held, bool) {
	for len(r.page) == 0 && r.from < limit && r.from <= r.seg.Last && r.stored == nil {
		last := min(r.from+heldPage-1, r.seg.Last)
		r.page, r.stored = r.evidence.Held(r.ctx, r.of, r.from, last)
		r.from = last + 1
	}
	if r.stored != nil || len(r.page) == 0 || r.page[0].Offset >= limit {
		return event.Held{}, false
	}
	h := r.page[0]
	r.page = r.page[1:]
	return h, true
}
