package web

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"auditor/event/finding"
	"auditor/event/view"
)

// tally is a count by name.
type tally struct {
	name  string
	count int
}

// ranked orders counts, the largest first.
func ranked(counts map[string]int) []tally {
	list := make([]tally, 0, len(counts))
	for name, n := range counts {
		if n > 0 {
			list = append(list, tally{name, n})
		}
	}
	slices.SortFunc(list, func(a, b tally) int { return cmp.Or(cmp.Compare(b.count, a.count), strings.Compare(a.name, b.name)) })
	return list
}

// topTasks names the tasks with the largest counts, and one more rather than to speak of one other.
func topTasks(counts map[string]int, most int) string {
	list := ranked(counts)
	if len(list) == most+1 {
		most++
	}
	named := list[:min(most, len(list))]
	var parts []string
	for _, t := range named {
		parts = append(parts, fmt.Sprintf("%s by %s", number(t.count), cmp.Or(visible(t.name), "tasks without a name")))
	}
	if others := list[len(named):]; len(others) > 0 {
		rest := 0
		for _, t := range others {
			rest += t.count
		}
		parts = append(parts, fmt.Sprintf("%s by %s", number(rest), plural(len(others), "other task")))
	}
	return strings.Join(parts, ", ")
}

func sumExtra(extra []view.ExtraEffects) (total int, byTask map[string]int) {
	byTask = map[string]int{}
	for _, e := range extra {
		total += e.Extra - e.Guarded
		byTask[e.Task] += e.Extra - e.Guarded
	}
	return total, byTask
}

// slotsOf spreads values over the slots of the window, the newest last.
func (s *Server) slotsOf(w window) (values []float64, index func(time.Time) int) {
	values = make([]float64, int(w.length/w.slot))
	first := s.now().Add(-w.length).Truncate(w.slot).Add(w.slot)
	return values, func(slot time.Time) int { return int(slot.Sub(first) / w.slot) }
}

func add(values []float64, i int, n float64) {
	if i >= 0 && i < len(values) {
		values[i] += n
	}
}

func (s *Server) effectsFigure(f facts) figure {
	values, index := s.slotsOf(f.window)
	guarded := 0
	for _, e := range f.extra {
		add(values, index(e.Slot), float64(e.Extra-e.Guarded))
		guarded += e.Guarded
	}
	total, byTask := sumExtra(f.extra)
	href := findingsHref("rule", ruleRepeated, "state", "any", "silenced", "any", "since", f.window.name)
	fig := figure{Name: "effects beyond the first", Href: href, Spark: sparkline(values, "bad", "effects beyond the first, "+f.window.words)}
	tone := ""
	if total > 0 {
		tone = "bad"
	}
	fig.Says = append(fig.Says, phrase{Text: number(total), Href: href + "&severity=critical", Tone: tone})
	for i, t := range ranked(byTask) {
		if i == 3 {
			break
		}
		fig.Says = append(fig.Says, phrase{Text: visible(t.name) + " " + number(t.count),
			Href: findingsHref("rule", ruleRepeated, "state", "any", "silenced", "any", "since", f.window.name, "task", t.name)})
	}
	if guarded > 0 {
		fig.Says = append(fig.Says, phrase{Text: number(guarded) + " under one idempotency key", Href: href + "&severity=warning", Tone: "warn"})
	}
	return fig
}

