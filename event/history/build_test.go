package history_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"auditor/event"
	"auditor/event/history"
	"auditor/event/history/historytest"
)

// summary writes a history in short: each run with the ids of its events, its end, and what came after that.
func summary(h *history.History) []string {
	var lines []string
	for _, r := range h.Runs {
		var ids []string
		for _, e := range r.Events {
			ids = append(ids, e.ID)
		}
		end := "-"
		if r.End != nil {
			end = string(r.End.Type)
		}
		lines = append(lines, fmt.Sprintf("%d %s %s r%d [%s] %s effects=%d more=%d", r.Number, r.TaskID, r.Worker, r.Retries,
			strings.Join(ids, " "), end, len(r.Effects), len(r.Conflicting)))
	}
	return lines
}

var builds = []struct {
	name   string
	events string
	want   []string
}{
	{"a retry is a second run", `
		0 received a w=w1 r=0
		1 started a w=w1 r=0
		2 retried a w=w1 r=0
		5 received a w=w2 r=1
		6 started a w=w2 r=1
		7 succeeded a w=w2 r=1`,
		[]string{"1 a w1 r0 [e0 e1 e2] retried effects=0 more=0", "2 a w2 r1 [e3 e4 e5] succeeded effects=0 more=0"}},
	{"a clock was set back during the run: its start is told for a moment after its end", `
		0 received a w=w1 r=0
		1 succeeded a w=w1 r=0
		1.05 started a w=w1 r=0`,
		[]string{"1 a w1 r0 [e0 e1 e2] succeeded effects=0 more=0"}},
	{"a start after an end that was told without one belongs to the delivery before it", `
		0 received a w=w1 r=0
		1 succeeded a w=w1 r=0
		1.04 received a w=w1 r=0 redelivered
		1.05 started a w=w1 r=0
		2 succeeded a w=w1 r=0`,
		[]string{"1 a w1 r0 [e0 e1] succeeded effects=0 more=0", "2 a w1 r0 [e2 e3 e4] succeeded effects=0 more=0"}},
	{"two workers hold one task at once", `
		0 received a w=w1 r=0
		1 started a w=w1 r=0
		60 received a w=w2 r=0 redelivered
		61 started a w=w2 r=0
		90 effect a w=w1 r=0 name=mail
		95 effect a w=w2 r=0 name=mail
		96 succeeded a w=w2 r=0
		99 succeeded a w=w1 r=0`,
		[]string{"1 a w1 r0 [e0 e1 e4 e7] succeeded effects=1 more=0", "2 a w2 r0 [e2 e3 e5 e6] succeeded effects=1 more=0"}},
	{"a worker that was killed, and came back under its name, took the task again", `
		0 received a w=w1 r=0 pid=10
		1 started a w=w1 r=0 pid=10
		2 effect a w=w1 r=0 pid=10 name=mail
		30 received a w=w1 r=0 pid=11
		31 started a w=w1 r=0 pid=11
		32 effect a w=w1 r=0 pid=11 name=mail
		33 succeeded a w=w1 r=0 pid=11`,
		[]string{"1 a w1 r0 [e0 e1 e2] - effects=1 more=0", "2 a w1 r0 [e3 e4 e5 e6] succeeded effects=1 more=0"}},
	{"raw Celery tells no attempt after received, and the next attempt is received before the word retried", `
		0 sent a r=0
		0.1 received a w=w1 r=0
		0.2 started a w=w1 task= key=
		1.0 sent a r=1
		1.1 received a w=w1 r=1
		1.2 retried a w=w1 task= key=
		2.5 started a w=w1 task= key=
		3 succeeded a w=w1 task= key=`,
		[]string{"1 a w1 r0 [e1 e2 e5] retried effects=0 more=0", "2 a w1 r1 [e4 e6 e7] succeeded effects=0 more=0"}},
	{"only ends are told", `
		1 retried a r=0
		5 retried a r=1
		9 succeeded a r=2`,
		[]string{"1 a  r0 [e0] retried effects=0 more=0", "2 a  r1 [e1] retried effects=0 more=0", "3 a  r2 [e2] succeeded effects=0 more=0"}},
	{"two ends of one run", `
		0 received a w=w1 r=0
		1 started a w=w1 r=0
		2 failed a w=w1 r=0 err=TimeLimitExceeded
		2.1 failed a w=w1 r=0 err=TimeLimitExceeded`,
		[]string{"1 a w1 r0 [e0 e1 e2 e3] failed effects=0 more=1"}},
	{"an execution id tells deliveries apart where nothing else does", `
		0 started a w=w1 r=0 exec=x1
		1 started a w=w1 r=0 exec=x2
		5 succeeded a w=w1 r=0 exec=x1
		6 succeeded a w=w1 r=0 exec=x2`,
		[]string{"1 a w1 r0 [e0 e2] succeeded effects=0 more=0", "2 a w1 r0 [e1 e3] succeeded effects=0 more=0"}},
	{"a runtime tells which of two runs on one worker ended", `
		0 started a w=w1 r=0
		10 started a w=w1 r=0
		30 succeeded a w=w1 r=0 runtime=30
		35 succeeded a w=w1 r=0 runtime=25`,
		[]string{"1 a w1 r0 [e0 e2] succeeded effects=0 more=0", "2 a w1 r0 [e1 e3] succeeded effects=0 more=0"}},
	{"two runs of one task on one worker do one effect each", `
		0 received a w=w1 r=0
		1 started a w=w1 r=0
		60 received a w=w1 r=0 redelivered
		61 started a w=w1 r=0
		90 effect a w=w1 r=0 name=mail
		95 effect a w=w1 r=0 name=mail
		96 succeeded a w=w1 r=0
		99 succeeded a w=w1 r=0`,
		[]string{"1 a w1 r0 [e0 e1 e5 e7] succeeded effects=1 more=0", "2 a w1 r0 [e2 e3 e4 e6] succeeded effects=1 more=0"}},
	{"copies under two task ids", `
		0 started a w=w1 r=0
		1 started b w=w1 r=0
		2 succeeded a w=w1 r=0
		3 skipped b w=w1 r=0`,
		[]string{"1 a w1 r0 [e0 e2] succeeded effects=0 more=0", "2 b w1 r0 [e1 e3] skipped effects=0 more=0"}},
	{"heartbeats are no runs", `
		0 heartbeat w=w1
		1 started a w=w1 r=0`,
		[]string{"1 a w1 r0 [e1] - effects=0 more=0"}},
}

