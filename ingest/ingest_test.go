package ingest

import (
	"testing"

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
