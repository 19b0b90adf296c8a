package queries

import (
	"context"
	"time"

	"auditor/event"
)

// Cursor tells how far the reader of that name has read; empty when it has not begun.
func (s *Store) Cursor(ctx context.Context, name string) (event.Cursor, error) {
	type row struct {
		Topic     string `ch:"kafka_topic"`
		Partition int32  `ch:"kafka_partition"`
		Next      int64  `ch:"next_offset"`
	}
	rows, err := selectAll[row](ctx, s, "store/cursor", params{"name": name})
	if err != nil {
		return nil, err
	}
	cursor := make(event.Cursor, len(rows))
	for _, r := range rows {
		cursor[event.PartitionID{Topic: r.Topic, Partition: r.Partition}] = r.Next
	}
	return cursor, nil
}

// SaveCursor records how far the reader of that name has read. Partitions that at lacks keep what they had. Of two calls
// the later one counts, so that a reader can be sent back.
func (s *Store) SaveCursor(ctx context.Context, name string, at event.Cursor) error {
	var names, topics []string
	var partitions []int32
	var offsets []int64
	for id, next := range at {
		names, topics = append(names, name), append(topics, id.Topic)
		partitions, offsets = append(partitions, id.Partition), append(offsets, next)
	}
	return s.insert(ctx, "rule_cursors", "", []values{
		{"name", names}, {"kafka_topic", topics}, {"kafka_partition", partitions}, {"next_offset", offsets},
	})
}

// SaveProgress stores where partitions stand, in one block. Of two calls for a partition the later one counts.
func (s *Store) SaveProgress(ctx context.Context, at []event.Progress) error {
	return s.insert(ctx, "ingest_progress", "", []values{
		{"kafka_topic", pluck(at, func(p *event.Progress) string { return p.Topic })},
		{"kafka_partition", pluck(at, func(p *event.Progress) int32 { return p.Partition })},
		{"topics", pluck(at, func(p *event.Progress) []string { return p.Topics })},
		{"partitions", pluck(at, func(p *event.Progress) int32 { return int32(p.Partitions) })},
		{"next_offset", pluck(at, func(p *event.Progress) int64 { return p.Next })},
		{"end_offset", pluck(at, func(p *event.Progress) int64 { return p.End })},
		{"log_start", pluck(at, func(p *event.Progress) int64 { return p.LogStart })},
		{"newest", pluck(at, func(p *event.Progress) time.Time { return storable(p.Newest) })},
		{"checked", pluck(at, func(p *event.Progress) time.Time { return storable(p.Checked) })},
		{"problem", pluck(at, func(p *event.Progress) string { return p.Problem })},
	})
}

// Progress gives where each partition stands, in order, as the process that reads it told last. A partition that nobody
// has read yet is missing.
func (s *Store) Progress(ctx context.Context) ([]event.Progress, error) {
	type row struct {
		Topic      string    `ch:"kafka_topic"`
		Partition  int32     `ch:"kafka_partition"`
		Topics     []string  `ch:"reads"`
		Partitions int32     `ch:"partitions"`
		Next       int64     `ch:"next_offset"`
		End        int64     `ch:"end_offset"`
		LogStart   int64     `ch:"log_start"`
		Newest     time.Time `ch:"newest"`
		Checked    time.Time `ch:"checked"`
		Problem    string    `ch:"problem"`
	}
	rows, err := selectAll[row](ctx, s, "store/progress", nil)
	return pluck(rows, func(r *row) event.Progress {
		return event.Progress{PartitionID: event.PartitionID{Topic: r.Topic, Partition: r.Partition}, Topics: r.Topics, Partitions: int(r.Partitions),
			Next: r.Next, End: r.End, LogStart: r.LogStart, Newest: known(r.Newest), Checked: known(r.Checked), Problem: r.Problem}
	}), err
}
