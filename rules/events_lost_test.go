package rules

import (
	"fmt"
	"testing"
	"time"

	"auditor/event/history/historytest"
)

// A gap counts when it has lasted, though nothing more is heard of anyone.
func TestAGapLastsWithoutFurtherEvents(t *testing.T) {
	b := newBench(t, DefaultConfig())
	b.add(historytest.Events(t, `
		0 heartbeat w=w1 emitter=w1 seq=1
		10 heartbeat w=w1 emitter=w1 seq=2
		40 heartbeat w=w1 emitter=w1 seq=5`)...)
	now := historytest.At(45)
	if f := b.look(now); f.Rule != "" {
		t.Fatalf("found at once: %+v", f)
	}
	if !b.engine.gapsOpen() {
		t.Error("the gap is no longer open, though nothing was found")
	}
	if f := b.look(now.Add(DefaultConfig().Lost + time.Second)); f.Rule != EventsLost || fmt.Sprint(f.Fields["lost"]) != "2" ||
		!f.FirstSeen.Equal(historytest.At(10)) || !f.LastSeen.Equal(historytest.At(40)) {
		t.Errorf("found %+v", f)
	}
	if b.engine.gapsOpen() {
		t.Error("the gap is still open, though it was found")
	}
}
