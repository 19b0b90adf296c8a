package bridge

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestWhatHeartbeatsProve(t *testing.T) {
	tests := map[string]struct {
		messages      []Message
		lost, unheard float64
	}{
		"all heard": {[]Message{said(heartbeat(1, 0)), said(started(2)), said(heartbeat(3, 1)), said(heartbeat(4, 1))}, 0, 0},
		"a start is missing": {[]Message{said(heartbeat(1, 0)), said(started(2)), said(heartbeat(4, 2)),
			said(heartbeat(5, 2))}, 1, 1},
		"told when the next heartbeat comes, not before": {[]Message{said(heartbeat(1, 0)), said(heartbeat(4, 2))}, 0, 0},
		"what was gathered comes behind the heartbeat": {[]Message{said(heartbeat(1, 0)), said(heartbeat(4, 2)), said(started(2), started(3)),
			said(heartbeat(5, 2)), said(heartbeat(6, 2))}, 0, 0},
		"clocks that other workers moved": {[]Message{said(heartbeat(1, 0)), said(started(40)), said(heartbeat(90, 1)), said(heartbeat(91, 1))}, 0, 87},
		"tasks that are set to tell nothing move no clock": {[]Message{said(heartbeat(1, 0)), said(heartbeat(2, 5)), said(heartbeat(3, 9)),
			said(heartbeat(4, 9))}, 0, 0},
		"from before the first heartbeat":  {[]Message{said(heartbeat(5, 3)), said(started(2)), said(heartbeat(6, 3)), said(heartbeat(7, 3))}, 0, 0},
		"the worker starts anew":           {[]Message{said(heartbeat(9, 9)), said(heartbeat(1, 0)), said(started(2)), said(heartbeat(3, 1)), said(heartbeat(4, 1))}, 0, 0},
		"numbers that nobody can have":     {[]Message{said(heartbeat(1, 0)), said(heartbeat(1<<60, 1<<60)), said(heartbeat(-5, 2)), said(heartbeat(3, 0))}, 0, 0},
		"no more than can be is ever lost": {[]Message{said(heartbeat(1, 0)), said(heartbeat(1<<50, 1<<50)), said(heartbeat(1<<50+1, 1<<50))}, maxLost, 1<<50 - 2},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := carry(t, Config{}, new(kafka), test.messages)
			if lost := testutil.ToFloat64(b.metrics.lost); lost != test.lost {
				t.Errorf("lost %v, want %v", lost, test.lost)
			}
			if unheard := testutil.ToFloat64(b.metrics.unheard); unheard != test.unheard {
				t.Errorf("unheard %v, want %v", unheard, test.unheard)
			}
		})
	}
}

// What is proven lost leaves numbers out, unless tasks are known to tell nothing.
func TestProvenLossesLeaveNumbersOut(t *testing.T) {
	messages := []Message{said(heartbeat(1, 0)), said(heartbeat(5, 3)), said(heartbeat(6, 3))}
	for silent, want := range map[bool][]int64{false: {0, 1, 5}, true: {0, 1, 2}} {
		k := new(kafka)
		carry(t, Config{SilentTasks: silent}, k, messages)
		if diff := cmp.Diff(want, seqs(k.told(t))); diff != "" {
			t.Errorf("silent %v: %s", silent, diff)
		}
	}
}

// An outage is told of by one number; what heartbeats on both sides of it say is not counted again.
func TestHeartbeatsAcrossAnOutage(t *testing.T) {
	k := new(kafka)
	carry(t, Config{}, k, []Message{said(heartbeat(1, 0)), said(heartbeat(2, 0))},
		[]Message{said(heartbeat(9, 5)), said(heartbeat(10, 5)), said(heartbeat(11, 5))})
	if diff := cmp.Diff([]int64{0, 1, 3, 4, 5}, seqs(k.told(t))); diff != "" {
		t.Error(diff)
	}
}

func TestWorkersAreBounded(t *testing.T) {
	var w workers
	one := int64(1)
	for i := range 5 * perGeneration {
		w.hear(worker{fmt.Sprint(i), 0}, sign{&one, &one}, false)
	}
	if n := len(w.young) + len(w.old); n > 2*perGeneration {
		t.Errorf("%d workers are known", n)
	}
	if w.find(worker{fmt.Sprint(5*perGeneration - 1), 0}) == nil {
		t.Error("the last is not known")
	}
}
