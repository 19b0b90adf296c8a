package queries

import (
	"context"
	"crypto/rand"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"auditor/event"
)

// InsertBatch writes b's events, its rejects, and then its row in the ledger, so that what the ledger covers is there.
// Events and rejects have a deduplication token, "<topic>:<partition>:<first>-<last>" and the same with ":rejects", to both
// of which a supplement adds ":supplement". From it ClickHouse knows a block that comes again, in the table and in those
// derived from it.
//
// An error leaves the outcome open, and the same batch may be sent again, by this process or another.
//
// The token alone would be no proof. ClickHouse notes it a moment before the rows that it stands for are in place, and
// those of a table before those of the tables derived from it: killed in between, it drops the block when it comes again.
// So a batch that may have been sent before (any after an error, and the first of a partition that this process sends) is
// looked for once it was sent, what is missing is written without a token, and what is derived from it is derived anew. Not so
// an unconfirmed one: what is missing of it comes again, under another token.
func (s *Store) InsertBatch(ctx context.Context, b event.Batch) error {
	token, suffix, doubtful := b.Token(), "", s.doubts.about(&b)
	if b.Supplement { // the range's own tokens are spent on other rows
		suffix = ":supplement"
	}
	if err := s.insertEvents(ctx, token+suffix, b.Events); err != nil {
		return err
	}
	rejects, err := s.newRejects(ctx, &b, doubtful)
	if err != nil {
		return err
	}
	if err := s.insertRejects(ctx, token+":rejects"+suffix, rejects); err != nil {
		return err
	}
	if b.Unconfirmed { // what its token keeps out follows under another one
		return nil
	}
	if doubtful {
		if err := s.fill(ctx, &b); err != nil {
			return err
		}
	}
	if doubtful && len(b.Events)+b.StoredEvents > 0 {
		if err := s.derive(ctx, &b); err != nil {
			return err
		}
	}
	if err := s.insert(ctx, "ingest_ledger", "", ledgerBlock(&b)); err != nil {
		return err
	}
	s.doubts.stored(&b)
	return nil
}

// Footprint tells about how many bytes of memory InsertBatch takes beside the events, for a row and for a byte of what it came
// from. A block that is encoded here takes a column at a time; the client keeps all columns, texts with two numbers each.
func (s *Store) Footprint() (row, perByte int) {
	if s.options.Protocol == clickhouse.HTTP {
		return 64, 0
	}
	return 512, 1
}

func ledgerBlock(b *event.Batch) []values {
	return []values{
		{"kafka_topic", []string{b.Topic}},
		{"kafka_partition", []int32{b.Partition}},
		{"first", []int64{b.First}},
		{"last", []int64{b.Last}},
		{"records", []uint32{uint32(b.Records)}},
		{"events", []uint32{uint32(len(b.Events) + b.StoredEvents)}},
		{"rejects", []uint32{uint32(len(b.Rejects) + b.StoredRejects)}},
		{"lost", []int64{b.Lost}},
		{"kafka_time", []time.Time{storable(b.Time)}},
		{"oldest", []time.Time{storable(b.Oldest)}},
	}
}

// Present tells which rows of a partition's offsets first..last, both inclusive, are in the store. Whoever asks does not
// know what another process has sent meanwhile, so the partition's next batch is in doubt.
func (s *Store) Present(ctx context.Context, topic string, partition int32, first, last int64) (event.Stored, error) {
	var stored event.Stored
	s.doubts.raise(topic, partition)
	p := params{"topic": topic, "partition": partition, "first": first, "last": last}
	exact, _, err := selectOne[uint64](ctx, s, "store/ledger_has", p)
	if err != nil {
		return stored, err
	}
	stored.Complete = exact > 0
	if stored.Events, err = s.places(ctx, "store/present_events", topic, partition, first, last); err != nil {
		return stored, err
	}
	stored.Rejects, err = s.places(ctx, "store/present_rejects", topic, partition, first, last)
	return stored, err
}

