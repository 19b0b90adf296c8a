package ingest

import (
	"context"
	"time"

	"auditor/event"
	"auditor/event/proof"
)

// What bounds a comparison.
const (
	ledgerPage    = 10_000  // rows of the ledger that are held at once
	laneRanges    = 200_000 // ranges that one question is about
	laneOffsets   = 1 << 25 // offsets; the store keeps some bits of each
	laneExtra     = 1 << 21 // rows beyond the first of each offset; it keeps some bytes of each
	laneGroups    = 256     // counts in one answer
	closeLooks    = 200     // ranges whose offsets are looked at; of the others only the number of what is missing is told
	namedTroubles = 100     // of one kind in a verdict
)

// segment is offsets that are compared as one: a range of the ledger, or a hole in it.
type segment struct {
	proof.Span
	hole    bool
	records int64 // that the range held
	rows    int64 // that they made
	lost    int64
	time    time.Time // of its last record, or of one before it
	oldest  time.Time // of its oldest record; zero: not known
}

// comparison is one comparison of one partition.
type comparison struct {
	*Verifier
	of      event.PartitionID
	start   int64     // first offset that Kafka holds; the highest number when it can't be asked
	kept    time.Time // as Evidence.KeptFrom
	looks   int       // how many more ranges may be looked at closely
	verdict proof.Verdict

	reach    int64     // the offset after the last that the ledger covers, as far as it was read
	widest   segment   // the range that reaches there
	lastTime time.Time // of the last record so far
	lane     []segment // ranges that follow one another, and are not compared yet
	extra    int64     // rows in them beyond the first of each record
}

// run reads the ledger page by page, and compares what it says with the tables.
func (c *comparison) run(ctx context.Context, s proof.Span) error {
	extent, err := c.evidence.LedgerExtent(ctx, c.of)
	if err != nil || extent.Ranges == 0 {
		return err
	}
	if err := c.evidence.Settle(ctx); err != nil {
		return err
	}
	// What Kafka holds before the ledger begins has never been read: a hole as any other.
	c.reach = max(s.First, min(extent.Start, c.start))
	c.widest.Last = c.reach - 1
	c.verdict.First, c.verdict.Last = c.reach, c.reach-1
	s.Last = min(s.Last, extent.Next-1)
	from := s.First - min(extent.Longest, s.First) // a range that reaches into the span may begin before it
	for after := s.First - 1; after < s.Last; {
		rows, err := c.evidence.Ledger(ctx, c.of, from, after, ledgerPage)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if r.First > s.Last {
				if err := c.hole(ctx, proof.Span{First: c.reach, Last: s.Last}); err != nil {
					return err
				}
				return c.flush(ctx)
			}
			if err := c.take(ctx, r); err != nil {
				return err
			}
		}
		if len(rows) < ledgerPage {
			break
		}
		after = c.reach - 1 // also of a range that joins those of this page since: it reaches further, and begins before
	}
	return c.flush(ctx)
}

// take adds a row of the ledger. Rows come by where they begin.
func (c *comparison) take(ctx context.Context, r event.Covered) error {
	if !r.Time.IsZero() {
		c.lastTime = r.Time
	}
	s := segment{Span: proof.Span{First: r.First, Last: r.Last}, records: int64(r.Records), rows: int64(r.Events + r.Rejects),
		lost: r.Lost, time: c.lastTime, oldest: r.Oldest}
	if s.Last < c.reach && c.widest.Contains(s.Span) && c.widest.lost == 0 {
		return nil // the same records, cut into other ranges before the ledger was restored, or joined since
	}
	overlaps := s.First < c.reach && c.verdict.Ranges > 0
	if err := c.hole(ctx, proof.Span{First: c.reach, Last: s.First - 1}); err != nil {
		return err
	}
	c.count(s, r)
	switch {
	case c.expired(s.time):
		c.verdict.Expired += s.records
		return nil
	case overlaps: // the counts of ranges that overlap don't add up
		return c.compare(ctx, []segment{s})
	}
	return c.enlist(ctx, s)
}

// count adds a range to what the verdict tells of all.
func (c *comparison) count(s segment, r event.Covered) {
	v := &c.verdict
	v.First, v.Last = min(v.First, s.First), max(v.Last, s.Last)
	v.Ranges++
	v.Records += int64(r.Records)
	v.Events += int64(r.Events)
	v.Rejects += int64(r.Rejects)
	v.Newest = c.lastTime
	if s.Last >= c.reach {
		c.reach, c.widest = s.Last+1, s
	}
	if s.lost > 0 && !c.expired(s.time) {
		c.add(proof.Trouble{Kind: proof.Lost, Span: s.Span, Count: s.lost, Exact: s.lost == s.Len(), Time: s.time})
	}
}

