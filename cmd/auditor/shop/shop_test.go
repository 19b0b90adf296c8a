package shop

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"auditor/event"
)

var opening = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// during gives the events of a shop's first d.
func during(s *Shop, d time.Duration) []event.Event {
	var events []event.Event
	for {
		e := s.Next()
		if e.Time.Sub(s.start) > d {
			return events
		}
		events = append(events, e)
	}
}

func TestSameSeedSameEvents(t *testing.T) {
	first := during(New(1, opening, "t"), 15*time.Second)
	again := during(New(1, opening, "t"), 15*time.Second)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the same shop told other events (-first +again):\n%s", diff)
	}
	if cmp.Equal(first, during(New(2, opening, "t"), 15*time.Second)) {
		t.Error("another seed told the same events")
	}
}

func TestEventsComeInOrderAndNumbered(t *testing.T) {
	last := opening
	ids := make(map[string]bool)
	seq := make(map[string]int64)
	for _, e := range during(New(1, opening, "t"), 2*time.Minute) {
		if e.Time.Before(last) {
			t.Fatalf("event %s at %s comes after %s", e.ID, e.Time, last)
		}
		last = e.Time
		if ids[e.ID] {
			t.Fatalf("event id %s twice", e.ID)
		}
		ids[e.ID] = true
		if seq[e.Emitter]++; e.Seq != seq[e.Emitter] {
			t.Fatalf("emitter %s said number %d, want %d", e.Emitter, e.Seq, seq[e.Emitter])
		}
	}
}

func TestTagsKeepShopsApart(t *testing.T) {
	keys := make(map[string]bool)
	for _, e := range during(New(1, opening, "one"), 20*time.Second) {
		keys[e.BusinessKey], keys[e.TaskID], keys[e.ID], keys[e.Emitter] = true, true, true, true
	}
	delete(keys, "")
	for _, e := range during(New(1, opening, "two"), 20*time.Second) {
		for _, key := range []string{e.BusinessKey, e.TaskID, e.ID, e.Emitter} {
			if keys[key] {
				t.Fatalf("both shops use %q", key)
			}
		}
	}
}

// The dead say nothing: a worker that was killed is silent until it is there again with another process id.
func TestDeadWorkersAreSilent(t *testing.T) {
	type process struct {
		worker string
		pid    int
	}
	latest := make(map[string]process)
	gone := make(map[process]bool)
	restarts := 0
	for _, e := range during(New(3, opening, "t"), 5*time.Minute) {
		if e.Worker == "" {
			continue
		}
		p := process{e.Worker, e.PID}
		if gone[p] {
			t.Fatalf("%v speaks after its successor", p)
		}
		if before, ok := latest[e.Worker]; ok && before != p {
			gone[before] = true
			restarts++
		}
		latest[e.Worker] = p
	}
	if restarts == 0 {
		t.Error("no worker was killed")
	}
}

func TestMostlyHealthy(t *testing.T) {
	s := New(1, opening, "t")
	tasks, troubled := make(map[string]bool), 0
	for _, e := range during(s, time.Minute) {
		if e.Type != event.Sent {
			continue
		}
		tasks[e.TaskID] = true
		if !s.Truth().Healthy(e.BusinessKey) {
			troubled++
		}
	}
	if rate := len(tasks) / 60; rate < 50 || rate > 100 {
		t.Errorf("%d tasks a second, want 50 to 100", rate)
	}
	if troubled == 0 || troubled*100 > len(tasks) {
		t.Errorf("%d of %d tasks in trouble of their own, want a few and less than one in a hundred", troubled, len(tasks))
	}
}

// Whatever the seed, each trouble is there within the first minute, and the events show it.
func TestTroublesWithinAMinute(t *testing.T) {
	want := map[Trouble]int{
		{Rule: RepeatedEffect, Cause: "worker_lost", Task: sendReceipt, Effect: "email.send"}:                   1,
		{Rule: RepeatedEffect, Cause: "redelivered_while_running", Task: buildReport, Effect: "report.publish"}: 1,
		{Rule: RepeatedEffect, Cause: "published_twice", Task: settleOrder, Effect: "payment.charge"}:           1,
		{Rule: RetryStorm, Task: notifyCRM}:       1,
		{Rule: StuckPending, Task: sendReceipt}:   1,
		{Rule: PermanentError, Task: sendReceipt}: 6,
	}
	for seed := range uint64(8) {
		s := New(seed, opening, "t")
		effects := make(map[string]int)
		for _, e := range during(s, time.Minute) {
			if e.Effect != nil && !e.Effect.Deduplicated {
				effects[e.BusinessKey+" "+e.Effect.Name]++
			}
		}
		got := make(map[Trouble]int)
		for _, trouble := range s.Truth().Troubles() {
			if trouble.At.After(opening.Add(time.Minute)) {
				continue
			}
			if key := trouble.BusinessKey + " " + trouble.Effect; trouble.Effect != "" && effects[key] != 2 {
				t.Errorf("seed %d: %s happened %d times, want 2", seed, key, effects[key])
			}
			delete(effects, trouble.BusinessKey+" "+trouble.Effect)
			trouble.BusinessKey, trouble.At = "", time.Time{}
			got[trouble]++
		}
		for key, n := range effects {
			if n > 1 {
				t.Errorf("seed %d: %s happened %d times, and the truth knows nothing of it", seed, key, n)
			}
		}
		for trouble, n := range want {
			if got[trouble] < n {
				t.Errorf("seed %d: %d troubles like %+v, want %d", seed, got[trouble], trouble, n)
			}
		}
	}
}

// When the shop has closed, every task has come to an end, but for what is stuck.
func TestCloseLeavesNothingUnfinished(t *testing.T) {
	for _, open := range []time.Duration{500 * time.Millisecond, 4 * time.Second, 20 * time.Second, 70 * time.Second} {
		s := New(5, opening, "t")
		last := make(map[string]event.Event)
		var told []event.Event
		for len(told) == 0 || told[len(told)-1].Time.Before(opening.Add(open)) {
			told = append(told, s.Next())
		}
		for _, e := range append(told, s.Close()...) {
			if e.TaskID != "" && e.Type != event.Effected {
				last[e.TaskID] = e
			}
			if e.Time.After(opening.Add(open + time.Minute)) {
				t.Errorf("closed after %s, and still told %s at %s", open, e.Type, e.Time)
			}
		}
		for id, e := range last {
			stuck := e.Type == event.Received && !s.Truth().Healthy(e.BusinessKey)
			if !stuck && (!e.Type.EndsRun() || e.Type == event.Retried) {
				t.Errorf("closed after %s: the last word of %s (%s) is %s", open, id, e.BusinessKey, e.Type)
			}
		}
	}
}
