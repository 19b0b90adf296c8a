package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"

	"github.com/labstack/echo/v4"
)

// findingView is one finding with all that it rests on.
type findingView struct {
	ID          string
	Glyph       glyph
	Title       string
	State       string
	Severity    string
	Rule        phrase
	Cause       string
	Explanation string
	Certainty   phrase        // how sure the auditor is, in a word; empty where nothing is said of it
	Missing     []string      // which evidence would make it sure, a sentence each
	SameCause   phrase        // the incident that it belongs to; empty: none
	Incident    *incidentView // what it stands for; nil: it is none
	Remedy      []string
	Evidence    []chip
	Facts       []fact
	Log         []logRow
	Moves       []move
	Assignee    string
	Silenced    phrase // until when it is silenced; empty: it is not
	Silence     string // address of the form that silences it
	History     *historyView
	HistoryNote string // why there is no history
	API         string
}

// chip is one event that the finding rests on, as a link to its raw form.
type chip struct {
	Says, Type, Worker, Href string
	When                     when
}

type fact struct {
	Name  string
	Items []phrase
	Mono  bool
}

type logRow struct {
	Word, By, Note string
	When           when
}

// move is a button that changes the finding's state.
type move struct{ State, Text string }

var moves = map[finding.State][]move{
	finding.Open:         {{"acknowledged", "Acknowledge"}, {"resolved", "Resolve"}},
	finding.Acknowledged: {{"resolved", "Resolve"}, {"open", "Reopen"}},
	finding.Resolved:     {{"open", "Reopen"}},
}

func (s *Server) findingPage(ctx context.Context, r request) (document, error) {
	f, err := s.store.Finding(ctx, r.id)
	if err != nil {
		return document{}, err
	}
	v, err := s.findingView(ctx, f)
	if err != nil {
		return document{}, err
	}
	return document{Title: f.Title, Section: "findings", Page: "finding", View: v}, nil
}

func (s *Server) findingView(ctx context.Context, f finding.Finding) (*findingView, error) {
	log, err := s.store.FindingLog(ctx, f.ID)
	if err != nil {
		return nil, err
	}
	v := &findingView{
		ID: f.ID, Glyph: glyphOf(f), Title: f.Title, State: string(f.State), Severity: string(f.Severity),
		Rule:        phrase{Text: ruleName(f.Rule), Href: findingsHref("rule", f.Rule)},
		Explanation: f.Explanation, Certainty: certaintyOf(f), Missing: missingOf(f), Remedy: remedies(f.Remedy), Facts: s.facts(f), Moves: moves[f.State],
		Assignee: f.Assignee, Silence: silenceHref(f),
		API: "/api/v1/findings/" + url.PathEscape(f.ID),
	}
	if f.Cause != "" {
		v.Cause = causeName(f.Cause)
	}
	if f.Silenced != nil {
		v.Silenced = phrase{Text: "silenced until " + s.clock(f.Silenced.Until), Href: "/silences#" + url.PathEscape(f.Silenced.ID)}
	}
	for _, change := range log {
		v.Log = append(v.Log, s.logRow(change))
	}
	if v.SameCause, err = s.sameCause(ctx, f); err != nil {
		return nil, err
	}
	if v.Incident, err = s.incidentView(ctx, f); err != nil {
		return nil, err
	}
	subject := history.Subject{Namespace: f.Namespace, BusinessKey: f.BusinessKey}
	if f.BusinessKey == "" && len(f.TaskIDs) == 1 {
		subject.TaskID = f.TaskIDs[0]
	}
	if v.Incident != nil {
		v.HistoryNote = "Each of its findings has a timeline of its own."
	} else if subject.BusinessKey == "" && subject.TaskID == "" {
		v.HistoryNote = "This finding is about many tasks together, so there is no one timeline."
	} else if v.History, err = s.findingHistory(ctx, subject, f); err != nil {
		return nil, err
	}
	if v.History == nil && v.HistoryNote == "" {
		v.HistoryNote = "The events of this key are no longer kept."
	}
	v.Evidence = s.chips(f, v.History)
	return v, nil
}

func (s *Server) logRow(c finding.Change) logRow {
	row := logRow{Word: changeWord(c), By: c.By, Note: c.Note, When: s.when(c.Time)}
	if row.Note == row.Word {
		row.Note = ""
	}
	return row
}

// findingHistory is the history that a finding is about; nil when its events are gone.
func (s *Server) findingHistory(ctx context.Context, subject history.Subject, f finding.Finding) (*historyView, error) {
	events, err := s.store.SubjectEvents(ctx, subject, s.config.KeyEvents)
	if err != nil || len(events) == 0 {
		return nil, err
	}
	return s.historyView(ctx, subject, events, []finding.Finding{f})
}

// chips link each event of the argument to its raw form: on this page where it is listed, and else through the API.
func (s *Server) chips(f finding.Finding, h *historyView) []chip {
	chips := make([]chip, 0, len(f.Evidence))
	for _, e := range f.Evidence {
		c := chip{Says: e.Says, Type: plain(string(e.Type)), Worker: e.Worker, When: s.when(e.Time)}
		anchor := anchorOf(event.Position{Topic: e.Topic, Partition: e.Partition, Offset: e.Offset, Index: e.Index})
		switch {
		case h.has(anchor):
			c.Href = "#" + anchor
		case e.TaskID != "":
			c.Href = taskHref(e.TaskID) + "#" + anchor
		}
		chips = append(chips, c)
	}
	return chips
}

