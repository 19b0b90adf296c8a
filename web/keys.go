package web

import (
	"context"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"time"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
	"auditor/event/view"
	"auditor/web/timeline"
)

// historyView is what is known of one key or task id: the drawing, the same as a table, and the events themselves.
type historyView struct {
	Wide, Narrow template.HTML
	Note         string // said when the drawing leaves something out
	Rows         []runRow
	Runs         int // how many there are, listed or not
	Workers      int // that held them
	Extra        int // effects beyond the first in all of them
	Events       []eventRow
	All          int    // how many events there are, listed or not
	Folded       bool   // the list is long, and opened when asked for
	Cut          string // said when there are more events than are read
	Repeats      int
	anchors      map[string]bool
}

func (h *historyView) has(anchor string) bool { return h != nil && h.anchors[anchor] }

type runRow struct {
	timeline.Row
	Begin   when
	Effects []effectRow
	Href    string
}

type effectRow struct{ Text, Class, Href string }

// eventRow is one event, with its raw form folded away.
type eventRow struct {
	Anchor string
	Clock  string
	When   when
	Type   string
	Worker string
	TaskID string
	Href   string // page of the task id
	Says   string
	Raw    string
}

// anchorOf names an event within a page.
func anchorOf(p event.Position) string {
	text := "e-" + url.PathEscape(p.Topic) + "-" + strconv.Itoa(int(p.Partition)) + "-" + strconv.FormatInt(p.Offset, 10)
	if p.Index > 0 {
		text += "-" + strconv.Itoa(int(p.Index))
	}
	return text
}

const (
	wideDrawing   = 1000
	narrowDrawing = 360
	mostRows      = 200 // runs and events that a page lists
	foldEvents    = 60  // events beyond which their list is folded away
)

// historyView draws a history. The findings about it name time-outs that its gaps fit.
func (s *Server) historyView(ctx context.Context, subject history.Subject, events []event.Event, findings []finding.Finding) (*historyView, error) {
	h := history.Build(subject, events)
	heard, err := s.heard(ctx, h)
	if err != nil {
		return nil, err
	}
	v := &historyView{Repeats: h.Repeats, anchors: map[string]bool{}}
	if len(events) >= s.config.KeyEvents {
		v.Cut = fmt.Sprintf("Only the newest %s events are read (web.key_events).", number(len(events)))
	}
	s.drawHistory(v, h, heard, findings)
	cited := map[string]bool{}
	for _, f := range findings {
		for _, e := range f.Evidence {
			cited[anchorOf(event.Position{Topic: e.Topic, Partition: e.Partition, Offset: e.Offset, Index: e.Index})] = true
		}
	}
	for i, e := range h.Events {
		if anchor := anchorOf(e.Position); i < mostRows || cited[anchor] {
			v.Events = append(v.Events, s.eventRow(e))
			v.anchors[anchor] = true
		}
	}
	v.All, v.Folded = len(h.Events), len(v.Events) > foldEvents
	if more := len(h.Events) - len(v.Events); more > 0 {
		v.Cut += fmt.Sprintf(" %s are not listed here.", plural(more, "further event"))
	}
	return v, nil
}

// drawHistory draws the history twice, for wide and for narrow screens; the style sheet shows one.
func (s *Server) drawHistory(v *historyView, h *history.History, heard []history.Signal, findings []finding.Finding) {
	link := func(e *event.Event) string { return "#" + anchorOf(e.Position) }
	options := timeline.Options{ID: "w", Width: wideDrawing, Zone: s.zone, Link: link, Heard: heard, Now: s.now(), TimeOuts: timeOuts(findings)}
	wide := timeline.New(h, options)
	options.ID, options.Width = "n", narrowDrawing
	narrow := timeline.New(h, options)
	v.Wide, v.Narrow = template.HTML(wide.SVG()), template.HTML(narrow.SVG()) //nolint:gosec // the drawing escapes what it writes
	if drawn, all, left := wide.Summary(); left {
		v.Note = fmt.Sprintf("%s of %s runs are drawn: the first, the last and the densest stretch.", number(drawn), number(all))
	}
	v.Runs = len(h.Runs)
	workers := map[string]bool{}
	for i, row := range wide.Rows() {
		workers[row.Worker] = true
		for _, e := range row.Effects {
			if e.Class == "extra" {
				v.Extra++
			}
		}
		if i >= mostRows {
			continue
		}
		run := runRow{Row: row, Begin: s.when(row.Begin), Href: taskHref(row.TaskID)}
		for _, e := range row.Effects {
			run.Effects = append(run.Effects, effectRow{Text: e.Text, Class: e.Class, Href: link(e.Event)})
		}
		v.Rows = append(v.Rows, run)
	}
	v.Workers = len(workers)
}

