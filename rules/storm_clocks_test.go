package rules_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history/historytest"
	"auditor/queries/querytest"
)

// outage is many ids of one task that fail together, and try again and again.
type outage struct {
	ids    int
	failed float64   // seconds within which they fail first
	clocks []float64 // by how many seconds each host's clock is ahead; each run is on one of the hosts
	waits  []float64 // seconds until each further attempt
	jitter float64   // share of the wait by which it is longer or shorter
	busy   float64   // seconds by which a worker may begin later than it should
	nodes  bool      // the workers tell no host: each is one of its own
}

// events tells the outage of one task.
func (o outage) events(task string) []event.Event {
	rng := rand.New(rand.NewPCG(1, 1))
	var all []event.Event
	for id := range o.ids {
		at := 600.1 + o.failed*rng.Float64()
		host := 0
		say := func(kind event.Type, attempt int) {
			e := event.Event{ID: fmt.Sprint(task, kind, id, "-", attempt), Type: kind, Task: task, TaskID: fmt.Sprintf("%s/%d", task, id),
				Time: historytest.At(at + o.clocks[host]).Truncate(time.Microsecond), Retries: attempt, Worker: fmt.Sprintf("w%d@host-%d", rng.IntN(3), host),
				MaxRetries: event.Unknown, RetryIn: event.Unknown, Seq: event.Unknown, Active: event.Unknown}
			if o.nodes {
				e.Worker = fmt.Sprintf("node-%d", host)
			}
			if kind == event.Retried {
				e.Error = &event.Error{Type: "ConnectionRefused"}
			}
			all = append(all, e)
		}
		for attempt := range len(o.waits) + 1 {
			host = rng.IntN(len(o.clocks))
			say(event.Started, attempt)
			at += 0.05 + 0.05*rng.Float64()
			if attempt == len(o.waits) {
				say(event.Succeeded, attempt)
				break
			}
			say(event.Retried, attempt)
			at += o.waits[attempt]*(1+o.jitter*(2*rng.Float64()-1)) + o.busy*rng.Float64()
		}
	}
	return all
}

// Retries in lock-step are found whatever the clocks of the hosts that tell them; the interval is the true one. Retries with
// jitter are not, whatever the clocks.
func TestStormsAcrossClocks(t *testing.T) {
	agree, apart, three := []float64{0, 0, 0}, []float64{1, -1}, []float64{1, -1, 0.35}
	many := make([]float64, 40)
	for i := range many {
		many[i] = float64(i%5)*0.5 - 1
	}
	tests := []struct {
		name   string
		outage outage
		want   string // interval and waves
	}{
		{"clocks agree", outage{ids: 60, failed: 0.1, clocks: agree, waits: []float64{20, 20, 20}}, "20.0 s, 3 waves of 60"},
		{"two hosts, 2 s apart", outage{ids: 60, failed: 0.1, clocks: apart, waits: []float64{20, 20, 20}}, "20.0 s, 3 waves of 60"},
		{"three hosts", outage{ids: 80, failed: 0.1, clocks: three, waits: []float64{20, 20, 20}}, "20.0 s, 3 waves of 80"},
		{"workers that tell no host", outage{ids: 80, failed: 0.1, clocks: three, waits: []float64{20, 20}, nodes: true}, "20.0 s, 2 waves of 80"},
		{"an interval that grows", outage{ids: 80, failed: 0.1, clocks: three, waits: []float64{10, 20, 40}}, "10.0 s, 3 waves of 80"},
		{"a long interval", outage{ids: 80, failed: 0.1, clocks: three, waits: []float64{180, 180}}, "180.0 s, 2 waves of 80"},
		{"one wave of many", outage{ids: 300, failed: 0.1, clocks: three, waits: []float64{20}}, "20.0 s, 1 waves of 300"},
		{"a few ids on each host", outage{ids: 30, failed: 0.1, clocks: apart, waits: []float64{20, 20}}, "20.0 s, 2 waves of 30"},
		{"too few ids for the many clocks to be known", outage{ids: 60, failed: 0.1, clocks: many, waits: []float64{20, 20, 20}}, ""},
		{"clocks further apart than is allowed for", outage{ids: 80, failed: 0.1, clocks: []float64{5, -5}, waits: []float64{20, 20, 20}}, ""},
		{"jitter of ten per cent, failed over a minute", outage{ids: 600, failed: 60, clocks: three, waits: []float64{20, 20, 20}, jitter: 0.1}, ""},
		{"jitter of ten per cent, failed at once", outage{ids: 600, failed: 0.1, clocks: three, waits: []float64{20, 20, 20}, jitter: 0.1}, ""},
		{"jitter of half, failed at once", outage{ids: 600, failed: 0.1, clocks: three, waits: []float64{20, 20, 20}, jitter: 0.5}, ""},
		{"jitter, clocks agree", outage{ids: 600, failed: 0.1, clocks: agree, waits: []float64{20, 20, 20}, jitter: 0.1}, ""},
		{"jitter, a long interval", outage{ids: 2000, failed: 0.1, clocks: agree, waits: []float64{180, 180, 180}, jitter: 0.1}, ""},
		{"jitter, few ids on each host", outage{ids: 60, failed: 0.1, clocks: many[:8], waits: []float64{20, 20, 20, 20}, jitter: 0.1}, ""},
		{"jitter of five per cent to either side", outage{ids: 2000, failed: 0.1, clocks: agree, waits: []float64{180, 180}, jitter: 0.05}, ""},
		{"jitter of which some came at once by chance", outage{ids: 100, failed: 2, clocks: apart, waits: []float64{10, 10, 10, 10}, jitter: 0.1}, ""},
		{"a short interval", outage{ids: 80, failed: 0.1, clocks: three, waits: []float64{4, 4, 4}}, "4.0 s, 3 waves of 80"},
		{"busy workers", outage{ids: 200, failed: 0.1, clocks: three, waits: []float64{20, 20, 20}, busy: 0.1}, "20.1 s, 3 waves of 200"},
		{"a fixed interval, spread as the work came in", outage{ids: 2000, failed: 60, clocks: three, waits: []float64{20, 20, 20}}, ""},
	}
	f := &feed{store: querytest.Store(t)}
	for _, test := range tests {
		f.add(t, test.outage.events(test.name)...)
	}
	found, err := newEngine(t, f.store).Evaluate(t.Context(), historytest.At(3000))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, lockStep(found, test.name)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// lockStep writes in short what is found of a task's retries in lock-step.
func lockStep(found []finding.Finding, task string) string {
	var text string
	for _, f := range found {
		if f.Task == task && f.Fields["kind"] == "synchronised" {
			text += fmt.Sprintf("%.1f s, %v waves of %v", f.Fields["interval_seconds"], f.Fields["waves"], f.Fields["tasks"])
		}
	}
	return text
}
