package web

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"auditor/event/finding"
	"auditor/event/silence"

	"github.com/labstack/echo/v4"
)

// silencesView is the list of silences.
type silencesView struct {
	Sentence []phrase
	Active   []silenceRow
	Over     []silenceRow
}

// silenceRow is a silence in the list.
type silenceRow struct {
	ID       string
	Matchers []silence.Matcher // those that do not fit everything
	Found    phrase            // the findings that it keeps silent
	Until    when
	Clock    string // of Until
	Left     string // how long it still lasts
	Made     when
	By, Note string
	Over     string // how it came to its end
	OverAt   when
	EndNote  string
}

// mostSilences is how many silences a page lists.
const mostSilences = 200

func (s *Server) silencesPage(ctx context.Context, _ request) (document, error) {
	all, err := s.store.Silences(ctx, nil, mostSilences)
	if err != nil {
		return document{}, err
	}
	v := silencesView{}
	_, silenced, err := s.alarms(ctx)
	if err != nil {
		return document{}, err
	}
	for _, one := range all {
		if row := s.silenceRow(one); one.State(s.now()) == silence.Active {
			v.Active = append(v.Active, row)
		} else {
			v.Over = append(v.Over, row)
		}
	}
	v.Sentence = []phrase{{Text: "No finding is silenced."}}
	if len(v.Active) > 0 {
		v.Sentence = []phrase{{Text: plural(len(v.Active), "silence is", "silences are") + " active, and " +
			map[bool]string{true: "keeps ", false: "keep "}[len(v.Active) == 1]},
			{Text: plural(silenced, "finding"), Href: findingsHref("silenced", "yes")}, {Text: " silent."}}
	}
	return document{Title: "Silences", Section: "findings", Page: "silences", View: v}, nil
}

func (s *Server) silenceRow(one silence.Silence) silenceRow {
	row := silenceRow{ID: one.ID, Until: s.when(one.Until), Clock: s.clock(one.Until), Left: rough(one.Until.Sub(s.now())), Made: s.when(one.From), By: one.By, Note: one.Note}
	for _, m := range one.All() {
		if m.Pattern != silence.Any {
			row.Matchers = append(row.Matchers, silence.Matcher{Name: plain(m.Name), Pattern: cmp.Or(m.Pattern, "(default)")})
		}
	}
	switch one.State(s.now()) {
	case silence.Active:
		row.Found = phrase{Text: plural(one.Findings, "finding")}
		if one.Findings > 0 {
			row.Found.Href = findingsHref("silence", one.ID)
		}
	case silence.Ended:
		row.Over, row.OverAt, row.EndNote = "ended by "+one.EndedBy, s.when(one.EndedAt), one.EndedNote
	default:
		row.Over, row.OverAt = "expired", s.when(one.Until)
	}
	return row
}

// newSilenceView is the form that makes a silence.
type newSilenceView struct {
	Problem    string // why the last one was not made
	Typed      map[string]string
	Severities []option
	Namespaces []option
}

// silenceFields are the fields of the form.
var silenceFields = []string{"rule", "task", "namespace", "business_key", "worker", "severity", "until", "by", "note"}

// silenceHref is the form, filled in for a finding. A star in its key fits any text, and so itself.
func silenceHref(f finding.Finding) string {
	q := url.Values{"rule": {f.Rule}, "namespace": {f.Namespace}}
	if f.Task != "" {
		q.Set("task", f.Task)
	}
	if key := f.BusinessKey; key != "" {
		q.Set("business_key", key)
	} else if len(f.TaskIDs) == 1 {
		q.Set("business_key", f.TaskIDs[0])
	}
	return "/silences/new?" + q.Encode()
}

func (s *Server) newSilencePage(ctx context.Context, r request) (document, error) {
	return s.newSilence(ctx, r.query, "", http.StatusOK)
}

func (s *Server) newSilence(ctx context.Context, typed url.Values, problem string, status int) (document, error) {
	values, err := ask(ctx, s.cache, "finding values", shared, s.store.FindingValues)
	if err != nil {
		return document{}, err
	}
	v := newSilenceView{Problem: problem, Typed: map[string]string{}}
	for _, name := range silenceFields {
		v.Typed[name] = typed.Get(name)
	}
	v.Severities = options(typed.Get("severity"), []string{"critical", "warning", "info"}, plain)
	namespace := silence.Any
	if typed.Has("namespace") {
		namespace = typed.Get("namespace")
	}
	v.Namespaces = namespaceOptions(namespace, values.Namespaces)
	return document{Title: "New silence", Section: "findings", Page: "newsilence", View: v, Status: status}, nil
}

