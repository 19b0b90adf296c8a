package ingest

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// Status is where ingest stands.
type Status struct {
	Assigned   bool              // this process is in the group and has been told which partitions are its own, perhaps none
	Generation int32             // of the group
	Topics     []string          // that the group reads
	Trouble    string            // why Kafka or the store can't be used just now; empty when they can
	Partitions []PartitionStatus // this process's own, by topic and number
}

// PartitionStatus is where ingest stands in one partition.
type PartitionStatus struct {
	Topic         string
	Partition     int32
	Partitions    int       // how many the topic has
	Next          int64     // the next offset to read, -1 until that is known
	HighWatermark int64     // the offset after the partition's last, -1 until that is known
	LogStart      int64     // the first offset that the partition still holds, -1 until that is known
	Lag           int64     // records not yet in the store: HighWatermark - Next
	Newest        time.Time // Kafka timestamp of the newest record in the store, zero when this process has stored none
	Checked       time.Time // when HighWatermark was read
	Stopped       Reason    // why the partition stands still, empty when it does not
	Detail        string    // the same for a person
}

// board is the status that the partitions' goroutines write and everybody reads.
type board struct {
	mu         sync.Mutex
	assigned   bool
	generation int32
	partitions map[place]*PartitionStatus
}

type place struct {
	topic     string
	partition int32
}

// begin replaces the partitions by those of a new generation, of topics with so many partitions.
func (b *board) begin(generation int32, places []place, counts map[string]int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.assigned, b.generation = true, generation
	b.partitions = make(map[place]*PartitionStatus, len(places))
	for _, p := range places {
		b.partitions[p] = &PartitionStatus{Topic: p.topic, Partition: p.partition, Partitions: max(counts[p.topic], int(p.partition)+1),
			Next: -1, HighWatermark: -1, LogStart: -1}
	}
}

// end says that no partition is this process's any more.
func (b *board) end(generation int32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.generation == generation {
		b.assigned, b.partitions = false, nil
	}
}

// update changes the status of a partition, unless it is another generation's by now.
func (b *board) update(generation int32, p place, change func(*PartitionStatus)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.partitions[p]; s != nil && b.generation == generation {
		change(s)
	}
}

func (b *board) status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Status{Assigned: b.assigned, Generation: b.generation}
	for _, p := range slices.Collect(maps.Values(b.partitions)) {
		copied := *p
		if copied.Next >= 0 && copied.HighWatermark >= 0 {
			copied.Lag = max(copied.HighWatermark-copied.Next, 0)
		}
		s.Partitions = append(s.Partitions, copied)
	}
	slices.SortFunc(s.Partitions, func(a, b PartitionStatus) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return s
}
