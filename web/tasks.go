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
	live, err := s.store.Findings(ctx, view.FindingFilter{States: []finding.State{finding.Open, finding.Acknowledged}, Silenced: new(false), Limit: 500})
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