// expired reports whether rows of that Kafka timestamp may have been deleted by the tables' retention.
func (c *comparison) expired(t time.Time) bool { return !t.IsZero() && t.Before(c.kept) }

func (c *comparison) add(found ...proof.Trouble) {
	v := &c.verdict
	if v.Troubles = append(v.Troubles, found...); len(v.Troubles) > 10*namedTroubles {
		v.Troubles = proof.Bound(v.Troubles, namedTroubles)
	}
}

// hole notes that the ledger lacks offsets, and sees which records of them the tables lack, as far as Kafka can tell.
func (c *comparison) hole(ctx context.Context, of proof.Span) error {
	if of.Len() == 0 {
		return nil
	}
	c.reach, c.verdict.Last = of.Last+1, of.Last
	s := segment{Span: of, hole: true, time: c.lastTime}
	if c.expired(s.time) {
		return nil
	}
	c.add(proof.Trouble{Kind: proof.Hole, Span: of, Count: of.Len(), Exact: true, Time: s.time})
	if c.start > s.Last || c.looks == 0 {
		return nil
	}
	c.looks--
	return c.closely(ctx, s, event.Tally{})
}

// enlist adds a range to the lane: ranges without a gap between them, which one question is about.
func (c *comparison) enlist(ctx context.Context, s segment) error {
	extra := c.extra + s.rows - s.records
	if n := len(c.lane); n > 0 && (c.lane[n-1].Last+1 != s.First || n == laneRanges || s.Last-c.lane[0].First >= laneOffsets || extra > laneExtra) {
		if err := c.flush(ctx); err != nil {
			return err
		}
		extra = s.rows - s.records
	}
	c.lane, c.extra = append(c.lane, s), extra
	return nil
}

// flush compares the lane.
func (c *comparison) flush(ctx context.Context) error {
	lane := c.lane
	c.lane = nil
	if len(lane) == 0 {
		return nil
	}
	return c.compare(ctx, lane)
}

// together makes one of segments that adjoin.
func together(segments []segment) segment {
	all := segments[0]
	for _, s := range segments[1:] {
		all.Last = s.Last
		all.records += s.records
		all.rows += s.rows
		all.lost += s.lost
		all.time = s.time
		if all.oldest.IsZero() || !s.oldest.IsZero() && s.oldest.Before(all.oldest) {
			all.oldest = s.oldest
		}
	}
	return all
}

// compare asks the store how many rows it has of some groups of ranges, and goes into those groups of which it has not
// exactly what the ledger says.
func (c *comparison) compare(ctx context.Context, lane []segment) error {
	var parts [][]segment
	var firsts []int64
	size := (len(lane) + laneGroups - 1) / laneGroups
	for i := 0; i < len(lane); i += size {
		parts = append(parts, lane[i:min(i+size, len(lane))])
		firsts = append(firsts, lane[i].First)
	}
	tallies, err := c.evidence.Tally(ctx, c.of, firsts, lane[len(lane)-1].Last)
	if err != nil {
		return err
	}
	for i, part := range parts {
		want, got := together(part), tallies[i]
		switch {
		case got.Rows == got.Positions && got.Positions == want.rows && got.Offsets == want.records:
		case c.looks == 0:
			c.roughly(want, got)
		case len(part) > 1:
			err = c.compare(ctx, part)
		default:
			c.looks--
			err = c.closely(ctx, want, got)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// roughly tells how much is wrong with ranges whose offsets are not looked at.
func (c *comparison) roughly(want segment, got event.Tally) {
	missing := max(want.records-got.Offsets, 0)
	if missing == 0 {
		missing = max(want.rows-got.Positions, 0)
	}
	c.lack(missing, proof.Trouble{Kind: proof.Missing, Span: want.Span, Exact: got.Rows == 0, Time: want.time}, want)
	if doubled := got.Rows - got.Positions; doubled > 0 {
		c.add(proof.Trouble{Kind: proof.Doubled, Span: want.Span, Count: doubled, Time: want.time})
	}
}

// lack notes that rows of n records of a range are not there, for whatever reason.
func (c *comparison) lack(n int64, t proof.Trouble, of segment) {
	switch {
	case n <= 0:
	case c.expired(of.oldest):
		c.verdict.Expired += n
	default:
		t.Count = n
		c.add(t)
	}
}
