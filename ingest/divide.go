package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"auditor/event"
)

const (
	// enoughTries is how often the store may answer that a batch asks too much of it before smaller ones are sent.
	enoughTries = 4
	// enoughAlone is the same for a batch of one record, and also how many other batches have to be stored meanwhile: they
	// show that it is the record, and not a store that has no memory for anybody.
	enoughAlone = 20
	// mostRefused is how many records in a row may be refused one by one. More mean that the table is at fault, and not what
	// is in the records: a partition that went on would turn a healthy stream into rejects.
	mostRefused = 16
)

// refusal is the store's answer that it will not take a batch as it is. Parts of it may do.
type refusal struct {
	err     error
	content bool // something in the batch cannot be stored; otherwise there is only too much of it
	doubt   bool // an earlier attempt had no answer, and may still be under way
}

func (r *refusal) Error() string { return r.err.Error() }

// cause labels a metric.
func (r *refusal) cause() string {
	if r.content {
		return dividedByContent
	}
	return dividedBySize
}

// refusedAlone is a record that the store refused when it was sent alone.
type refusedAlone struct {
	offset int64
	detail string
}

// heavy is a record that asked too much of the store when it was sent alone.
type heavy struct {
	offset int64
	tries  int
	others int64 // batches that the store had taken before it was tried
}

// tooMuchAlone counts an attempt with the record at offset, and reports whether it is known now that the record is at fault.
func (p *partition) tooMuchAlone(offset int64) bool {
	if p.heavy.tries == 0 || p.heavy.offset != offset {
		p.heavy = heavy{offset: offset, others: p.accepted.Load()}
	}
	p.heavy.tries++
	return p.heavy.tries >= enoughAlone && p.accepted.Load()-p.heavy.others >= enoughAlone
}

// divide lets go of b, which the store refuses, and has smaller batches made of its records. They are ranges with
// intents and tokens of their own. Until the end of b is reached the store is asked what it has of each: a materialized
// view that refuses leaves rows in the table that it reads. What is refused for its content is halved until it is one
// record, which becomes a reject.
func (p *partition) divide(ctx context.Context, b event.Batch, r *refusal) error {
	stored, err := p.present(ctx, b)
	if err != nil {
		return err
	}
	rest := missing(b, stored)
	if rowsOf(rest) == 0 { // what is left to do is the ledger
		err := p.insert(ctx, rest)
		if !errors.As(err, &r) {
			if err == nil {
				p.advance(b)
			}
			return err
		}
	}
	if p.saidRefused.due() {
		p.log.Warn("the store refuses a batch, and ingest sends it in parts",
			"first", b.First, "last", b.Last, "records", b.Records, "error", r.err)
	}
	p.metrics.divided.WithLabelValues(r.cause()).Inc()
	switch lone := b.Records <= 1; {
	case lone && len(rest.Events) == 0:
		return stop(StoreRefuses, "%v", r.err)
	case lone && p.refusals >= mostRefused:
		return stop(StoreRefuses, "%d records in a row were refused one by one, so it is not what is in them: %v", p.refusals, r.err)
	case lone:
		p.refusals++
		p.refused = &refusedAlone{p.taken.first, fmt.Sprint("the store refuses it: ", r.err)}
		p.bad = p.refused.offset
	case r.content:
		p.bad = p.taken.last
	default:
		p.limit = b.Records / 2
	}
	p.drop() // b's records are read again
	p.latest = time.Time{}
	p.careful = max(p.careful, b.Last+1)
	if r.doubt {
		p.doubtful = append(p.doubtful, event.Range{First: b.First, Last: b.Last})
	}
	if p.exact != nil && p.exact.first == b.First {
		p.exact = nil
	}
	return nil
}

// most is how many records the next batch may hold: half of what is known to hold one that the store refuses, and no more
// than the store could last take at once.
func (p *partition) most() int {
	most := p.config.MaxRows
	if p.limit > 0 {
		most = min(most, p.limit)
	}
	if p.next <= p.bad {
		within, _ := slices.BinarySearchFunc(p.chunk.entries, p.bad+1, func(e entry, offset int64) int { return int(e.Offset - offset) })
		most = min(most, within/2)
	}
	return max(most, 1)
}

// recover makes the batches larger again, slowly, once one was stored, and forgets what lies behind.
func (p *partition) recover(b event.Batch) {
	if p.limit > 0 {
		if p.limit += p.limit/8 + 1; p.limit >= p.config.MaxRows {
			p.limit = 0
		}
	}
	if len(b.Events) > 0 {
		p.refusals = 0
		p.accepted.Add(1)
	}
	if p.refused != nil && p.refused.offset < p.next {
		p.refused = nil
	}
	p.doubtful = slices.DeleteFunc(p.doubtful, func(r event.Range) bool { return r.Last < p.next })
}
