package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// storage is what events take on disk, in bytes an event.
type storage struct {
	arrived float64 // the table events, as the batches left it
	events  float64 // the same, merged into one part a partition
	all     float64 // with every table that is derived from it, merged
	columns []size  // of events, merged, the largest first: data and marks
	tables  []size  // merged, the largest first
}

type size struct {
	name  string
	bytes float64
}

// warmUp has the auditor fill all tables, measures them, and saves the batches as blocks that can be inserted again.
func (b *bench) warmUp(ctx context.Context) (s storage, err error) {
	err = b.withDatabase(ctx, "all", func(database string) error {
		if _, err := b.auditor(ctx, database, false); err != nil {
			return err
		}
		if err := b.saveBlocks(ctx, database); err != nil {
			return err
		}
		s, err = b.storage(ctx, database, b.topic.events)
		return err
	})
	return s, err
}

// celery measures what events of Celery's shape take.
func (b *bench) celery(ctx context.Context) (s storage, err error) {
	if b.options.celery == 0 {
		return s, nil
	}
	shop := b.topic
	defer func() { b.topic = shop }()
	if b.topic, err = produce(ctx, b.broker.address, "celery-events", b.options.partitions, b.options.celery, newCelery()); err != nil {
		return s, err
	}
	b.topic.workers = true
	err = b.withDatabase(ctx, "all", func(database string) error {
		if _, err := b.auditor(ctx, database, false); err != nil {
			return err
		}
		s, err = b.storage(ctx, database, b.topic.events)
		return err
	})
	return s, err
}

// saveBlocks writes each batch that the ledger knows to a file, as one block in the order of its offsets.
func (b *bench) saveBlocks(ctx context.Context, database string) error {
	rows, err := b.engine.ask(ctx, database, "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = 'events' "+
		"AND default_kind = '' ORDER BY position", nil, nil)
	if err != nil {
		return err
	}
	for _, row := range rows {
		b.columns = append(b.columns, row[0])
	}
	ranges, err := b.engine.ask(ctx, database, "SELECT kafka_partition, first, last FROM ingest_ledger FINAL WHERE events > 0 ORDER BY first, kafka_partition", nil, nil)
	if err != nil {
		return err
	}
	for i, r := range ranges {
		name := filepath.Join(b.dir, fmt.Sprintf("block-%d.native", i))
		file, err := os.Create(name)
		if err != nil {
			return err
		}
		sql := fmt.Sprintf("SELECT %s FROM events WHERE kafka_partition = %s AND kafka_offset BETWEEN %s AND %s ORDER BY kafka_offset, kafka_index "+
			"FORMAT Native SETTINGS max_block_size = 10000000, max_threads = 1",
			strings.Join(b.columns, ", "), r[0], r[1], r[2])
		if err := errors.Join(b.engine.run(ctx, database, sql, nil, nil, file), file.Close()); err != nil {
			return err
		}
		b.blocks = append(b.blocks, name)
	}
	return nil
}

// storage measures the tables of a database before and after all their parts are merged.
func (b *bench) storage(ctx context.Context, database string, events int) (s storage, err error) {
	arrived, err := b.sizes(ctx, database, events, tableSizes)
	if err != nil {
		return s, err
	}
	s.arrived = sizeOf(arrived, "events")
	tables, err := b.engine.ask(ctx, database, "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree'", nil, nil)
	if err != nil {
		return s, err
	}
	for _, t := range tables {
		if err := b.engine.exec(ctx, database, "OPTIMIZE TABLE "+t[0]+" FINAL"); err != nil {
			return s, err
		}
	}
	if s.tables, err = b.sizes(ctx, database, events, tableSizes); err != nil {
		return s, err
	}
	for _, t := range s.tables {
		s.all += t.bytes
	}
	s.events = sizeOf(s.tables, "events")
	s.columns, err = b.sizes(ctx, database, events, columnSizes)
	return s, err
}

const (
	tableSizes = "SELECT table, sum(bytes_on_disk) AS bytes FROM system.parts WHERE database = currentDatabase() AND active " +
		"GROUP BY table ORDER BY bytes DESC, table"
	columnSizes = "SELECT name, bytes FROM (" +
		"SELECT column AS name, sum(column_bytes_on_disk) AS bytes FROM system.parts_columns " +
		"WHERE database = currentDatabase() AND table = 'events' AND active GROUP BY column " +
		"UNION ALL SELECT 'index ' || name, data_compressed_bytes + marks_bytes FROM system.data_skipping_indices " +
		"WHERE database = currentDatabase() AND table = 'events') ORDER BY bytes DESC, name"
)

func (b *bench) sizes(ctx context.Context, database string, events int, sql string) ([]size, error) {
	rows, err := b.engine.ask(ctx, database, sql, nil, nil)
	if err != nil {
		return nil, err
	}
	var all []size
	for _, row := range rows {
		bytes, err := strconv.ParseInt(row[1], 10, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, size{row[0], float64(bytes) / float64(events)})
	}
	return all, nil
}

func sizeOf(all []size, name string) float64 {
	for _, s := range all {
		if s.name == name {
			return s.bytes
		}
	}
	return 0
}

// print writes what takes most.
func (s *storage) print(w io.Writer, shape string) {
	fmt.Fprintf(w, "\n%s on disk, bytes an event: events %.1f merged, %.1f as it arrived; with all derived tables %.1f\n", shape, s.events, s.arrived, s.all)
	list := func(what string, sizes []size, least float64) {
		var parts []string
		for _, one := range sizes {
			if one.bytes >= least {
				parts = append(parts, fmt.Sprintf("%s %.2f", one.name, one.bytes))
			}
		}
		fmt.Fprintf(w, "  %s: %s\n", what, strings.Join(parts, ", "))
	}
	list("tables", s.tables, 0.05)
	list("columns of events", s.columns, 0.1)
}
