package ingest

import (
	"context"
	"sync"
	"testing"
	"time"

	"auditor/event"
)

func TestReadsAll(t *testing.T) {
	c := newCluster(t, 1)
	producer := newProducer(t, c)
	produce(t, producer, 0, "e", "x", "eex", "")
	s := newMemoryStore()
	p := start(t, testConfig(c), s)
	p.reaches(4)
	produce(t, producer, 0, "e", "e")
	p.reaches(6)
	p.stop()
	empty := event.Position{Topic: topic, Offset: 3}
	if got := s.rejects[empty]; got != 1 {
		t.Errorf("the record without a value is %d rejects, want 1", got)
	}
	delete(s.rejects, empty)
	checkExact(t, s, map[int32]map[int64]string{0: {0: "e", 1: "x", 2: "eex", 4: "e", 5: "e"}})
}

// notes is a journal that keeps what it was told.
type notes struct {
	mu   sync.Mutex
	told map[event.PartitionID]event.Progress
	fail bool
}

func (n *notes) SaveProgress(_ context.Context, at []event.Progress) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fail {
		return errInjected
	}
	for _, p := range at {
		n.told[p.PartitionID] = p
	}
	return nil
}

func (n *notes) of(partition int32) (event.Progress, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p, ok := n.told[event.PartitionID{Topic: topic, Partition: partition}]
	return p, ok
}

func TestTellsHowFarItIs(t *testing.T) {
	c := newCluster(t, 2)
	produce(t, newProducer(t, c), 1, repeat("e", 10)...)
	i, err := New(testConfig(c), newMemoryStore(), letters{}, testLogger(t), newRegistry())
	if err != nil {
		t.Fatal(err)
	}
	n := &notes{told: make(map[event.PartitionID]event.Progress), fail: true}
	i.pace.heartbeat, i.pace.joinBackoff, i.pace.progress = 100*time.Millisecond, 50*time.Millisecond, time.Millisecond
	i.Tell(n)
	p := run(t, i)
	eventually(t, "all is read although nothing can be told", func() bool {
		s := p.Status()
		return len(s.Partitions) == 2 && s.Partitions[1].Next == 10
	})
	n.mu.Lock()
	n.fail = false
	n.mu.Unlock()
	eventually(t, "both partitions are told of", func() bool {
		empty, ok := n.of(0)
		full, too := n.of(1)
		return ok && too && empty.Next == 0 && empty.End == 0 && full.Next == 10 && full.End == 10 &&
			full.Partitions == 2 && len(full.Topics) == 1 && !full.Newest.IsZero() && !full.Checked.IsZero()
	})
}

func TestProgressTellsOnlyWhatIsKnown(t *testing.T) {
	got := Progress(Status{Topics: []string{topic}, Partitions: []PartitionStatus{
		{Topic: topic, Partition: 0, Next: -1, HighWatermark: -1, LogStart: -1},
		{Topic: topic, Partition: 1, Next: -1, HighWatermark: -1, LogStart: -1, Stopped: Compacted, Detail: "why"},
	}})
	if len(got) != 1 || got[0].Partition != 1 || got[0].Problem != "topic_compacted: why" {
		t.Errorf("%+v", got)
	}
}