// remedies splits what mends a trouble into one item a sentence.
func remedies(text string) []string {
	var items []string
	for part := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(text), "."), ". ") {
		if part != "" {
			items = append(items, part+".")
		}
	}
	return items
}

// mostListed is how many ids a fact lists before it only counts the rest.
const mostListed = 12

func (s *Server) facts(f finding.Finding) []fact {
	first, last := s.when(f.FirstSeen), s.when(f.LastSeen)
	facts := []fact{
		{Name: "first seen", Items: []phrase{{Text: first.Full + ", " + first.Ago}}},
		{Name: "last seen", Items: []phrase{{Text: last.Full + ", " + last.Ago}}},
	}
	if f.BusinessKey != "" {
		facts = append(facts, fact{Name: "business key", Mono: true, Items: []phrase{{Text: f.BusinessKey, Href: keyHref(f.Namespace, f.BusinessKey)}}})
	}
	if f.Namespace != "" {
		facts = append(facts, fact{Name: "namespace", Mono: true, Items: []phrase{{Text: f.Namespace, Href: findingsHref("namespace", f.Namespace)}}})
	}
	if f.Task != "" {
		facts = append(facts, fact{Name: "task", Mono: true, Items: []phrase{{Text: f.Task, Href: reviewHref(f.Namespace, f.Task)}}})
	}
	if len(f.TaskIDs) > 0 {
		ids := fact{Name: "task ids", Mono: true}
		for _, id := range f.TaskIDs[:min(len(f.TaskIDs), mostListed)] {
			ids.Items = append(ids.Items, phrase{Text: id, Href: taskHref(id)})
		}
		if more := len(f.TaskIDs) - mostListed; more > 0 {
			ids.Items = append(ids.Items, phrase{Text: "and " + number(more) + " more", Tone: "quiet"})
		}
		facts = append(facts, ids)
	}
	if f.Effects > 0 {
		facts = append(facts, fact{Name: "times done", Items: []phrase{{Text: number(f.Effects)}}})
	}
	return append(facts, s.ownFacts(f)...)
}

// ownFacts are the rule's own fields, but for texts that are empty and what stands elsewhere on the page.
func (s *Server) ownFacts(f finding.Finding) []fact {
	var facts []fact
	for _, name := range slices.Sorted(maps.Keys(f.Fields)) {
		if !listedFact(f.Rule, name) {
			continue
		}
		value := f.Fields[name]
		seconds, isNumber := value.(float64)
		text, isText := value.(string)
		at, notTime := time.Parse(time.RFC3339Nano, text)
		switch short, inSeconds := strings.CutSuffix(name, "_seconds"); {
		case isText && text == "":
		case inSeconds && isNumber:
			facts = append(facts, fact{Name: plain(short), Items: []phrase{{Text: exact(time.Duration(seconds * float64(time.Second)))}}})
		case isText && notTime == nil:
			shown := s.when(at)
			facts = append(facts, fact{Name: plain(name), Items: []phrase{{Text: shown.Full + ", " + shown.Ago}}})
		default:
			facts = append(facts, fact{Name: plain(name), Mono: true, Items: fieldItems(value)})
		}
	}
	return facts
}

// fieldItems shows a rule's own field: text as it is, lists by item, counts by name, the rest as JSON.
func fieldItems(value any) []phrase {
	switch v := value.(type) {
	case nil:
		return []phrase{{Text: "none", Tone: "quiet"}}
	case string:
		return []phrase{{Text: v}}
	case float64:
		return []phrase{{Text: strconv.FormatFloat(v, 'f', -1, 64)}}
	case []any:
		if len(v) == 0 {
			return []phrase{{Text: "none", Tone: "quiet"}}
		}
		var items []phrase
		for _, item := range v[:min(len(v), mostListed)] {
			items = append(items, fieldItems(item)...)
		}
		if more := len(v) - mostListed; more > 0 {
			items = append(items, phrase{Text: "and " + number(more) + " more", Tone: "quiet"})
		}
		return items
	}
	if counts, ok := value.(map[string]any); ok && allCounts(counts) {
		var items []phrase
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			items = append(items, phrase{Text: plain(name) + " " + fieldItems(counts[name])[0].Text})
		}
		return items
	}
	text, err := json.Marshal(value)
	if err != nil {
		return []phrase{{Text: fmt.Sprint(value)}}
	}
	return []phrase{{Text: string(text)}}
}

func allCounts(values map[string]any) bool {
	for _, v := range values {
		if _, ok := v.(float64); !ok {
			return false
		}
	}
	return len(values) > 0 && len(values) <= mostListed
}

// whoAndWhy checks what a person wrote beside a change: who, otherwise named by the way that the change came, and why.
func whoAndWhy(by, note, otherwise string) (string, string, error) {
	by, note = strings.TrimSpace(by), strings.TrimSpace(note)
	if err := finding.Words(by, note, ""); err != nil {
		return "", "", invalid(err)
	}
	return cmp.Or(by, otherwise), note, nil
}

// parsed reads a form, so that one which is too large or broken is refused and not taken for an empty one.
func parsed(c echo.Context) error {
	err := c.Request().ParseForm()
	var tooLarge *http.MaxBytesError
	if err != nil && !errors.As(err, &tooLarge) {
		return badRequest("form: " + err.Error())
	}
	return err
}
