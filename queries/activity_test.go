package queries

import (
	"fmt"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"auditor/event"
)

// Celery tells a task's name on arrival only. What it tells later counts for that task all the same.
func TestActivityNamesWhatTellsNoName(t *testing.T) {
	type sums struct{ Runs, Retries, Succeeded, Failed int }
	const ids = 300
	for _, key := range []string{"", "order:%d"} {
		s := newStore(t)
		var events told
		for i := range ids {
			named := event.Event{Task: fmt.Sprint("task-", i%2), TaskID: fmt.Sprint("id-", i), Worker: "w1", MaxRetries: event.Unknown}
			if key != "" {
				named.BusinessKey = fmt.Sprintf(key, i)
			}
			bare := event.Event{TaskID: named.TaskID, Worker: "w1", Retries: event.Unknown, MaxRetries: event.Unknown}
			events.add(0, event.Received, named)
			events.add(1, event.Started, bare)
			if i%2 == 1 {
				events.add(2, event.Retried, bare)
				events.add(3, event.Received, named)
				events.add(4, event.Started, bare)
				events.add(5, event.Failed, bare)
			} else {
				events.add(5, event.Succeeded, bare)
			}
		}
		events.add(0, event.Started, event.Event{TaskID: "never named", Worker: "w1"})
		events.add(0, event.Heartbeat, event.Event{Worker: "w1"})
		events.store(t, s)
		got := map[string]sums{}
		all := 0
		activity, err := s.Pages().Activity(t.Context(), noon.Add(-time.Hour), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range activity {
			all += a.Events
			n := got[a.Task]
			got[a.Task] = sums{n.Runs + a.Runs, n.Retries + a.Retries, n.Succeeded + a.Succeeded, n.Failed + a.Failed}
		}
		want := map[string]sums{"task-0": {150, 0, 150, 0}, "task-1": {300, 150, 0, 150}, "": {Runs: 1}}
		near := gocmp.Comparer(func(a, b int) bool { return a == b || b > 100 && max(a-b, b-a) <= b/50 }) // what is counted by estimate
		if diff := gocmp.Diff(want, got, near); diff != "" {
			t.Errorf("key %q: %s", key, diff)
		}
		if d := all - len(events); d < -40 || d > 40 {
			t.Errorf("key %q: %d events of %d", key, all, len(events))
		}

		// Some of them stand for the rest.
		some, err := s.Pages().activity(t.Context(), noon.Add(-time.Hour), 2*time.Hour, 300)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range some {
			if want := map[string]int{"task-1": 150}[a.Task]; a.Failed < want*2/3 || a.Failed > want*4/3 {
				t.Errorf("key %q: %s failed %d times by a third of its events, want about %d", key, a.Task, a.Failed, want)
			}
		}
	}
}
