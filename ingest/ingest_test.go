package ingest

import (
	"testing"
)

const childEnv = "AUDITOR_INGEST_CHILD"

func runChild(string) int { return 0 }

func TestReadsAll(t *testing.T) {
	c := newCluster(t, 1)
	producer := newProducer(t, c)
	produce(t, producer, 0, "e", "x", "eex")
	s := newMemoryStore()
	p := start(t, testConfig(c), s)
	p.reaches(3)
	produce(t, producer, 0, "e", "e")
	p.reaches(5)
	p.stop()
	checkExact(t, s, map[int32]map[int64]string{0: {0: "e", 1: "x", 2: "eex", 3: "e", 4: "e"}})
	checkLedger(t, s, 0, 5)
}
