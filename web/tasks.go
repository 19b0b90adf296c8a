package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"
	"time"

	"auditor/event/finding"
	"auditor/event/review"
	"auditor/event/view"
)

// tasksView is one row a task.
type tasksView struct {
	Sentence []phrase
	Lead     string // on what the verdicts rest
	Rows     []taskRow
	Empty    string
}

type taskRow struct {
	Name      string
	Namespace string
	Href      string
	Verdict   phrase // of its review; empty where there is none
	Runs      int
	Retries   int
	PerRun    string
	Warn      bool // more retries than first runs
	Failed    int
	P50, P95  string        // how long runs take; empty where it is not known
	Margin    template.HTML // the longest against its time-out
	Findings  phrase
	Last      when
}

const (
	tasksSpan     = 24 * time.Hour  // how far back the list of tasks counts
	tasksPatience = 2 * time.Second // how long it waits for the reviews, without which it is of use, too
)

// taskName is a task of a namespace.
type taskName struct{ namespace, task string }

func (s *Server) tasksPage(ctx context.Context, _ request) (document, error) {
	activity, err := s.store.Activity(ctx, s.now().Add(-tasksSpan), 30*time.Minute)
	if err != nil {
		return document{}, err
	}
	live, err := s.store.Findings(ctx, view.FindingFilter{States: []finding.State{finding.Open, finding.Acknowledged}, Silenced: new(false), Limit: 500})
	if err != nil {
		return document{}, err
	}
	reviews, ready, err := s.reviewsInTime(ctx)
	if err != nil {
		return document{}, err
	}
	found := map[taskName]int{}
	worst := map[taskName]string{}
	for _, f := range live.Items {
		n := taskName{f.Namespace, f.Task}
		found[n]++
		if tone := toneOf(f.Rule, f.Severity, f.State); worst[n] != "bad" {
			worst[n] = tone
		}
	}
	rows := s.busyTasks(activity)
	bad := 0
	for n, row := range rows {
		row.Href = reviewHref(n.namespace, n.task)
		if r := reviews[n]; r != nil {
			row.review(r)
			if r.Count(review.Bad) > 0 {
				bad++
			}
		}
		if found[n] > 0 {
			row.Findings = phrase{Text: number(found[n]), Href: findingsHref("task", n.task), Tone: worst[n]}
		}
	}
	v := tasksView{Empty: "No task has been heard of in the last 24 hours.", Lead: leadOf(reviews, ready)}
	for _, n := range slices.SortedFunc(maps.Keys(rows), func(a, b taskName) int {
		return cmp.Or(cmp.Compare(found[b], found[a]), cmp.Compare(badIn(reviews[b]), badIn(reviews[a])), cmp.Compare(rows[b].Runs, rows[a].Runs),
			strings.Compare(a.task, b.task), strings.Compare(a.namespace, b.namespace))
	}) {
		v.Rows = append(v.Rows, *rows[n])
	}
	v.Sentence = []phrase{{Text: plural(len(v.Rows), "task") + " in the last 24 hours, "},
		{Text: plural(len(found), "of them", "of them") + " with open findings", Href: "/findings"}}
	if ready {
		v.Sentence = append(v.Sentence, phrase{Text: ", " + plural(bad, "of them", "of them") + " with a bad review"})
	}
	v.Sentence = append(v.Sentence, phrase{Text: "."})
	return document{Title: "Tasks", Section: "tasks", Page: "tasks", View: v}, nil
}

// reviewsInTime gives the reviews by task; ready is false where they take longer than the page waits.
func (s *Server) reviewsInTime(ctx context.Context) (by map[taskName]*review.Review, ready bool, err error) {
	soon, cancel := context.WithTimeout(ctx, tasksPatience)
	defer cancel()
	all, err := s.lately(soon, review.Query{})
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return nil, false, nil
		}
		return nil, false, err
	}
	by = make(map[taskName]*review.Review, len(all))
	for i := range all {
		by[taskName{all[i].Namespace, all[i].Task}] = &all[i]
	}
	return by, true, nil
}

// busyTasks sums what each task did.
func (s *Server) busyTasks(activity []view.Activity) map[taskName]*taskRow {
	rows := map[taskName]*taskRow{}
	latest := map[taskName]time.Time{}
	for _, a := range activity {
		n := taskName{a.Namespace, a.Task}
		row := rows[n]
		if row == nil {
			row = &taskRow{Name: a.Task, Namespace: a.Namespace}
			rows[n] = row
		}
		row.Runs += a.Runs
		row.Retries += a.Retries
		row.Failed += a.Failed
		if a.Latest.After(latest[n]) {
			latest[n] = a.Latest
		}
	}
	for n, row := range rows {
		if n.task == "" && row.Runs == 0 { // heartbeats and the like are no task's
			delete(rows, n)
			continue
		}
		firsts := firstRuns(row.Runs, row.Retries)
		row.PerRun = ratio(float64(row.Retries), float64(firsts))
		row.Warn = row.Retries > firsts
		row.Last = s.when(latest[n])
	}
	return rows
}

// review adds what the task's review says.
func (row *taskRow) review(r *review.Review) {
	row.Verdict = phrase{Text: number(r.Count(review.Good)) + " good", Href: row.Href, Tone: "quiet"}
	if bad := r.Count(review.Bad); bad > 0 {
		row.Verdict = phrase{Text: number(bad) + " bad", Href: row.Href, Tone: "warn"}
	} else if r.Count(review.Good) == 0 {
		row.Verdict.Text = "not seen enough"
	}
	if r.Took.Count == 0 {
		return
	}
	row.P50, row.P95 = review.Length(r.Took.P50), review.Length(r.Took.P95)
	if t := r.Nearest(); t != nil {
		tone := "quiet"
		if review.Near(r.Longest(), t.After) {
			tone = "warn"
		}
		row.Margin = marginBar(r.Longer(), t.After.Seconds(), tone, fmt.Sprintf("longest %s of %s", review.Length(r.Longest().Seconds()), review.Length(t.After.Seconds())))
	}
}

func badIn(r *review.Review) int {
	if r == nil {
		return 0
	}
	return r.Count(review.Bad)
}

// leadOf says what the verdicts rest on.
func leadOf(reviews map[taskName]*review.Review, ready bool) string {
	if !ready {
		return "The reviews are being measured; they are here when the page is opened again."
	}
	for _, r := range reviews {
		return "Reviews: " + strings.ToLower(measuredText(r.Sample)[:1]) + measuredText(r.Sample)[1:] + " of the last 7 days. Run times: the bar is the shortest time-out, filled as far as the longest run reached."
	}
	return ""
}

// firstRuns is how many of the runs were no retries. Each retry led to one run at most.
func firstRuns(runs, retries int) int {
	if runs == 0 {
		return 0
	}
	return max(runs-retries, 1)
}
