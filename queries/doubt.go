package queries

import (
	"context"
	"fmt"
	"sync"

	"auditor/event"
)

// doubts knows which batches may have been sent before. Nearly none is: one that follows the last, in a process that saw
// that one stored, is new.
type doubts struct {
	mu   sync.Mutex
	next map[event.PartitionID]int64 // where the batch after the last that was stored begins
}

// about tells whether b may have been sent before, and holds every batch of its partition in doubt until stored is called.
func (d *doubts) about(b *event.Batch) bool {
	id := event.PartitionID{Topic: b.Topic, Partition: b.Partition}
	d.mu.Lock()
	defer d.mu.Unlock()
	next, ok := d.next[id]
	delete(d.next, id)
	return !ok || next != b.First || b.Supplement || b.Unconfirmed || b.StoredEvents+b.StoredRejects > 0
}

// raise holds the partition's next batch in doubt.
func (d *doubts) raise(topic string, partition int32) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.next, event.PartitionID{Topic: topic, Partition: partition})
}

func (d *doubts) stored(b *event.Batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.next == nil {
		d.next = map[event.PartitionID]int64{}
	}
	d.next[event.PartitionID{Topic: b.Topic, Partition: b.Partition}] = b.Last + 1
}

// fill writes those of b's rows that its token kept out, although the rows that the token stands for never came to be.
func (s *Store) fill(ctx context.Context, b *event.Batch) error {
	if len(b.Events)+len(b.Rejects) == 0 {
		return nil
	}
	stored, err := s.Present(ctx, b.Topic, b.Partition, b.First, b.Last)
	if err != nil {
		return err
	}
	has := map[event.Position]bool{}
	for _, at := range stored.Events {
		has[at] = true
	}
	for _, at := range stored.Rejects {
		has[at] = true
	}
	events := without(b.Events, func(e *event.Event) bool { return has[e.Position] })
	rejects := without(b.Rejects, func(r *event.Reject) bool { return has[r.Position] })
	if len(events)+len(rejects) == 0 {
		return nil
	}
	s.log.Warn("clickhouse knew a batch of which it lacked rows; they are written again",
		"topic", b.Topic, "partition", b.Partition, "first", b.First, "last", b.Last, "events", len(events), "rejects", len(rejects))
	if err := s.insertEvents(ctx, "", events); err != nil {
		return err
	}
	return s.insertRejects(ctx, "", rejects)
}

// newRejects gives those of b's rejects that may be inserted. A row that comes again takes the place of the one that is
// there, and would bring back what was purged of it; so, where b may have been sent before, those that are there are left.
func (s *Store) newRejects(ctx context.Context, b *event.Batch, doubtful bool) ([]event.Reject, error) {
	if !doubtful || len(b.Rejects) == 0 {
		return b.Rejects, nil
	}
	stored, err := s.places(ctx, "store/present_rejects", b.Topic, b.Partition, b.First, b.Last)
	if err != nil {
		return nil, err
	}
	has := make(map[event.Position]bool, len(stored))
	for _, at := range stored {
		has[at] = true
	}
	return without(b.Rejects, func(r *event.Reject) bool { return has[r.Position] }), nil
}

// without gives the rows for which drop is false.
func without[R any](rows []R, drop func(*R) bool) []R {
	var kept []R
	for i := range rows {
		if !drop(&rows[i]) {
			kept = append(kept, rows[i])
		}
	}
	return kept
}

// derive fills the tables that are derived from events with what the events of b's range say. They bear to be told twice.
func (s *Store) derive(ctx context.Context, b *event.Batch) error {
	p := params{"topic": b.Topic, "partition": b.Partition, "first": b.First, "last": b.Last}
	for _, table := range []string{"changed_keys", "task_keys", "worker_signals", "attempts", "task_minutes", "keyless", "emitter_numbers", "failures"} {
		if err := s.exec(ctx, "store/derive_"+table, p); err != nil {
			return fmt.Errorf("derive again: %w", err)
		}
	}
	return nil
}
