package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"

	"auditor/event"
	"auditor/event/proof"
)

// Evidence is what the store holds, as the comparison reads it. Its methods are called from one goroutine at a time for one Verifier.
type Evidence interface {
	// Settle waits until what was acknowledged before the call is seen by those who ask after it.
	Settle(ctx context.Context) error
	// Ledger gives the rows of a partition's ledger that begin at or after from and reach beyond the offset after, by where
	// they begin, limit of them at most.
	Ledger(ctx context.Context, of event.PartitionID, from, after int64, limit int) ([]event.Covered, error)
	// LedgerExtent tells from where to where the ledger reaches.
	LedgerExtent(ctx context.Context, of event.PartitionID) (event.Extent, error)
	// Tally counts the rows from the offset firsts[0] to last, inclusive, in stretches that begin at firsts, which are in
	// order; one count for each.
	Tally(ctx context.Context, of event.PartitionID, firsts []int64, last int64) ([]event.Tally, error)
	// Held tells what there is of each offset of a range, both ends inclusive, in order. Offsets without a row are left out.
	Held(ctx context.Context, of event.PartitionID, first, last int64) ([]event.Held, error)
	// KeptFrom tells from which Kafka timestamp on every row is kept: one before it may have been deleted by the tables'
	// retention. The zero time: all are.
	KeptFrom(ctx context.Context) (time.Time, error)
}

// Verifier compares what Kafka holds, what the ledger says, and what lies in the tables.
//
// Only what the ledger covers is compared, and how far it reaches is read before anything else: a batch that is being stored is no
// part of it, and no alarm. The counts of many ranges are compared at once; only where they differ are the offsets looked
// at, and then Kafka is asked which of them hold a record, for offsets without one (control batches, transactions that were
// rolled back) are not missing. Memory is bounded, here and in the store, whatever there is to compare.
type Verifier struct {
	client   *client
	evidence Evidence
	read     func([]event.Event, []event.Reject, *entry) ([]event.Event, []event.Reject)
	budget   *budget
	fetch    int // bytes of one fetch
	pace     pace
}

