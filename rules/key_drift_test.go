package rules

import (
	"fmt"
	"testing"
	"time"

	"auditor/event/finding"
	"auditor/event/history"
	"auditor/event/history/historytest"
)

// A task id is judged under the first of its keys though nothing of that key was read, and is one finding whichever key that is.
func TestDriftingIDIsJudgedUnderAKeyOfLongAgo(t *testing.T) {
	b := newBench(t, DefaultConfig())
	arrive := func(text string) {
		events := historytest.Events(t, text)
		for i := range events {
			events[i].KafkaTime = events[i].Time
		}
		b.add(events...)
	}
	arrive("0 sent a r=0 key=job:5 eta=864000")
	b.look(historytest.At(10))
	arrive(`
		864001 started a w=w1 r=0 key=job:7
		864002 effect a w=w1 r=0 key=job:7 name=mail
		864003 started a w=w2 r=0 key=job:7 redelivered
		864004 effect a w=w2 r=0 key=job:7 name=mail
		864005 succeeded a w=w2 r=0 key=job:7
		864006 succeeded a w=w1 r=0 key=job:7`)
	now := historytest.At(864010)
	drifts := func() (open []string) {
		t.Helper()
		if _, err := b.engine.look(t.Context(), b.engine.present(t.Context(), now)); err != nil {
			t.Fatal(err)
		}
		all, err := b.store.AllFindings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			if f.State != finding.Resolved {
				open = append(open, fmt.Sprint(f.Rule, " ", f.BusinessKey, " ", f.Fields["key_count"]))
			}
		}
		return open
	}
	if open := drifts(); len(open) != 2 || open[0] == open[1] {
		t.Errorf("open: %q, want what was done twice, under job:5, and at the same time", open)
	}
	arrive("864007 succeeded a w=w3 r=1 key=job:1")
	now = now.Add(time.Hour)
	counted := 0
	for _, open := range drifts() {
		if open == "key_drift job:1 3" || open == "key_drift job:1 2" {
			counted++
		}
	}
	if counted > 1 {
		t.Errorf("key drift is told %d times", counted)
	}
}

// A moment of the past may know that an id drifts from keys that were told only later.
func TestDriftThatIsStillToCome(t *testing.T) {
	config := DefaultConfig()
	for _, text := range []string{"0 sent a r=0 key=", "0 sent a r=0"} {
		j := &judge{config: &config, history: history.Build(history.Subject{BusinessKey: "order:1"}, historytest.Events(t, text)), asOf: historytest.At(60),
			pulse: newPulse(nil, historytest.At(60)), drifted: map[string][]string{"a": {"order:1", "order:2"}}}
		if found := j.verdict().findings; len(found) > 0 {
			t.Errorf("found %+v", found)
		}
	}
}
