package web

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/url"
	"strings"

	"auditor/event/finding"
	"auditor/event/review"
	"auditor/event/view"
)

// taskView is what is known of one task: its review, how its runs and retries go, its findings.
type taskView struct {
	Name      string
	Namespace string
	Sentence  []phrase
	Lead      string
	Others    []phrase // pages of the tasks of that name in other namespaces
	Answers   []answerRow
	Course    template.HTML // the gaps between retries and the attempts after them, drawn
	Gaps      []gapRow
	Lengths   []lengthRow
	Timeouts  []timeoutRow
	Errors    []review.Error
	Healed    []string // of each error, how often a retry healed it
	Findings  []findingRow
	All       phrase // all findings of the task
	API       string
}

type answerRow struct {
	ID      string
	Glyph   glyph
	Asks    string
	Says    string
	Numbers []numberRow
}

type numberRow struct{ Name, Value string }

type gapRow struct{ Attempt, Count, Low, Median, High string }

type lengthRow struct{ Name, Count, P50, P95, P99, Max string }

type timeoutRow struct {
	Name  string
	After string
	Bar   template.HTML
	Says  string
	Tone  string
}

// mostOfTask is how many findings a task's page lists.
const mostOfTask = 10

func (s *Server) taskPage(ctx context.Context, r request) (document, error) {
	name := r.task
	if r.query.Has("name") {
		name = r.query.Get("name")
	}
	q := review.Query{Task: &name}
	filter := view.FindingFilter{Task: name, States: []finding.State{finding.Open, finding.Acknowledged}, Limit: mostOfTask}
	if values := r.query["namespace"]; len(values) > 0 {
		q.Namespace, filter.Namespace = &values[0], &values[0]
	}
	reviews, err := s.lately(ctx, q)
	if err != nil {
		return document{}, err
	}
	var live view.FindingPage
	if name != "" { // an empty filter would choose all
		if live, err = s.store.Findings(ctx, filter); err != nil {
			return document{}, err
		}
	}
	if len(reviews) == 0 && len(live.Items) == 0 {
		return document{}, notFound("No event of a task of that name was seen in the last 7 days, and no finding of it is open.")
	}
	v := taskView{Name: name, All: phrase{Text: "all findings of the task", Href: findingsHref("task", name, "state", "any")}}
	for _, f := range live.Items {
		v.Findings = append(v.Findings, s.findingRow(f))
	}
	if len(reviews) == 0 {
		v.Namespace = live.Items[0].Namespace
		v.Sentence = []phrase{{Text: "no event of it was seen in the last 7 days."}}
		return document{Title: titleOf(name), Section: "tasks", Page: "task", View: v}, nil
	}
	for _, other := range reviews[1:] {
		v.Others = append(v.Others, phrase{Text: cmp.Or(visible(other.Namespace), "the default namespace"), Href: namespaceHref(other.Namespace, name)})
	}
	v.review(&reviews[0])
	return document{Title: titleOf(name), Section: "tasks", Page: "task", View: v}, nil
}

func titleOf(task string) string { return cmp.Or(task, "(no name)") }

// namespaceHref is reviewHref, with a namespace that is told though it is the empty one.
func namespaceHref(namespace, task string) string {
	if namespace != "" {
		return reviewHref(namespace, task)
	}
	href := reviewHref("", task)
	if strings.Contains(href, "?") {
		return href + "&namespace="
	}
	return href + "?namespace="
}

func (v *taskView) review(r *review.Review) {
	v.Namespace = r.Namespace
	v.Sentence = verdictPhrases(r)
	v.Lead = fmt.Sprintf("%s in the last 7 days: %s of %s, %s for each first run.", measuredText(r.Sample), plural(r.Runs, "run"), plural(r.IDs, "task id"),
		ratioText(r.PerFirstRun(), "retry", "retries"))
	query := url.Values{"task": {r.Task}, "namespace": {r.Namespace}}
	v.API = "/api/v1/reviews?" + query.Encode()
	for _, a := range r.Answers {
		row := answerRow{ID: string(a.Question), Glyph: verdictGlyph(r, a), Asks: a.Asks, Says: a.Says}
		for _, n := range a.Numbers {
			row.Numbers = append(row.Numbers, numberText(n))
		}
		v.Answers = append(v.Answers, row)
	}
	v.Course = gapCourse(r.Course)
	for _, g := range r.Gaps {
		v.Gaps = append(v.Gaps, gapRow{number(g.Attempt), number(g.Count), review.Length(g.Low), review.Length(g.Median), review.Length(g.High)})
	}
	for _, l := range []struct {
		name string
		review.Lengths
	}{{"run, from start to end", r.Took}, {"held, from arrival to acknowledgement", r.Held}} {
		if l.Count > 0 {
			v.Lengths = append(v.Lengths, lengthRow{l.name, number(l.Count), review.Length(l.P50), review.Length(l.P95), review.Length(l.P99), review.Length(l.Max)})
		}
	}
	if r.Took.Count > 0 {
		for i := range r.Timeouts {
			v.Timeouts = append(v.Timeouts, timeoutOf(r, &r.Timeouts[i]))
		}
	}
	v.Errors = r.Errors
	for _, e := range r.Errors {
		v.Healed = append(v.Healed, shareText(e.Healed, e.IDs))
	}
}

