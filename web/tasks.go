package web

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"auditor/event/finding"
	"auditor/event/view"
)

// tasksView is one row a task.
type tasksView struct {
	Sentence []phrase
	Rows     []taskRow
	Empty    string
}

type taskRow struct {
	Name      string
	Namespace string
	Runs      int
	Retries   int
	PerRun    string
	Warn      bool // more retries than first runs
	Failed    int
	Findings  phrase
	Last      when
}

// tasksSpan is how far back the list of tasks counts.
const tasksSpan = 24 * time.Hour

func (s *Server) tasksPage(ctx context.Context, _ request) (document, error) {
	activity, err := s.store.Activity(ctx, s.now().Add(-tasksSpan), 30*time.Minute)
	if err != nil {
		return document{}, err
	}
	live, err := s.store.Findings(ctx, view.FindingFilter{States: []finding.State{finding.Open, finding.Acknowledged}, Limit: 500})
	if err != nil {
		return document{}, err
	}
	type name struct{ namespace, task string }
	found := map[name]int{}
	worst := map[name]string{}
	for _, f := range live.Items {
		n := name{f.Namespace, f.Task}
		found[n]++
		if tone := toneOf(f.Rule, f.Severity, f.State); worst[n] != "bad" {
			worst[n] = tone
		}
	}
	rows := map[name]*taskRow{}
	var list []*taskRow
	latest := map[name]time.Time{}
	for _, a := range activity {
		n := name{a.Namespace, a.Task}
		row := rows[n]
		if row == nil {
			row = &taskRow{Name: a.Task, Namespace: a.Namespace}
			rows[n] = row
			list = append(list, row)
		}
		row.Runs += a.Runs
		row.Retries += a.Retries
		row.Failed += a.Failed
		if a.Latest.After(latest[n]) {
			latest[n] = a.Latest
		}
	}
	v := tasksView{Empty: "No task has been heard of in the last 24 hours."}
	for n, row := range rows {
		firsts := firstRuns(row.Runs, row.Retries)
		row.PerRun = ratio(float64(row.Retries), float64(firsts))
		row.Warn = row.Retries > firsts
		row.Last = s.when(latest[n])
		if found[n] > 0 {
			row.Findings = phrase{Text: number(found[n]), Href: findingsHref("task", n.task), Tone: worst[n]}
		}
	}
	slices.SortFunc(list, func(a, b *taskRow) int {
		return cmp.Or(cmp.Compare(found[name{b.Namespace, b.Name}], found[name{a.Namespace, a.Name}]),
			cmp.Compare(b.Runs, a.Runs), strings.Compare(a.Name, b.Name), strings.Compare(a.Namespace, b.Namespace))
	})
	for _, row := range list {
		if row.Name != "" || row.Runs > 0 { // heartbeats and the like are no task's
			v.Rows = append(v.Rows, *row)
		}
	}
	v.Sentence = []phrase{{Text: plural(len(v.Rows), "task") + " in the last 24 hours, "},
		{Text: plural(len(found), "of them", "of them") + " with open findings.", Href: "/findings"}}
	return document{Title: "Tasks", Section: "tasks", Page: "tasks", View: v}, nil
}

// firstRuns is how many of the runs were no retries. Each retry led to one run at most.
func firstRuns(runs, retries int) int {
	if runs == 0 {
		return 0
	}
	return max(runs-retries, 1)
}

// workersView is one row a worker.
type workersView struct {
	Sentence []phrase
	Rows     []workerRow
	Empty    string
}

type workerRow struct {
	Name      string
	Namespace string
	Processes int
	First     when
	Last      when
	State     string
	Tone      string
}

const (
	mostWorkers = 500
	silentAfter = 2 * time.Minute // a worker not heard of for so long is called silent
)

func (s *Server) workersPage(ctx context.Context, _ request) (document, error) {
	workers, err := s.store.Workers(ctx, mostWorkers)
	if err != nil {
		return document{}, err
	}
	v := workersView{Empty: "No worker has been heard of."}
	heard, lost := 0, 0
	for _, w := range workers {
		row := workerRow{Name: w.Name, Namespace: w.Namespace, Processes: w.Processes, First: s.when(w.First), Last: s.when(w.Last), State: "heard of"}
		switch {
		case !w.Lost.IsZero() && !w.Lost.Before(w.Last):
			row.State, row.Tone = "lost", "warn"
			lost++
		case s.now().Sub(w.Last) > silentAfter:
			row.State, row.Tone = "silent", "quiet"
		default:
			heard++
		}
		v.Rows = append(v.Rows, row)
	}
	v.Sentence = []phrase{{Text: plural(heard, "worker") + " heard of in the last " + rough(silentAfter) + ", " +
		number(len(v.Rows)-heard-lost) + " silent, " + number(lost) + " reported lost."}}
	return document{Title: "Workers", Section: "workers", Page: "workers", View: v}, nil
}