// namespaceOptions lists any namespace, the default one, and those that findings have.
func namespaceOptions(chosen string, values []string) []option {
	list := []option{{Value: silence.Any, Text: "any", Chosen: chosen == silence.Any}, {Value: "", Text: "(default)", Chosen: chosen == ""}}
	for _, o := range options(chosen, values, visible) {
		if o.Value != "" && o.Value != silence.Any {
			list = append(list, o)
		}
	}
	return list
}

// silenceAsked is a silence as somebody asks for it.
type silenceAsked struct {
	Rule        string  `json:"rule"`
	Task        string  `json:"task"`
	Namespace   *string `json:"namespace"` // nil: any
	BusinessKey string  `json:"business_key"`
	Worker      string  `json:"worker"`
	Severity    string  `json:"severity"`
	Until       string  `json:"until"`
	By          string  `json:"by"`
	Note        string  `json:"note"`
	Request     string  `json:"request"`
}

// silence reads what was asked for, as of now.
func (a silenceAsked) silence(now time.Time, otherwise string) (silence.Silence, error) {
	one := silence.Silence{
		Matchers: silence.Matchers{Rule: a.Rule, Task: a.Task, Namespace: silence.Any, BusinessKey: a.BusinessKey, Worker: a.Worker,
			Severity: a.Severity}.Filled(),
		From: now, By: cmp.Or(strings.TrimSpace(a.By), otherwise), Note: strings.TrimSpace(a.Note), Request: a.Request,
	}
	if a.Namespace != nil {
		one.Namespace = *a.Namespace
	}
	var err error
	if one.Until, err = silence.ParseUntil(a.Until, now); err != nil {
		return one, invalid(err)
	}
	if err := one.Validate(); err != nil {
		return one, invalid(err)
	}
	return one, nil
}

// addSilence makes a silence that was asked for.
func (s *Server) addSilence(ctx context.Context, asked silenceAsked, otherwise string) (silence.Silence, error) {
	one, err := asked.silence(s.now().UTC(), otherwise)
	if err != nil {
		return one, err
	}
	if one, err = s.store.AddSilence(ctx, one); err != nil {
		return one, refused(err)
	}
	s.cache.forget()
	s.log.Info("silence made", "silence", one.ID, "until", one.Until)
	return one, nil
}

// postSilence takes the form that makes a silence. What it got wrong comes back with what was typed.
func (s *Server) postSilence(c echo.Context) error {
	if err := parsed(c); err != nil {
		return err
	}
	ctx, cancel := s.within(c)
	defer cancel()
	typed := c.Request().PostForm
	asked := silenceAsked{Rule: typed.Get("rule"), Task: typed.Get("task"), BusinessKey: typed.Get("business_key"), Worker: typed.Get("worker"),
		Severity: typed.Get("severity"), Until: typed.Get("until"), By: typed.Get("by"), Note: typed.Get("note")}
	if typed.Has("namespace") {
		asked.Namespace = new(typed.Get("namespace"))
	}
	_, err := s.addSilence(ctx, asked, "web")
	if p := problemOf(err); err != nil && p.Status < http.StatusInternalServerError {
		doc, err := s.newSilence(ctx, typed, p.Message, p.Status)
		if err != nil {
			return err
		}
		drawn, err := s.draw(doc)
		if err != nil {
			return err
		}
		return s.writePage(c, drawn)
	}
	if err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/silences")
}

// postEndSilence takes the button that ends a silence.
func (s *Server) postEndSilence(c echo.Context) error {
	if err := parsed(c); err != nil {
		return err
	}
	if _, err := s.endSilence(c, c.FormValue("by"), c.FormValue("note"), "", "web"); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, "/silences")
}

func (s *Server) endSilence(c echo.Context, by, note, request, otherwise string) (silence.Silence, error) {
	ctx, cancel := s.within(c)
	defer cancel()
	by, note, err := whoAndWhy(by, note, otherwise)
	if err != nil {
		return silence.Silence{}, err
	}
	if err := finding.Words(by, note, request); err != nil {
		return silence.Silence{}, invalid(err)
	}
	one, err := s.store.EndSilence(ctx, c.Param("id"), s.now().UTC(), by, note, request)
	if err == nil {
		s.cache.forget()
		s.log.Info("silence ended", "silence", one.ID)
	}
	return one, err
}
