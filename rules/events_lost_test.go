package rules

import (
	"fmt"
	"testing"
	"time"

	"auditor/event/finding"
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

// What was said of lost events stays as it is while nothing more is lost: through further events around the gap, after a person
// resolved it, and when the gap has left what is read.
func TestLostEventsStayAsTheyWereFound(t *testing.T) {
	b := newBench(t, DefaultConfig())
	arrive := func(text string) {
		events := historytest.Events(t, text)
		for i := range events {
			events[i].KafkaTime = events[i].Time
		}
		b.add(events...)
	}
	arrive("0 heartbeat w=w1 emitter=w1 seq=1\n10 heartbeat w=w1 emitter=w1 seq=2\n40 heartbeat w=w1 emitter=w1 seq=5")
	b.look(historytest.At(45))
	found := b.look(historytest.At(200))
	if found.Rule != EventsLost {
		t.Fatalf("found %+v", found)
	}
	arrive("300 heartbeat w=w1 emitter=w1 seq=6")
	b.look(historytest.At(310))
	if f := b.look(historytest.At(400)); f.Version != found.Version || !f.LastSeen.Equal(found.LastSeen) {
		t.Errorf("an event after the gap: %+v", f)
	}
	arrive("200000 heartbeat w=w1 emitter=w1 seq=200\n200001 heartbeat w=w1 emitter=w1 seq=201")
	b.look(historytest.At(200010))
	if f := b.look(historytest.At(200100)); f.State != finding.Open {
		t.Errorf("days later: %s", f.State)
	}
	if gaps, err := b.store.Gaps(t.Context(), "", []string{"w1"}, time.Time{}); err != nil || len(gaps) != 2 || gaps[0].First != 3 || gaps[0].Last != 4 ||
		gaps[1].First != 7 || gaps[1].Last != 199 || !gaps[1].After.Equal(historytest.At(300)) || !gaps[1].Before.Equal(historytest.At(200000)) {
		t.Errorf("%v %+v", err, gaps)
	}
}