// places gives the places of the rows that a statement finds in a range of a partition's offsets.
func (s *Store) places(ctx context.Context, name, topic string, partition int32, first, last int64) ([]event.Position, error) {
	type row struct {
		Offset int64 `ch:"kafka_offset"`
		Index  int32 `ch:"kafka_index"`
	}
	rows, err := selectAll[row](ctx, s, name, params{"topic": topic, "partition": partition, "first": first, "last": last})
	return pluck(rows, func(r *row) event.Position {
		return event.Position{Topic: topic, Partition: partition, Offset: r.Offset, Index: r.Index}
	}), err
}

// Newest gives the partition's row in the ledger with the highest last offset; false when there is none. It sees to it that
// the rules know how far the ledger reaches: ClickHouse, killed just after it took the row, may not have told them.
func (s *Store) Newest(ctx context.Context, topic string, partition int32) (event.Covered, bool, error) {
	p := params{"topic": topic, "partition": partition}
	r, ok, err := selectOne[coveredRow](ctx, s, "store/ledger_newest", p)
	if err == nil && ok {
		err = s.exec(ctx, "store/derive_ledger_ends", p)
	}
	return r.covered(), ok, err
}

// coveredRow is a row of the ledger.
type coveredRow struct {
	First   int64     `ch:"first"`
	Last    int64     `ch:"last"`
	Records uint32    `ch:"records"`
	Events  uint32    `ch:"events"`
	Rejects uint32    `ch:"rejects"`
	Lost    int64     `ch:"lost"`
	Time    time.Time `ch:"kafka_time"`
	Oldest  time.Time `ch:"oldest"`
}

func (r *coveredRow) covered() event.Covered {
	return event.Covered{First: r.First, Last: r.Last, Records: int(r.Records), Events: int(r.Events), Rejects: int(r.Rejects),
		Lost: r.Lost, Time: known(r.Time), Oldest: known(r.Oldest)}
}

// values are one column of a block.
type values struct {
	column string
	slice  any
}

// gathered is a column of a block whose values are gathered when their turn comes, so that those of all columns are not in
// memory at once beside the client's own.
type gathered func() any

func eventBlock(events []event.Event) []values {
	block := make([]values, len(eventColumns))
	for i, c := range eventColumns {
		block[i] = values{c.name, gathered(func() any { return c.gather(events) })}
	}
	return block
}

// pluck gathers one value of each row.
func pluck[R, T any](rows []R, get func(*R) T) []T {
	values := make([]T, len(rows))
	for i := range rows {
		values[i] = get(&rows[i])
	}
	return values
}

// insert writes one block; one without rows is none. With a token, a block that comes again under it is dropped, whatever
// it holds; without, none is. The names of table and columns are this package's own.
func (s *Store) insert(ctx context.Context, table, token string, block []values) error {
	if first := reflect.ValueOf(block[0].slice); first.Kind() == reflect.Slice && first.Len() == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.InsertTimeout)
	defer cancel()
	settings := s.insertSettings("insert into "+table, token)
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(settings))
	names := pluck(block, func(v *values) string { return v.column })
	batch, err := s.conn.PrepareBatch(ctx, "INSERT INTO "+table+" ("+strings.Join(names, ", ")+")")
	if err != nil {
		return classify("insert into "+table, err)
	}
	for i, v := range block {
		slice := v.slice
		if gather, ok := slice.(gathered); ok {
			slice = gather()
		}
		if err := batch.Column(i).Append(slice); err != nil {
			_ = batch.Abort() // it only gives the connection back
			return &Error{Op: "insert into " + table + "." + v.column, Err: err, permanent: true}
		}
	}
	return classify("insert into "+table, batch.Send())
}

// insertSettings are the settings of a request that inserts. A table that knows tokens would otherwise drop a block whose
// rows equal those of an earlier one; the setting against that has changed its name between versions, while a token of
// its own serves them all.
func (s *Store) insertSettings(comment, token string) clickhouse.Settings {
	if token == "" {
		token = rand.Text()
	}
	settings := clickhouse.Settings{
		"async_insert":               0,
		"insert_deduplication_token": token,
		"deduplicate_blocks_in_dependent_materialized_views": 1,
		"max_partitions_per_insert_block":                    0, // one batch may hold records of many weeks
		"optimize_on_insert":                                 0, // half of an insert's time, to find rows that no batch has twice
		"log_comment":                                        "auditor " + comment,
	}
	maps.Copy(settings, s.quorumSettings())
	return settings
}
