package ingest

import (
	"context"
	"math"
	"time"

	"auditor/event"
	"auditor/event/proof"
)

// join makes one row of the ledger's rows of a day that is long past. The ledger has a row for each batch, one a second at
// worst, and keeps them for ever: what was compared is proven as well by their sum. Rows that tell of a loss stay as they
// are, and so does the last one, which says where to go on.
func (p *prover) join(ctx context.Context, k proof.Proof, now time.Time) error {
	before := now.UTC().AddDate(0, 0, -joinAfterDays).Truncate(24 * time.Hour)
	j := joiner{troubles: k.Troubles}
	for from, after := int64(math.MinInt64), int64(-1); ; from = after - joinedOffsets {
		rows, err := p.evidence.Ledger(ctx, k.PartitionID, from, after, ledgerPage)
		if err != nil {
			return err
		}
		done := len(rows) < ledgerPage
		for i, r := range rows {
			if r.Time.After(now.Add(24 * time.Hour)) {
				r.Time = time.Time{} // a producer's clock; that of others tells the day
			}
			if r.Last+1 >= k.Next || !r.Time.Before(before) || done && i == len(rows)-1 {
				done = true
				break
			}
			j.take(r)
			after = max(after, r.Last)
		}
		if len(j.joined) >= joinedAtOneTime || done {
			if done {
				j.end()
			}
			if err := p.put(ctx, k.PartitionID, &j); err != nil {
				return err
			}
		}
		if done {
			return nil
		}
	}
}

func (p *prover) put(ctx context.Context, of event.PartitionID, j *joiner) error {
	rows := j.joined
	j.joined = nil
	if len(rows) == 0 {
		return nil
	}
	return p.proofs.JoinLedger(ctx, of, rows)
}

// joiner joins rows of the ledger that follow one another.
type joiner struct {
	troubles []proof.Trouble
	joined   []event.Covered // each from two rows or more
	row      event.Covered   // that grows
	from     int             // rows in it
}

// take adds a row, which follows the last one, to the one that grows, or ends that and begins another.
func (j *joiner) take(r event.Covered) {
	of, grown := proof.Span{First: r.First, Last: r.Last}, proof.Span{First: j.row.First, Last: j.row.Last}
	switch { // a row within another is left of a join that was interrupted
	case j.from > 0 && r.Lost == 0 && grown.Contains(of):
		j.from++
		return
	case j.from > 0 && j.plain(r) && of.Contains(grown):
		j.from, j.row = j.from+1, r
		return
	}
	if j.from > 0 && !j.fits(r) {
		j.end()
	}
	if !j.plain(r) {
		return
	}
	if j.from++; j.from == 1 {
		j.row = r
		return
	}
	o := &j.row
	switch { // the oldest is known when it is of all
	case r.Records == 0:
	case o.Records == 0:
		o.Oldest = r.Oldest
	case r.Oldest.IsZero() || o.Oldest.IsZero():
		o.Oldest = time.Time{}
	case r.Oldest.Before(o.Oldest):
		o.Oldest = r.Oldest
	}
	o.Last = r.Last
	o.Records, o.Events, o.Rejects = o.Records+r.Records, o.Events+r.Events, o.Rejects+r.Rejects
	if !r.Time.IsZero() {
		o.Time = r.Time
	}
}

// plain reports whether a row may be joined at all.
func (j *joiner) plain(r event.Covered) bool {
	for _, t := range j.troubles {
		if t.Meets(proof.Span{First: r.First, Last: r.Last}) {
			return false
		}
	}
	return r.Lost == 0
}

func (j *joiner) fits(r event.Covered) bool {
	o := j.row
	rows := o.Events + o.Rejects + r.Events + r.Rejects
	records := o.Records + r.Records
	return j.plain(r) && r.First == o.Last+1 && r.Last-o.First < joinedOffsets && rows < joinedRows && rows-records < joinedExtra &&
		(r.Time.IsZero() || o.Time.IsZero() || day(r.Time) == day(o.Time))
}

func day(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// end takes leave of the row that grew.
func (j *joiner) end() {
	if j.from > 1 {
		j.joined = append(j.joined, j.row)
	}
	j.from = 0
}
