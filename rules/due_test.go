package rules

import (
	"fmt"
	"testing"

	"auditor/event/history"
	"auditor/event/history/historytest"
)

// A subject with many due tasks is judged in several rounds, in each of which its tasks' own events fit.
func TestRounds(t *testing.T) {
	var tasks []history.Pending
	for i := range 25 {
		tasks = append(tasks, history.Pending{Subject: history.Subject{BusinessKey: "hot"}, PendingTaskID: fmt.Sprint(i)})
	}
	tasks = append(tasks, history.Pending{Subject: history.Subject{TaskID: "a"}, PendingTaskID: "a", KnownKey: "hot"},
		history.Pending{Subject: history.Subject{BusinessKey: "calm"}, PendingTaskID: "b"})
	all := rounds(tasks, 10)
	total := 0
	for _, round := range all {
		of := map[history.Subject]int{}
		for _, t := range round {
			of[subjectNow(t)]++
		}
		if of[history.Subject{BusinessKey: "hot"}] > 10 {
			t.Errorf("%v in one round", of)
		}
		total += len(round)
	}
	if len(all) != 3 || total != len(tasks) {
		t.Errorf("%d rounds of %d tasks", len(all), total)
	}
}

// What has only just reached Kafka may not be all that is on its way.
func TestGrace(t *testing.T) {
	config := DefaultConfig()
	events := historytest.Events(t, "0 started a w=w1 r=0")
	events[0].KafkaTime = historytest.At(5000)
	for second, want := range map[float64]int{5005: 0, 5011: 1} {
		j := &judge{config: &config, history: history.Build(history.Subject{BusinessKey: "order:1"}, events),
			asOf: historytest.At(second), grace: moment{}.grace()}
		if found, _ := j.stuckPending(); len(found) != want {
			t.Errorf("%g: %d findings, want %d", second, len(found), want)
		}
		j.grace = moment{past: true}.grace()
		if found, _ := j.stuckPending(); len(found) != 1 {
			t.Errorf("%g: a file that is judged as of a past moment arrives after it: %d findings", second, len(found))
		}
	}
}

// A due task that was not judged is closed where its events are gone, and looked at again where there were too many.
func TestUnjudged(t *testing.T) {
	crowded, gone := history.Subject{BusinessKey: "hot"}, history.Subject{BusinessKey: "gone"}
	noted := []history.Pending{{Subject: crowded, PendingTaskID: "a", Open: true}, {Subject: crowded, PendingTaskID: "b", Open: true},
		{Subject: gone, PendingTaskID: "c", Open: true}}
	judged := told{tasks: []history.Pending{{Subject: crowded, PendingTaskID: "a"}}, cut: []history.Subject{crowded}}
	left := unjudged(noted, judged, moment{known: historytest.At(100)})
	if len(left) != 2 || left[0].PendingTaskID != "b" || !left[0].Open || !left[0].Due.Equal(historytest.At(160)) || left[1].Open {
		t.Errorf("%+v", left)
	}
}
