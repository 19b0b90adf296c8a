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
	counts   []view.FindingCount // of those that alarm
	silenced int                 // unresolved findings that do not
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
		Figures:  []figure{s.effectsFigure(f), s.retriesFigure(f), s.stuckFigure(f), s.eventsFigure(f), s.lagFigure(ctx), s.proofFigure(ctx)},
		Sentence: s.nowSentence(f), Calm: f.open.Total == 0,
	}
	for _, w := range windows {
		v.Windows = append(v.Windows, windowLink{Text: w.words, Href: "/?window=" + w.name, Current: w == f.window})
	}
	for _, c := range f.changes {
		logged := s.logRow(c.Change)
		v.Changes = append(v.Changes, changeRow{logRow: logged, Title: c.Title, Href: "/findings/" + url.PathEscape(c.FindingID),
			Tone: toneOf(c.Rule, c.Severity, c.To)})
		row := &v.Changes[len(v.Changes)-1]
		if what := c.What(); what != finding.Found && what != finding.Reopen {
			row.Tone = "quiet" // somebody sees to it
		}
		if c.What() == finding.Assign {
			row.Word, row.Note = "assigned", assignedTo(c.Change)
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
	group.Go(func() (err error) { f.counts, f.silenced, err = s.alarms(ctx); return err })
	group.Go(func() (err error) { f.changes, err = s.store.Changes(ctx, mostChanges); return err })
	group.Go(func() (err error) {
		live := []finding.State{finding.Open, finding.Acknowledged}
		f.open, err = s.store.Findings(ctx, view.FindingFilter{States: live, Silenced: new(false), Fold: true, Order: view.BySeverity, Limit: mostOnNow})
		return err
	})
	return f, group.Wait()
}

func (s *Server) readActivity(ctx context.Context, f *facts) (err error) {
	f.activity, err = s.store.Activity(ctx, s.now().Add(-2*f.window.length), f.window.slot)
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
			Href: findingsHref("rule", ruleRepeated, "state", "any", "severity", "critical", "silenced", "any", "since", f.window.name)},
			phrase{Text: " in " + f.window.words + ": " + topTasks(byTask, 2) + "."})
	}
	open, incidents, oldest := 0, 0, time.Time{}
	for _, c := range f.counts {
		if c.State == finding.Open && !c.Folded {
			open += c.Count
			if c.Rule == ruleIncident {
				incidents += c.Count
			}
			if oldest.IsZero() || c.Oldest.Before(oldest) {
				oldest = c.Oldest
			}
		}
	}
	if open == 0 {
		out = append(out, phrase{Text: " No open findings."})
	} else {
		out = append(out, phrase{Text: " "}, phrase{Text: plural(open, "open finding"), Href: findingsHref("state", "open")})
		if incidents > 0 {
			out = append(out, phrase{Text: ", "}, phrase{Text: plural(incidents, "of them an incident", "of them incidents"), Href: findingsHref("rule", ruleIncident, "state", "open")})
		}
		out = append(out, phrase{Text: ", the oldest " + s.when(oldest).Ago + "."})
	}
	if f.silenced > 0 {
		out = append(out, phrase{Text: " "}, phrase{Text: number(f.silenced) + " silenced", Href: findingsHref("silenced", "yes")}, phrase{Text: "."})
	}
	return out
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

// assignedTo says to whom a finding was assigned, and why.
func assignedTo(c finding.Change) string {
	text := "to nobody"
	if c.Assignee != "" {
		text = "to " + visible(c.Assignee)
	}
	if c.Note != "" {
		text += ", " + c.Note
	}
	return text
}

// changeWord says what was done to a finding.
func changeWord(c finding.Change) string {
	switch what := c.What(); {
	case what == finding.Assign:
		return "assigned " + assignedTo(finding.Change{Assignee: c.Assignee})
	case what == finding.Found:
		return "found"
	case c.From == c.To:
		return "comment"
	case c.To == finding.Open:
		return "reopened"
	}
	return string(c.To)
}
