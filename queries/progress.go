package queries

import (
	"context"
	"time"

	"auditor/event"
	"auditor/event/history"
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
	if len(at) == 0 {
		return nil
	}
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

// DuePending gives at most limit of the tasks without an end that are due by now, the longest due first.
func (s *Store) DuePending(ctx context.Context, now time.Time, limit int) ([]history.Pending, error) {
	type row struct {
		Namespace     string    `ch:"namespace"`
		BusinessKey   string    `ch:"business_key"`
		TaskID        string    `ch:"task_id"`
		PendingTaskID string    `ch:"pending_task_id"`
		Task          string    `ch:"task"`
		Phase         string    `ch:"phase"`
		Since         time.Time `ch:"since"`
		Due           time.Time `ch:"due"`
	}
	rows, err := selectAll[row](ctx, s, "store/due_pending", params{"now": now, "limit": limit})
	if err != nil {
		return nil, err
	}
	return pluck(rows, func(r *row) history.Pending {
		return history.Pending{
			Subject:       history.Subject{Namespace: r.Namespace, BusinessKey: r.BusinessKey, TaskID: r.TaskID},
			PendingTaskID: r.PendingTaskID, Task: r.Task, Phase: history.Phase(r.Phase),
			Since: known(r.Since), Due: known(r.Due), Open: true,
		}
	}), nil
}

// SavePending stores how tasks stand. Of two calls about one task the later one counts.
func (s *Store) SavePending(ctx context.Context, tasks []history.Pending) error {
	if len(tasks) == 0 {
		return nil
	}
	word := func(get func(*history.Pending) string) []string { return pluck(tasks, get) }
	return s.insert(ctx, "pending", "", []values{
		{"namespace", word(func(p *history.Pending) string { return p.Namespace })},
		{"business_key", word(func(p *history.Pending) string { return p.BusinessKey })},
		{"task_id", word(func(p *history.Pending) string { return p.TaskID })},
		{"pending_task_id", word(func(p *history.Pending) string { return p.PendingTaskID })},
		{"task", word(func(p *history.Pending) string { return p.Task })},
		{"phase", word(func(p *history.Pending) string { return string(p.Phase) })},
		{"since", pluck(tasks, func(p *history.Pending) time.Time { return storable(p.Since) })},
		{"due", pluck(tasks, func(p *history.Pending) time.Time { return storable(p.Due) })},
		{"open", pluck(tasks, func(p *history.Pending) bool { return p.Open })},
	})
}