// timeoutOf sets how long the task's runs take against a time-out.
func timeoutOf(r *review.Review, t *review.Against) timeoutRow {
	row := timeoutRow{Name: t.Name, After: review.Length(t.After.Seconds()), Tone: "quiet"}
	longest := r.Longest()
	switch {
	case !t.Holds():
		row.Says = fmt.Sprintf("does not hold here: %s outlasted it, and none was delivered again", plural(t.Over, "task id"))
	case t.Over > 0:
		row.Says, row.Tone = fmt.Sprintf("outlasted by %s, %s delivered again", plural(t.Over, "task id"), number(t.Again)), "warn"
	default:
		row.Says = fmt.Sprintf("%s left", review.Length((t.After - longest).Seconds()))
		if review.Near(longest, t.After) {
			row.Tone = "warn"
		}
	}
	row.Bar = marginBar(r.Longer(), t.After.Seconds(), row.Tone, "longest "+review.Length(longest.Seconds())+" of "+row.After)
	return row
}

// verdictPhrases say what a review comes to.
func verdictPhrases(r *review.Review) []phrase {
	bad := r.Count(review.Bad)
	if bad == 0 {
		return []phrase{{Text: fmt.Sprintf("no answer of %d is bad; %s too little was seen.", len(r.Answers), ofText(r.Count(review.NotSeen)))}}
	}
	verb := "are"
	if bad == 1 {
		verb = "is"
	}
	return []phrase{{Text: fmt.Sprintf("%d of %d answers", bad, len(r.Answers)), Tone: "warn"}, {Text: fmt.Sprintf(" %s bad; %s too little was seen.", verb, ofText(r.Count(review.NotSeen)))}}
}

func ofText(n int) string {
	if n == 0 {
		return "of none"
	}
	return "of " + number(n)
}

// verdictGlyph is the sign of an answer. Red is for effects beyond the first.
func verdictGlyph(r *review.Review, a review.Answer) glyph {
	switch {
	case a.Verdict == review.Bad && a.Question == review.Repeats && r.Extra() > 0:
		return glyph{"bad", "bad"}
	case a.Verdict == review.Bad:
		return glyph{"bad", "warn"}
	case a.Verdict == review.NotSeen:
		return glyph{"not seen", "quiet"}
	}
	return glyph{"good", "quiet"}
}

func measuredText(s review.Sample) string {
	if s.OneIn > 1 {
		return fmt.Sprintf("Measured on 1 key in %s, %s", number(s.OneIn), plural(s.Events, "event"))
	}
	return fmt.Sprintf("Measured on every key, %s", plural(s.Events, "event"))
}

// numberText is a number that an answer rests on, in words.
func numberText(n review.Number) numberRow {
	if name, ok := strings.CutSuffix(n.Name, "_seconds"); ok {
		return numberRow{plain(name), review.Length(n.Value)}
	}
	if n.Name == "spread" || n.Name == "of_timeout" {
		return numberRow{plain(n.Name), fmt.Sprintf("%.1f %%", 100*n.Value)}
	}
	if n.Value == float64(int64(n.Value)) {
		return numberRow{plain(n.Name), number(int64(n.Value))}
	}
	return numberRow{plain(n.Name), fmt.Sprintf("%.2f", n.Value)}
}

func shareText(part, whole int) string {
	if whole == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(whole))
}

func ratioText(f float64, one, many string) string {
	text := fmt.Sprintf("%.2f", f)
	if text == "1.00" {
		return text + " " + one
	}
	return text + " " + many
}
