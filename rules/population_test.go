package rules

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"auditor/event/history"
	"auditor/event/history/historytest"
)

func wave(second float64, ids int, gap, spread, breadth float64) history.Wave {
	at := historytest.At(second)
	return history.Wave{Task: "crm.notify", Measure: "attempt", Second: at, IDs: ids, GapLow: gap - spread/2, Gap: gap, GapHigh: gap + spread/2,
		Breadth: breadth, First: at, Last: at.Add(time.Duration(breadth * float64(time.Second)))}
}

// steady is a task of which so many ids come to their retry in every second.
func steady(ids int, gap, spread float64) []history.Wave {
	var all []history.Wave
	for s := range 300 {
		all = append(all, wave(float64(s), ids, gap, spread, 0.8))
	}
	return all
}

func TestSynchronised(t *testing.T) {
	polling := []history.Wave{wave(0, 300, 180, 0.01, 0.01), wave(180, 300, 180, 0.01, 0.01)}
	for i := range polling {
		polling[i].Task = "celery.chord_unlock"
	}
	for _, test := range []struct {
		name  string
		waves []history.Wave
		want  []string
	}{
		{"300 ids every 180 s", []history.Wave{wave(0, 300, 180, 0.01, 0.01), wave(180, 300, 180, 0.01, 0.01)}, []string{"synchronised 2 waves of 300"}},
		{"one wave of many", []history.Wave{wave(0, 100, 180, 0.01, 0.01)}, []string{"synchronised 1 waves of 100"}},
		{"one wave of some may be chance", []history.Wave{wave(0, 99, 180, 0.01, 0.01)}, nil},
		{"an interval that grows without jitter", []history.Wave{wave(0, 60, 10, 0.01, 0.01), wave(20, 60, 20, 0.01, 0.01), wave(60, 60, 40, 0.01, 0.01)}, []string{"synchronised 3 waves of 60"}},
		{"too few ids", []history.Wave{wave(0, 19, 180, 0.01, 0.01), wave(180, 19, 180, 0.01, 0.01)}, nil},
		{"jitter of ten per cent", []history.Wave{wave(0, 300, 180, 29, 0.8), wave(180, 300, 180, 29, 0.8)}, nil},
		{"a fixed interval, but spread as the work came in", steady(100, 30, 0.01), nil},
		{"a burst stands out from such a stream", append(steady(5, 30, 0.01), wave(300, 200, 30, 0.1, 0.8), wave(330, 200, 30, 0.1, 0.8)), []string{"synchronised 2 waves of 200"}},
		{"attempts that a worker fetches ahead have no interval", []history.Wave{wave(0, 300, 0.01, 0.001, 0.01), wave(1, 300, 0.01, 0.001, 0.01)}, nil},
		{"polling", polling, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := DefaultConfig()
			var got []string
			for _, f := range synchronised(&config, test.waves) {
				got = append(got, fmt.Sprintf("%s %d waves of %d", f.Fields["kind"], f.Fields["waves"], f.Fields["tasks"]))
				if f.Explanation == "" || f.Remedy == "" {
					t.Error("does not explain itself")
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSurge(t *testing.T) {
	past := func(minutes, runs, retries int) []history.Minute {
		var all []history.Minute
		for m := range minutes {
			all = append(all, history.Minute{Task: "crm.notify", Minute: historytest.At(float64(60 * m)), Runs: runs, Retries: retries})
		}
		return all
	}
	later := func(all []history.Minute, minutes, runs, retries int) []history.Minute {
		for range minutes {
			next := all[len(all)-1].Minute.Add(time.Minute)
			all = append(all, history.Minute{Task: "crm.notify", Minute: next, Runs: runs, Retries: retries})
		}
		return all
	}
	for _, test := range []struct {
		name    string
		minutes []history.Minute
		want    int
	}{
		{"from one in fifty to two a run", later(past(60, 51, 1), 5, 150, 100), 1},
		{"always so", past(65, 150, 100), 0},
		{"more work, the same share", later(past(60, 51, 1), 5, 5100, 100), 0},
		{"no past to compare with", later(past(10, 51, 1), 5, 150, 100), 0},
		{"too few", later(past(60, 51, 1), 5, 15, 9), 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := DefaultConfig()
			got := surges(&config, test.minutes, time.Time{})
			if len(got) != test.want {
				t.Errorf("%d findings, want %d: %+v", len(got), test.want, got)
			}
		})
	}
}