// heardSpan is the longest stretch for which the workers' signs of life are drawn: beyond it they are too many, and say
// nothing at that scale.
const heardSpan = 6 * time.Hour

// heard gives when the workers of a history were heard of while it went on, and a little longer, so that it shows who
// fell silent.
func (s *Server) heard(ctx context.Context, h *history.History) ([]history.Signal, error) {
	var workers []string
	for _, r := range h.Runs {
		if r.Worker != "" && !slices.Contains(workers, r.Worker) {
			workers = append(workers, r.Worker)
		}
	}
	if len(workers) == 0 || len(workers) > mostListed {
		return nil, nil
	}
	from, until := h.Events[0].Time, h.Events[len(h.Events)-1].Time
	if until.Sub(from) > heardSpan {
		return nil, nil
	}
	signals, err := s.store.Heard(ctx, h.Subject.Namespace, workers, from, until)
	return joined(signals), err
}

// stillHeard is how long a worker may keep silent between two signs of life and still count as heard of all along: a few
// of the heartbeats that Celery sends every two seconds, or one of those that others send every ten.
const stillHeard = 12 * time.Second

// joined makes one stretch of the slices of a worker between which it did not fall silent.
func joined(signals []history.Signal) []history.Signal {
	last := map[string]int{}
	var out []history.Signal
	for _, next := range signals {
		i, seen := last[next.Worker]
		if seen && next.First.Sub(out[i].Last) <= stillHeard {
			if next.Last.After(out[i].Last) {
				out[i].Last = next.Last
			}
			continue
		}
		last[next.Worker] = len(out)
		out = append(out, next)
	}
	return out
}

// timeOuts are those that the rules found gaps between deliveries to fit.
func timeOuts(findings []finding.Finding) []timeline.TimeOut {
	var named []timeline.TimeOut
	for _, f := range findings {
		name, _ := f.Fields["timeout"].(string)
		gap, _ := f.Fields["gap_seconds"].(float64)
		if name != "" && gap > 0 {
			named = append(named, timeline.TimeOut{Name: name, Gap: time.Duration(gap * float64(time.Second))})
		}
	}
	return named
}

func (s *Server) eventRow(e *event.Event) eventRow {
	return eventRow{
		Anchor: anchorOf(e.Position), Clock: s.precise(e.Time), When: s.when(e.Time), Type: plain(string(e.Type)),
		Worker: e.Worker, TaskID: e.TaskID, Href: taskHref(e.TaskID), Says: says(e), Raw: visibleText(eventText(e)),
	}
}

// says is what an event tells beside its type, in a few words.
func says(e *event.Event) string {
	switch {
	case e.Effect != nil && e.Effect.Deduplicated:
		return e.Effect.Name + ", dropped as a copy"
	case e.Effect != nil && e.Effect.IdempotencyKey != "":
		return e.Effect.Name + " under " + e.Effect.IdempotencyKey
	case e.Effect != nil:
		return e.Effect.Name
	case e.Error != nil && e.Error.Message != "":
		return e.Error.Type + ": " + e.Error.Message
	case e.Error != nil:
		return e.Error.Type
	case e.Skip != nil:
		return plain(e.Skip.Reason)
	case e.Redelivered != nil && *e.Redelivered:
		return "redelivered"
	case e.Retries > 0:
		return "retry " + strconv.Itoa(e.Retries)
	}
	return ""
}

