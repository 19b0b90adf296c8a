package web

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"time"

	"auditor/event/finding"
	"auditor/event/view"

	"golang.org/x/sync/errgroup"
)

// window is a stretch of time up to now that figures are counted in, cut into slots that a sparkline draws.
type window struct {
	name   string // in the address
	words  string // "in the last hour"
	length time.Duration
	slot   time.Duration
}

var windows = []window{
	{"1h", "the last hour", time.Hour, time.Minute},
	{"24h", "the last 24 hours", 24 * time.Hour, 30 * time.Minute},
	{"168h", "the last 7 days", 168 * time.Hour, 2 * time.Hour},
}

// youngUntil is how old the evidence must be before a day is shown rather than an hour.
const youngUntil = 3 * time.Hour

// nowView is the first page: one sentence, then what it rests on.
type nowView struct {
	Sentence []phrase
	Windows  []windowLink
	Figures  []figure
	Rules    []ruleRow
	Findings []findingRow
	More     int // open findings beyond those listed
	Changes  []changeRow
	Calm     bool // nothing is open: the lists give way to a sentence
}

type windowLink struct {
	Text, Href string
	Current    bool
}

// figure is a row of the first page: a name, its course, and what it comes to.
type figure struct {
	Name  string
	Href  string
	Spark template.HTML
	Says  []phrase
}

type ruleRow struct {
	Name, Href string
	Counts     [3]phrase // critical, warning, info
	Oldest     when
}

type changeRow struct {
	logRow
	Title string
	Href  string
	Tone  string
}

// facts are what the first page is drawn from.
type facts struct {
	window   window
	counts   []view.FindingCount
	extra    []view.ExtraEffects
	activity []view.Activity // of the window and of the one before it
	open     view.FindingPage
	changes  []view.LoggedChange
}

const (
	mostOnNow   = 12 // findings listed on the first page
	mostChanges = 10
)

func (s *Server) nowPage(ctx context.Context, r request) (document, error) {
	f, err := s.nowFacts(ctx, r.query.Get("window"))
	if err != nil {
		return document{}, err
	}
	v := nowView{
		Findings: s.findingRows(f.open.Items), More: f.open.Total - len(f.open.Items), Rules: s.ruleRows(f.counts),
		Figures:  []figure{s.effectsFigure(f), s.retriesFigure(f), s.stuckFigure(f), s.eventsFigure(f), s.lagFigure(ctx)},
		Sentence: s.nowSentence(f), Calm: f.open.Total == 0,
	}
	for _, w := range windows {
		v.Windows = append(v.Windows, windowLink{Text: w.words, Href: "/?window=" + w.name, Current: w == f.window})
	}
	for _, c := range f.changes {
		logged := s.logRow(c.Change)
		v.Changes = append(v.Changes, changeRow{logRow: logged, Title: c.Title, Href: "/findings/" + url.PathEscape(c.FindingID),
			Tone: toneOf(c.Rule, c.Severity, c.To)})
		if c.To == finding.Acknowledged {
			v.Changes[len(v.Changes)-1].Tone = "quiet" // somebody sees to it
		}
	}
	return document{Title: "Now", Section: "now", Page: "now", View: v}, nil
}

func (s *Server) nowFacts(ctx context.Context, name string) (facts, error) {
	f := facts{}
	i := slices.IndexFunc(windows, func(w window) bool { return w.name == cmp.Or(name, "24h") })
	if i < 0 {
		return f, badRequest(fmt.Sprintf("window: must be 1h, 24h or 168h, got %q", name))
	}
	f.window = windows[i]
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		if err = s.readActivity(ctx, &f); err == nil && name == "" && young(f.activity, s.now()) {
			f.window = windows[0]
			err = s.readActivity(ctx, &f)
		}
		if err == nil {
			f.extra, err = s.store.ExtraEffects(ctx, s.now().Add(-f.window.length), f.window.slot)
		}
		return err
	})
	group.Go(func() (err error) { f.counts, err = s.findingCounts(ctx); return err })
	group.Go(func() (err error) { f.changes, err = s.store.Changes(ctx, mostChanges); return err })
	group.Go(func() (err error) {
		live := []finding.State{finding.Open, finding.Acknowledged}
		f.open, err = s.store.Findings(ctx, view.FindingFilter{States: live, Order: view.BySeverity, Limit: mostOnNow})
		return err
	})
	return f, group.Wait()
}