// NewVerifier checks c, reads the files that it names, and wires a Verifier for the topics of c. It connects to nothing. The
// caller closes it.
func NewVerifier(c Config, e Evidence, d Decoder, log *slog.Logger) (*Verifier, error) {
	i, err := New(c, nil, d, log, prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	return i.verifier(e), nil
}

func (i *Ingester) verifier(e Evidence) *Verifier {
	return &Verifier{client: i.client, evidence: e, read: i.readEntry, budget: i.budget, fetch: min(i.config.MaxBytes, leastFetch<<4), pace: i.pace}
}

// Close closes the connections to Kafka.
func (v *Verifier) Close() { v.client.close() }

// Partitions counts the partitions of each topic. A topic that does not exist is missing.
func (v *Verifier) Partitions(ctx context.Context) (map[string]int, error) {
	return v.client.partitions(ctx)
}

// Standing is where Kafka stands in a partition.
type Standing struct {
	Start     int64      // the first offset that it holds
	End       int64      // the high watermark
	Committed int64      // the group's offset, -1 when there is none
	Intent    proof.Span // the batch that the group's metadata says is in flight, empty when there is none
}

// Standing asks Kafka.
func (v *Verifier) Standing(ctx context.Context, of event.PartitionID) (Standing, error) {
	s := Standing{Intent: proof.Span{Last: -1}}
	var metadata string
	err := v.insist(ctx, func() (err error) {
		if s.Start, s.End, err = v.client.bounds(ctx, of.Topic, of.Partition); err != nil {
			return err
		}
		s.Committed, metadata, err = v.client.committed(ctx, of.Topic, of.Partition)
		return err
	})
	if err != nil {
		return s, err
	}
	if in, err := parseIntent(metadata, s.Committed); err == nil && in.open {
		s.Intent = proof.Span{First: s.Committed, Last: in.last}
	}
	return s, nil
}

const attempts = 5

// insist makes a request to Kafka a few times.
func (v *Verifier) insist(ctx context.Context, do func() error) error {
	for n, wait := 1, v.pace.firstRetry; ; n, wait = n+1, 2*wait {
		err := do()
		if err == nil || errors.Is(err, errGone) || errors.Is(err, errNoRoom) || n == attempts || !pause(ctx, wait) {
			return err
		}
	}
}

// each calls f with every record of a span that Kafka holds, in order. It gives errGone when the log begins behind the
// span's first offset.
func (v *Verifier) each(ctx context.Context, of event.PartitionID, s proof.Span, f func(*entry) error) error {
	for from, idle := s.First, 0; from <= s.Last; {
		next, err := v.some(ctx, of, proof.Span{First: from, Last: s.Last}, f)
		if err != nil {
			return err
		}
		if idle++; next > from {
			idle = 0
		}
		if idle == attempts {
			return fmt.Errorf("kafka gave nothing from offset %d on", from)
		}
		from = next
	}
	return nil
}

// some calls f with the records of one fetch, and tells where to go on. Meanwhile they take a part of the budget that ingest
// reads within too, or all of it where the first batch takes more than that part.
func (v *Verifier) some(ctx context.Context, of event.PartitionID, s proof.Span, f func(*entry) error) (next int64, err error) {
	for _, part := range v.budget.parts(v.fetch) {
		if next, err = v.within(ctx, part, of, s, f); !errors.Is(err, errNoRoom) {
			break
		}
	}
	return next, err
}

func (v *Verifier) within(ctx context.Context, part int, of event.PartitionID, s proof.Span, f func(*entry) error) (next int64, err error) {
	const patience = 500 * time.Millisecond
	if err := v.budget.take(ctx, part); err != nil {
		return s.First, err
	}
	defer v.budget.give(part)
	var c chunk
	err = v.insist(ctx, func() error {
		room := v.budget.room(part)
		resp, err := v.client.fetch(ctx, of.Topic, of.Partition, s.First, demand{v.fetch, room, patience})
		if errors.Is(err, kafka.OffsetOutOfRange) {
			return errGone
		}
		if err == nil {
			c, err = decodeRecords(of.Topic, of.Partition, s.First, resp.records, resp.rolledBack, space{part / 2, room})
		}
		return err
	})
	if err != nil {
		return s.First, err
	}
	for i := range c.entries {
		if c.entries[i].Offset > s.Last {
			break
		}
		if err := f(&c.entries[i]); err != nil {
			return s.First, err
		}
	}
	return c.next, nil
}

// Verify compares the offsets of a span, as far as the ledger covers them: whole ranges, so that it may reach a little
// further on both sides. An error says that the store could not be asked; where Kafka cannot, the verdict says so.
func (v *Verifier) Verify(ctx context.Context, of event.PartitionID, s proof.Span) (proof.Verdict, error) {
	c := &comparison{Verifier: v, of: of, start: math.MaxInt64, looks: closeLooks}
	c.verdict = proof.Verdict{PartitionID: of, Span: proof.Span{First: s.First, Last: s.First - 1}}
	start, _, err := v.bounds(ctx, of)
	if err != nil {
		c.verdict.Unread = err.Error()
	} else {
		c.start = start
	}
	if c.kept, err = v.evidence.KeptFrom(ctx); err != nil {
		return c.verdict, err
	}
	err = c.run(ctx, s)
	c.verdict.Troubles = proof.Bound(c.verdict.Troubles, namedTroubles)
	return c.verdict, err
}

func (v *Verifier) bounds(ctx context.Context, of event.PartitionID) (start, end int64, err error) {
	err = v.insist(ctx, func() (err error) {
		start, end, err = v.client.bounds(ctx, of.Topic, of.Partition)
		return err
	})
	return start, end, err
}