// keyView is a business key or a task id with its whole history.
type keyView struct {
	Kind      string // business key, or task id
	Name      string
	Namespace string
	Task      string
	Sentence  []phrase
	Leads     []phrase // from a task id to the keys it belongs to
	Findings  []findingRow
	History   *historyView
	API       string
}

func (s *Server) keyPage(ctx context.Context, r request) (document, error) {
	key := r.query.Get("key")
	if key == "" {
		return document{}, badRequest("key: say which business key, as in /keys?key=order:42")
	}
	subject := history.Subject{Namespace: r.query.Get("namespace"), BusinessKey: key}
	events, err := s.store.SubjectEvents(ctx, subject, s.config.KeyEvents)
	if err != nil {
		return document{}, err
	}
	v := keyView{Kind: "business key", Name: key, Namespace: subject.Namespace,
		API: "/api/v1/keys?" + url.Values{"business_key": {key}, "namespace": {subject.Namespace}}.Encode()}
	return s.subjectPage(ctx, subject, events, v, view.FindingFilter{BusinessKey: key, Namespace: &subject.Namespace, Limit: mostListed})
}

// taskIDPage shows one task id, and leads to the business keys it belongs to: their pages have the other copies too.
func (s *Server) taskIDPage(ctx context.Context, r request) (document, error) {
	id := r.query.Get("id")
	if id == "" {
		return document{}, badRequest("id: say which task id, as in /tasks/id?id=7c9e")
	}
	events, err := s.store.TaskEvents(ctx, id, s.config.KeyEvents)
	if err != nil {
		return document{}, err
	}
	subject := history.Subject{TaskID: id}
	v := keyView{Kind: "task id", Name: id, API: "/api/v1/events?" + url.Values{"task_id": {id}}.Encode()}
	for _, e := range events {
		subject.Namespace = e.Namespace
		lead := phrase{Text: e.BusinessKey, Href: keyHref(e.Namespace, e.BusinessKey)}
		if e.BusinessKey != "" && !slices.Contains(v.Leads, lead) {
			v.Leads = append(v.Leads, lead)
		}
	}
	v.Namespace = subject.Namespace
	return s.subjectPage(ctx, subject, events, v, view.FindingFilter{Task: id, Limit: mostListed})
}

func (s *Server) subjectPage(ctx context.Context, subject history.Subject, events []event.Event, v keyView, filter view.FindingFilter) (document, error) {
	if len(events) == 0 {
		return document{}, notFound("Nothing is known of the " + v.Kind + " " + visible(subject.String()) + ".")
	}
	page, err := s.store.Findings(ctx, filter)
	if err != nil {
		return document{}, err
	}
	if v.History, err = s.historyView(ctx, subject, events, page.Items); err != nil {
		return document{}, err
	}
	v.Findings = s.findingRows(page.Items)
	v.Sentence = subjectSentence(v, page.Total)
	if len(v.History.Rows) > 0 {
		v.Task = v.History.Rows[0].Task
	}
	return document{Title: subject.String(), Section: "findings", Page: "key", View: v}, nil
}

func subjectSentence(v keyView, findings int) []phrase {
	h := v.History
	sentence := []phrase{{Text: plural(h.Runs, "run") + " on " + plural(h.Workers, "worker")}}
	if h.Extra > 0 {
		sentence = append(sentence, phrase{Text: ", "}, phrase{Text: plural(h.Extra, "effect") + " beyond the first", Tone: "bad"})
	} else {
		sentence = append(sentence, phrase{Text: ", nothing done twice"})
	}
	if findings > 0 {
		sentence = append(sentence, phrase{Text: "; "}, phrase{Text: plural(findings, "finding"), Href: "#findings"})
	}
	return append(sentence, phrase{Text: "."})
}
