package queries

import (
	"context"

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