func (s *Server) retriesFigure(f facts) figure {
	runs, index := s.slotsOf(f.window)
	retries, _ := s.slotsOf(f.window)
	byTask := map[string]int{}
	var now, before struct{ runs, retries float64 }
	for _, a := range f.activity {
		i := index(a.Slot)
		firsts := float64(firstRuns(a.Runs, a.Retries))
		if i < 0 {
			before.runs += firsts
			before.retries += float64(a.Retries)
			continue
		}
		add(runs, i, firsts)
		add(retries, i, float64(a.Retries))
		now.runs += firsts
		now.retries += float64(a.Retries)
		byTask[a.Task] += a.Retries
	}
	for i := range retries {
		if runs[i] > 0 {
			retries[i] /= runs[i]
		}
	}
	fig := figure{Name: "retries per first run", Href: "/tasks", Spark: sparkline(retries, "warn", "retries per first run, "+f.window.words)}
	text := ratio(now.retries, now.runs)
	if before.runs > 0 {
		text += ", before " + ratio(before.retries, before.runs)
	}
	fig.Says = []phrase{{Text: text, Href: "/tasks"}}
	for i, t := range ranked(byTask) {
		if i == 3 {
			break
		}
		fig.Says = append(fig.Says, phrase{Text: visible(t.name) + " " + number(t.count), Href: findingsHref("task", t.name, "state", "any"), Tone: "quiet"})
	}
	storms := countOf(f.counts, ruleStorm)
	if storms > 0 {
		fig.Says = append(fig.Says, phrase{Text: plural(storms, "storm"), Href: findingsHref("rule", ruleStorm), Tone: "warn"})
	}
	return fig
}

func ratio(a, b float64) string {
	if b == 0 {
		return "none"
	}
	return fmt.Sprintf("%.2f", a/b)
}

// countOf is how many findings of a rule are open or acknowledged.
func countOf(counts []view.FindingCount, rule string) (n int) {
	for _, c := range counts {
		if c.Rule == rule && c.State != finding.Resolved {
			n += c.Count
		}
	}
	return n
}

func (s *Server) stuckFigure(f facts) figure {
	n, oldest := countOf(f.counts, ruleStuck), time.Time{}
	for _, c := range f.counts {
		if c.Rule == ruleStuck && c.State != finding.Resolved && (oldest.IsZero() || c.Oldest.Before(oldest)) {
			oldest = c.Oldest
		}
	}
	href := findingsHref("rule", ruleStuck)
	fig := figure{Name: "stuck", Href: href, Says: []phrase{{Text: number(n), Href: href}}}
	if n > 0 {
		fig.Says[0].Tone = "warn"
		fig.Says = append(fig.Says, phrase{Text: "the oldest for " + rough(s.now().Sub(oldest)), Href: findingsHref("rule", ruleStuck, "sort", "oldest"), Tone: "quiet"})
	}
	return fig
}

func (s *Server) eventsFigure(f facts) figure {
	values, index := s.slotsOf(f.window)
	for _, a := range f.activity {
		add(values, index(a.Slot), float64(a.Events)/f.window.slot.Seconds())
	}
	fig := figure{Name: "events a second", Href: "/evidence", Spark: sparkline(values, "", "events a second, "+f.window.words)}
	// The slot that has begun is not over: the rate is that of the last whole slot and what there is of this one.
	last := len(values) - 1
	begun := max(s.now().Sub(s.now().Truncate(f.window.slot)).Seconds(), 1)
	rate := (values[last] + values[last-1]) * f.window.slot.Seconds() / (begun + f.window.slot.Seconds())
	fig.Says = []phrase{{Text: figureText(rate), Href: "/evidence"}}
	return fig
}

func figureText(f float64) string {
	if f >= 100 {
		return number(int(f + 0.5))
	}
	return fmt.Sprintf("%.1f", f)
}

func (s *Server) lagFigure(ctx context.Context) figure {
	fig := figure{Name: "ingest lag", Href: "/evidence"}
	partitions, err := s.partitions(ctx)
	if err != nil || len(partitions) == 0 {
		fig.Says = []phrase{{Text: "not known", Tone: "quiet", Href: "/evidence"}}
		return fig
	}
	var lag int64
	for _, p := range partitions {
		lag += p.Lag
	}
	fig.Says = []phrase{{Text: plural(int(lag), "record"), Href: "/evidence"},
		{Text: plural(len(partitions), "partition"), Href: "/evidence", Tone: "quiet"}}
	line := s.evidence(ctx)
	if line.Tone != "" {
		fig.Says[0].Tone = "warn"
	}
	return fig
}
