package queries

import (
	"context"
	"encoding/json"
	"time"

	"auditor/event"
	"auditor/event/proof"
)

// Settle waits until what was acknowledged before the call is seen by those who ask after it. Only on a cluster does that
// take a while: replicas get rows at their own time.
func (s *Store) Settle(ctx context.Context) error {
	if s.layout.cluster == "" || !s.layout.replicated {
		return nil
	}
	select {
	case <-time.After(settleTime):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Ledger gives the rows of a partition's ledger that begin at or after from and reach beyond the offset after, by where they
// begin, limit of them at most.
func (s *Store) Ledger(ctx context.Context, of event.PartitionID, from, after int64, limit int) ([]event.Covered, error) {
	rows, err := selectAll[coveredRow](ctx, s, "store/ledger", params{"topic": of.Topic, "partition": of.Partition,
		"from": from, "after": after, "limit": uint64(limit)})
	return pluck(rows, (*coveredRow).covered), err
}

// LedgerEnds gives the offset after the last that the ledger covers, of each partition that it has anything of.
func (s *Store) LedgerEnds(ctx context.Context) (event.Cursor, error) { return s.confirmed(ctx) }

// LedgerExtent tells from where to where a partition's ledger reaches.
func (s *Store) LedgerExtent(ctx context.Context, of event.PartitionID) (event.Extent, error) {
	type row struct {
		Ranges  uint64 `ch:"ranges"`
		Start   int64  `ch:"start"`
		Next    int64  `ch:"next"`
		Longest int64  `ch:"longest"`
	}
	r, _, err := selectOne[row](ctx, s, "store/ledger_extent", params{"topic": of.Topic, "partition": of.Partition})
	if r.Ranges == 0 {
		return event.Extent{}, err
	}
	return event.Extent{Ranges: int(r.Ranges), Start: r.Start, Next: r.Next, Longest: r.Longest}, err
}

// LedgerAt tells between which offsets, both inclusive, the ranges lie whose last record reached Kafka from from to to; false
// when there are none.
func (s *Store) LedgerAt(ctx context.Context, of event.PartitionID, from, to time.Time) (first, last int64, any bool, err error) {
	type row struct {
		Ranges uint64 `ch:"ranges"`
		First  int64  `ch:"first"`
		Last   int64  `ch:"last"`
	}
	r, _, err := selectOne[row](ctx, s, "store/ledger_at", params{"topic": of.Topic, "partition": of.Partition, "from": from, "to": to})
	return r.First, r.Last, r.Ranges > 0, err
}

// Tally counts the rows of a partition's offsets from firsts[0] to last, inclusive, in stretches that begin at firsts, which
// are in order. It gives one count for each.
func (s *Store) Tally(ctx context.Context, of event.PartitionID, firsts []int64, last int64) ([]event.Tally, error) {
	type row struct {
		First     int64  `ch:"stretch"`
		Rows      uint64 `ch:"rows"`
		Positions uint64 `ch:"positions"`
		Offsets   uint64 `ch:"offsets"`
	}
	rows, err := selectAll[row](ctx, s, "store/tally", params{"topic": of.Topic, "partition": of.Partition,
		"first": firsts[0], "firsts": firsts, "last": last})
	if err != nil {
		return nil, err
	}
	counted := make(map[int64]row, len(rows))
	for _, r := range rows {
		counted[r.First] = r
	}
	return pluck(firsts, func(first *int64) event.Tally {
		r := counted[*first]
		return event.Tally{First: *first, Rows: int64(r.Rows), Positions: int64(r.Positions), Offsets: int64(r.Offsets)}
	}), nil
}

// Held tells what lies in the tables of each offset of a range, both ends inclusive, in order. Offsets of which there is
// nothing are left out.
func (s *Store) Held(ctx context.Context, of event.PartitionID, first, last int64) ([]event.Held, error) {
	type row struct {
		Offset    int64  `ch:"kafka_offset"`
		Rows      uint64 `ch:"rows"`
		Positions uint64 `ch:"positions"`
		Top       int32  `ch:"top"`
	}
	rows, err := selectAll[row](ctx, s, "store/held", params{"topic": of.Topic, "partition": of.Partition, "first": first, "last": last})
	return pluck(rows, func(r *row) event.Held {
		return event.Held{Offset: r.Offset, Rows: int64(r.Rows), Positions: int64(r.Positions), Top: r.Top}
	}), err
}

// expirySlack is by how much a comparison may take longer, or clocks differ, until a row that has just been in the tables is
// looked for.
const expirySlack = time.Hour

// KeptFrom tells from which Kafka timestamp on every row is kept: one before it may have been deleted by the tables'
// retention. The zero time: all are.
func (s *Store) KeptFrom(ctx context.Context) (time.Time, error) {
	days, err := s.retention(ctx)
	if err != nil {
		return time.Time{}, err
	}
	type row struct {
		Now     time.Time `ch:"now"`
		Deleted time.Time `ch:"deleted"`
	}
	r, _, err := selectOne[row](ctx, s, "store/retention_raised", nil)
	if err != nil {
		return time.Time{}, err
	}
	kept := known(r.Deleted)
	for _, table := range []string{"events", "rejects"} {
		if d := int(days[table]); d > 0 {
			if from := r.Now.AddDate(0, 0, -d).Add(expirySlack); from.After(kept) {
				kept = from
			}
		}
	}
	return kept, nil
}

// SaveProofs stores what is known of partitions, in one block. Of two calls for a partition the later one counts.
func (s *Store) SaveProofs(ctx context.Context, proofs []proof.Proof) error {
	troubles := make([]string, len(proofs))
	for i, p := range proofs {
		text, err := json.Marshal(p.Troubles)
		if err != nil {
			return err
		}
		troubles[i] = string(text)
	}
	count := func(k proof.Kind) []int64 {
		return pluck(proofs, func(p *proof.Proof) int64 { return proof.Count(p.Troubles, k) })
	}
	return s.insert(ctx, "ingest_proofs", "", []values{
		{"kafka_topic", pluck(proofs, func(p *proof.Proof) string { return p.Topic })},
		{"kafka_partition", pluck(proofs, func(p *proof.Proof) int32 { return p.Partition })},
		{"first", pluck(proofs, func(p *proof.Proof) int64 { return p.First })},
		{"next_offset", pluck(proofs, func(p *proof.Proof) int64 { return p.Next })},
		{"again", pluck(proofs, func(p *proof.Proof) int64 { return p.Again })},
		{"passed", pluck(proofs, func(p *proof.Proof) time.Time { return storable(p.Passed) })},
		{"newest", pluck(proofs, func(p *proof.Proof) time.Time { return storable(p.Newest) })},
		{"checked", pluck(proofs, func(p *proof.Proof) time.Time { return storable(p.Checked) })},
		{"missing", count(proof.Missing)},
		{"doubled", count(proof.Doubled)},
		{"holes", count(proof.Hole)},
		{"lost", count(proof.Lost)},
		{"troubles", troubles},
	})
}

// Proof gives what is known of a partition; false when nothing is.
func (s *Store) Proof(ctx context.Context, of event.PartitionID) (proof.Proof, bool, error) {
	all, err := s.Proofs(ctx)
	for _, p := range all {
		if p.PartitionID == of {
			return p, true, err
		}
	}
	return proof.Proof{}, false, err
}

// Proofs gives what is known of each partition, in order.
func (s *Store) Proofs(ctx context.Context) ([]proof.Proof, error) {
	type row struct {
		Topic     string    `ch:"kafka_topic"`
		Partition int32     `ch:"kafka_partition"`
		First     int64     `ch:"first"`
		Next      int64     `ch:"next_offset"`
		Again     int64     `ch:"again"`
		Passed    time.Time `ch:"passed"`
		Newest    time.Time `ch:"newest"`
		Checked   time.Time `ch:"checked"`
		Troubles  string    `ch:"troubles"`
	}
	rows, err := selectAll[row](ctx, s, "store/proofs", nil)
	if err != nil {
		return nil, err
	}
	proofs := make([]proof.Proof, len(rows))
	for i, r := range rows {
		proofs[i] = proof.Proof{PartitionID: event.PartitionID{Topic: r.Topic, Partition: r.Partition}, First: r.First, Next: r.Next,
			Again: r.Again, Passed: known(r.Passed), Newest: known(r.Newest), Checked: known(r.Checked)}
		if err := json.Unmarshal([]byte(r.Troubles), &proofs[i].Troubles); err != nil {
			return nil, &Error{Op: "store/proofs", Err: err}
		}
	}
	return proofs, nil
}

// JoinLedger puts rows in place of those rows of a partition's ledger that lie within them and tell of no loss. While it does
// so, and where it is interrupted, both are there: whoever reads the ledger bears that.
func (s *Store) JoinLedger(ctx context.Context, of event.PartitionID, rows []event.Covered) error {
	column := func(get func(*event.Covered) int) []uint32 {
		return pluck(rows, func(r *event.Covered) uint32 { return uint32(get(r)) })
	}
	firsts := pluck(rows, func(r *event.Covered) int64 { return r.First })
	lasts := pluck(rows, func(r *event.Covered) int64 { return r.Last })
	err := s.insert(ctx, "ingest_ledger", "", []values{
		{"kafka_topic", pluck(rows, func(*event.Covered) string { return of.Topic })},
		{"kafka_partition", pluck(rows, func(*event.Covered) int32 { return of.Partition })},
		{"first", firsts},
		{"last", lasts},
		{"records", column(func(r *event.Covered) int { return r.Records })},
		{"events", column(func(r *event.Covered) int { return r.Events })},
		{"rejects", column(func(r *event.Covered) int { return r.Rejects })},
		{"lost", pluck(rows, func(r *event.Covered) int64 { return r.Lost })},
		{"kafka_time", pluck(rows, func(r *event.Covered) time.Time { return storable(r.Time) })},
		{"oldest", pluck(rows, func(r *event.Covered) time.Time { return storable(r.Oldest) })},
	})
	if err != nil {
		return err
	}
	return s.alter(ctx, "store/drop_joined", "ingest_ledger", params{"topic": of.Topic, "partition": of.Partition, "firsts": firsts, "lasts": lasts})
}