func TestBuild(t *testing.T) {
	for _, test := range builds {
		t.Run(test.name, func(t *testing.T) {
			events := historytest.Events(t, test.events)
			h := history.Build(history.Subject{BusinessKey: "order:1"}, events)
			if diff := cmp.Diff(test.want, summary(h)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The order of arrival, and how often an event arrives, change nothing.
func TestBuildOrderAndRepeats(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, test := range builds {
		for range 20 {
			events := historytest.Events(t, test.events)
			again := append(slices.Clone(events), events[random.IntN(len(events))], events[random.IntN(len(events))])
			random.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
			h := history.Build(history.Subject{BusinessKey: "order:1"}, again)
			if diff := cmp.Diff(test.want, summary(h)); diff != "" {
				t.Fatalf("%s: %s", test.name, diff)
			}
			if h.Repeats != 2 {
				t.Fatalf("%s: %d repeats", test.name, h.Repeats)
			}
		}
	}
}

// Build takes whatever events there are.
func FuzzBuild(f *testing.F) {
	f.Add(uint64(1), 10)
	f.Add(uint64(7), 40)
	f.Fuzz(func(t *testing.T, seed uint64, n int) {
		random := rand.New(rand.NewPCG(seed, 0))
		events := make([]event.Event, min(max(n, 0), 200))
		for i := range events {
			events[i] = event.Event{ID: fmt.Sprint(random.IntN(200)), Type: event.Types[random.IntN(len(event.Types))],
				Time: historytest.At(float64(random.IntN(50))), TaskID: []string{"", "a", "b"}[random.IntN(3)],
				Worker: []string{"", "w1", "w2"}[random.IntN(3)], Retries: random.IntN(4) - 1, PID: random.IntN(3),
				Runtime: float64(random.IntN(10)), ExecutionID: []string{"", "", "x", "y"}[random.IntN(4)],
				Effect: []*event.Effect{nil, {Name: "x"}}[random.IntN(2)]}
		}
		h := history.Build(history.Subject{}, events)
		seen := map[*event.Event]bool{}
		for _, r := range h.Runs {
			for _, e := range r.Events {
				if seen[e] {
					t.Fatalf("event %s is in two runs", e.ID)
				}
				seen[e] = true
			}
		}
		for _, e := range h.Events {
			if e.TaskID != "" && e.Type != event.Sent && !seen[e] {
				t.Fatalf("event %s (%s) is in no run", e.ID, e.Type)
			}
		}
	})
}

func TestAnAbsurdRuntimeDoesNotTurnTimeRound(t *testing.T) {
	events := historytest.Events(t, "1 succeeded a w=w1 r=0")
	events[0].Runtime = 1e300
	begin := history.Build(history.Subject{TaskID: "a"}, events).Runs[0].Begin()
	if begin.After(events[0].Time) || begin.Year() < 1900 {
		t.Errorf("the run begins at %s, it ended at %s", begin, events[0].Time)
	}
}