func (s *Server) readActivity(ctx context.Context, f *facts) (err error) {
	f.activity, err = s.store.Activity(ctx, s.now().Add(-2*f.window.length), f.window.slot)
	named := map[string]bool{}
	for _, a := range f.activity {
		named[a.Namespace] = named[a.Namespace] || a.Task != ""
	}
	for i, a := range f.activity {
		if a.Task == "" && named[a.Namespace] {
			f.activity[i].Runs = 0 // what tells no name was delivered under one, and is counted there
		}
	}
	return err
}

func young(activity []view.Activity, now time.Time) bool {
	return !slices.ContainsFunc(activity, func(a view.Activity) bool { return now.Sub(a.Slot) > youngUntil })
}

// nowSentence answers the page's question: is anything being done twice, and is anything else wrong?
func (s *Server) nowSentence(f facts) []phrase {
	extra, byTask := sumExtra(f.extra)
	var out []phrase
	if extra == 0 {
		out = append(out, phrase{Text: "Nothing was done twice in " + f.window.words + "."})
	} else {
		out = append(out, phrase{Text: plural(extra, "effect") + " beyond the first", Tone: "bad",
			Href: findingsHref("rule", ruleRepeated, "state", "any", "severity", "critical", "since", f.window.name)},
			phrase{Text: " in " + f.window.words + ", " + topTasks(byTask, 2) + "."})
	}
	open, oldest := 0, time.Time{}
	for _, c := range f.counts {
		if c.State == finding.Open {
			open += c.Count
			if oldest.IsZero() || c.Oldest.Before(oldest) {
				oldest = c.Oldest
			}
		}
	}
	if open == 0 {
		return append(out, phrase{Text: " No open findings."})
	}
	return append(out, phrase{Text: " "}, phrase{Text: plural(open, "open finding"), Href: findingsHref("state", "open")},
		phrase{Text: ", the oldest " + s.when(oldest).Ago + "."})
}

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

func topTasks(counts map[string]int, most int) string {
	list := ranked(counts)
	var parts []string
	for _, t := range list[:min(most, len(list))] {
		parts = append(parts, fmt.Sprintf("%s by %s", number(t.count), cmp.Or(visible(t.name), "tasks without a name")))
	}
	if more := len(list) - most; more > 0 {
		parts = append(parts, "others by "+plural(more, "more task"))
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
	href := findingsHref("rule", ruleRepeated, "state", "any", "since", f.window.name)
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
			Href: findingsHref("rule", ruleRepeated, "state", "any", "since", f.window.name, "task", t.name)})
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
	if s.options.IngestStatus == nil {
		fig.Says = []phrase{{Text: "ingest runs elsewhere", Tone: "quiet", Href: "/evidence"}}
		return fig
	}
	var lag int64
	partitions := s.partitions()
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

// ruleRows count the live findings of each rule by severity, the gravest rule first.
func (s *Server) ruleRows(counts []view.FindingCount) []ruleRow {
	severities := []finding.Severity{finding.Critical, finding.Warning, finding.Info}
	type sums struct {
		by     [3]int
		oldest time.Time
	}
	byRule := map[string]*sums{}
	var names []string
	for _, c := range counts {
		if c.State == finding.Resolved || c.Count == 0 {
			continue
		}
		sum := byRule[c.Rule]
		if sum == nil {
			sum = &sums{oldest: c.Oldest}
			byRule[c.Rule] = sum
			names = append(names, c.Rule)
		}
		if i := slices.Index(severities, c.Severity); i >= 0 {
			sum.by[i] += c.Count
		}
		if c.Oldest.Before(sum.oldest) {
			sum.oldest = c.Oldest
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		x, y := byRule[a].by, byRule[b].by
		return cmp.Or(cmp.Compare(y[0], x[0]), cmp.Compare(y[1], x[1]), cmp.Compare(y[2], x[2]), strings.Compare(a, b))
	})
	rows := make([]ruleRow, 0, len(names))
	for _, name := range names {
		row := ruleRow{Name: ruleName(name), Href: findingsHref("rule", name), Oldest: s.when(byRule[name].oldest)}
		for i, n := range byRule[name].by {
			if n > 0 {
				row.Counts[i] = phrase{Text: number(n), Href: findingsHref("rule", name, "severity", string(severities[i])),
					Tone: toneOf(name, severities[i], finding.Open)}
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func changeWord(c finding.Change) string {
	switch {
	case c.From == "":
		return "found"
	case c.From == c.To:
		return "note"
	case c.To == finding.Open:
		return "reopened"
	}
	return string(c.To)
}
