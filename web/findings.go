package web

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"auditor/event/finding"
	"auditor/event/view"
)

// findingRow is a finding in a list.
type findingRow struct {
	ID        string
	Glyph     glyph
	Title     string
	Key       string // business key, or the task ids where there is none
	KeyHref   string
	Task      string
	Namespace string
	Cause     string
	State     string // what sets it apart: that it is silenced, or its state where that is not open; whose it is
	Seen      when
}

func (s *Server) findingRow(f finding.Finding) findingRow {
	row := findingRow{
		ID: f.ID, Glyph: glyphOf(f), Title: f.Title, Task: f.Task, Namespace: f.Namespace, State: standing(f),
		Seen: s.when(f.LastSeen), Key: f.BusinessKey, KeyHref: keyHref(f.Namespace, f.BusinessKey),
	}
	if f.Cause != "" {
		row.Cause = causeName(f.Cause)
	}
	if row.Title == "" {
		row.Title = ruleName(f.Rule)
	}
	if row.Key == "" && len(f.TaskIDs) == 1 {
		row.Key, row.KeyHref = f.TaskIDs[0], taskHref(f.TaskIDs[0])
	}
	return row
}

// standing says what sets a finding apart in a list.
func standing(f finding.Finding) string {
	var parts []string
	switch {
	case f.Silenced != nil:
		parts = append(parts, "silenced")
	case f.State != finding.Open:
		parts = append(parts, string(f.State))
	}
	if f.Assignee != "" {
		parts = append(parts, visible(f.Assignee))
	}
	return strings.Join(parts, " · ")
}

func (s *Server) findingRows(findings []finding.Finding) []findingRow {
	rows := make([]findingRow, 0, len(findings))
	for _, f := range findings {
		rows = append(rows, s.findingRow(f))
	}
	return rows
}

func keyHref(namespace, key string) string {
	if key == "" {
		return ""
	}
	q := url.Values{"key": {key}}
	if namespace != "" {
		q.Set("namespace", namespace)
	}
	return "/keys?" + q.Encode()
}

func taskHref(id string) string { return "/tasks/id?" + url.Values{"id": {id}}.Encode() }

// findingsHref is the list of findings under some filters, given in pairs.
func findingsHref(pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Add(pairs[i], pairs[i+1])
	}
	return "/findings?" + q.Encode()
}

// findingsView is the list of findings.
type findingsView struct {
	Sentence []phrase
	Filters  []choice
	Text     string
	Hidden   [][2]string // further filters of this view, kept by its form
	Set      []phrase    // the filters that are set, each a link that takes it off
	Rows     []findingRow
	More     string // address of the next page
	First    string // address of the first page; empty on it
	Empty    string
	API      string // the same list for machines
	Silent   phrase // how many are left out for being silenced
}

// choice is one filter with its values.
type choice struct {
	Name, Label string
	Values      []option
}

type option struct {
	Value, Text string
	Chosen      bool
}

// stateChoices are the values of the filter by state. The first is the default.
var stateChoices = []option{
	{Value: "live", Text: "open or acknowledged"}, {Value: "open", Text: "open"}, {Value: "acknowledged", Text: "acknowledged"},
	{Value: "resolved", Text: "resolved"}, {Value: "any", Text: "any"},
}

// silencedChoices are the values of the filter by silences. The first is the default.
var silencedChoices = []option{{Value: "", Text: "no"}, {Value: "yes", Text: "silenced"}, {Value: "any", Text: "any"}}

// membersChoices are the values of the filter by incidents. The first is the default.
var membersChoices = []option{{Value: "", Text: "the incident"}, {Value: "yes", Text: "each finding, too"}}

// chosen gives choices with the one that is set marked.
func chosen(choices []option, value string) []option {
	choices = slices.Clone(choices)
	for i := range choices {
		choices[i].Chosen = value != "" && choices[i].Value == value
	}
	return choices
}

var orderText = map[view.Order]string{
	view.BySeverity: "gravest first", view.ByRecent: "last seen first", view.ByOldest: "oldest first", view.ByEffects: "most repeated first",
}

// filterOf reads a filter from a query, strictly: a value that is none of the known ones is an error that names them.
func (s *Server) filterOf(q url.Values, defaultState string) (view.FindingFilter, error) {
	f := view.FindingFilter{
		Rule: q.Get("rule"), Severity: finding.Severity(q.Get("severity")), Cause: q.Get("cause"), Task: q.Get("task"),
		BusinessKey: q.Get("business_key"), Text: strings.TrimSpace(q.Get("q")), Order: view.Order(q.Get("sort")),
		Limit: s.config.PageSize, Cursor: q.Get("cursor"), Assignee: q.Get("assignee"), Silence: q.Get("silence"),
	}
	if q.Has("namespace") {
		f.Namespace = new(q.Get("namespace"))
	}
	switch state := cmp.Or(q.Get("state"), defaultState); state {
	case "any":
	case "live":
		f.States = []finding.State{finding.Open, finding.Acknowledged}
	default:
		for one := range strings.SplitSeq(state, ",") {
			if !slices.Contains(finding.States, finding.State(one)) {
				return f, badRequest(fmt.Sprintf("state: must be open, acknowledged, resolved, live or any, got %q", one))
			}
			f.States = append(f.States, finding.State(one))
		}
	}
	var err error
	if f.Silenced, err = silencedOf(q); err != nil {
		return f, err
	}
	severities := []finding.Severity{"", finding.Critical, finding.Warning, finding.Info}
	if !slices.Contains(severities, f.Severity) {
		return f, badRequest(fmt.Sprintf("severity: must be critical, warning or info, got %q", f.Severity))
	}
	if f.Order != "" && !slices.Contains(view.Orders, f.Order) {
		return f, badRequest(fmt.Sprintf("sort: must be severity, recent, oldest or effects, got %q", f.Order))
	}
	f.Incident = q.Get("incident")
	if since := q.Get("since"); since != "" {
		at, err := s.momentOf("since", since)
		if err != nil {
			return f, err
		}
		f.Since = at
	}
	return f, nil
}

// silencedOf reads whether findings that are silenced are wanted: not, unless they are asked for.
func silencedOf(q url.Values) (*bool, error) {
	switch text := q.Get("silenced"); {
	case text == "any", text == "" && q.Get("silence") != "":
		return nil, nil
	case text == "yes":
		return new(true), nil
	case text == "no", text == "":
		return new(false), nil
	default:
		return nil, badRequest(fmt.Sprintf("silenced: must be no, yes or any, got %q", text))
	}
}

// momentOf reads a moment: RFC 3339, or a length of time before now.
func (s *Server) momentOf(name, text string) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return s.now().Add(-d), nil
	}
	return time.Time{}, badRequest(fmt.Sprintf("%s: must be a time such as 2026-01-31T14:00:00Z, or a length such as 24h, got %q", name, text))
}

func (s *Server) findingsPage(ctx context.Context, r request) (document, error) {
	filter, err := s.filterOf(r.query, "live")
	if err == nil {
		filter.Fold, err = foldOf(r.query, "no")
	}
	if err != nil {
		return document{}, err
	}
	page, err := s.store.Findings(ctx, filter)
	if err != nil {
		return document{}, err
	}
	values, err := ask(ctx, s.cache, "finding values", shared, s.store.FindingValues)
	if err != nil {
		return document{}, err
	}
	v := findingsView{
		Sentence: findingsSentence(page, filter), Text: filter.Text, Rows: s.findingRows(page.Items),
		Filters: filters(r.query, values), Hidden: hiddenFilters(r.query), Set: setFilters(r.query), API: "/api/v1" + r.path,
	}
	if _, silenced, err := s.alarms(ctx); err == nil && silenced > 0 && filter.Silenced != nil && !*filter.Silenced {
		v.Silent = phrase{Text: plural(silenced, "silenced finding"), Href: findingsHref("silenced", "yes")}
	}
	if filter.Incident != "" {
		v.Sentence = append(v.Sentence, phrase{Text: " They belong to "}, phrase{Text: "one incident", Href: "/findings/" + url.PathEscape(filter.Incident)}, phrase{Text: "."})
	}
	if page.Folded > 0 {
		v.Sentence = append(v.Sentence, phrase{Text: " "}, phrase{Text: plural(page.Folded, "more that belongs", "more that belong") + " to incidents listed here",
			Href: with(r.query, "/findings", "members", "yes")}, phrase{Text: "."})
	}
	if page.NextCursor != "" {
		v.More = with(r.query, "/findings", "cursor", page.NextCursor)
	}
	if filter.Cursor != "" {
		v.First = with(r.query, "/findings", "cursor", "")
	}
	if len(v.Rows) == 0 {
		v.Empty = "Nothing here."
		if len(v.Set) > 0 {
			v.Empty = "No finding fits these filters."
		}
	}
	return document{Title: "Findings", Section: "findings", Page: "findings", View: v}, nil
}

func findingsSentence(page view.FindingPage, filter view.FindingFilter) []phrase {
	if page.Total == 0 && filter.Cursor == "" {
		return []phrase{{Text: "No findings."}}
	}
	var states []string
	for _, state := range filter.States {
		states = append(states, string(state))
	}
	text := plural(page.Total, "finding")
	if len(states) > 0 {
		text += ", " + strings.Join(states, " or ")
	}
	return []phrase{{Text: text + "."}}
}

// with is the address of a view with one parameter changed, or taken off where the value is empty. A changed filter
// begins at the first page again.
func with(q url.Values, path, name, value string) string {
	changed := url.Values{}
	for k, v := range q {
		if k != name && (k != "cursor" || name == "cursor") {
			changed[k] = v
		}
	}
	if value != "" {
		changed.Set(name, value)
	}
	if len(changed) == 0 {
		return path
	}
	return path + "?" + changed.Encode()
}

func filters(q url.Values, values view.FindingValues) []choice {
	orders := make([]option, 0, len(view.Orders))
	for _, o := range view.Orders {
		orders = append(orders, option{Value: string(o), Text: orderText[o], Chosen: q.Get("sort") == string(o)})
	}
	states := chosen(stateChoices, q.Get("state"))
	list := []choice{
		{Name: "rule", Label: "Rule", Values: options(q.Get("rule"), values.Rules, ruleName)},
		{Name: "state", Label: "State", Values: states},
		{Name: "severity", Label: "Severity", Values: options(q.Get("severity"), []string{"critical", "warning", "info"}, plain)},
		{Name: "cause", Label: "Cause", Values: options(q.Get("cause"), values.Causes, causeName)},
		{Name: "task", Label: "Task", Values: options(q.Get("task"), values.Tasks, visible)},
	}
	if len(values.Namespaces) > 1 || q.Has("namespace") {
		named := func(n string) string {
			if n == "" {
				return "(default)"
			}
			return visible(n)
		}
		list = append(list, choice{Name: "namespace", Label: "Namespace", Values: options(q.Get("namespace"), values.Namespaces, named)})
	}
	if len(values.Assignees) > 0 || q.Has("assignee") {
		list = append(list, choice{Name: "assignee", Label: "Assigned to", Values: options(q.Get("assignee"), values.Assignees, visible)})
	}
	if slices.Contains(values.Rules, ruleIncident) || q.Has("members") {
		list = append(list, choice{Name: "members", Label: "Of incidents", Values: chosen(membersChoices, q.Get("members"))})
	}
	list = append(list, choice{Name: "silenced", Label: "Silenced", Values: chosen(silencedChoices, q.Get("silenced"))})
	return append(list, choice{Name: "sort", Label: "Order", Values: orders})
}

// options lists the values of a filter; one that is set is among them even when no finding has it.
func options(chosen string, values []string, name func(string) string) []option {
	list := []option{{Text: "any"}}
	if chosen != "" && !slices.Contains(values, chosen) {
		values = append(slices.Clone(values), chosen)
	}
	for _, v := range values {
		if v != "" {
			list = append(list, option{Value: v, Text: name(v), Chosen: v == chosen})
		}
	}
	return list
}

// hiddenFilters are those that the form has no field for.
func hiddenFilters(q url.Values) [][2]string {
	var kept [][2]string
	for _, name := range []string{"business_key", "since", "silence", "incident"} {
		if v := q.Get(name); v != "" {
			kept = append(kept, [2]string{name, v})
		}
	}
	return kept
}

func setFilters(q url.Values) []phrase {
	var set []phrase
	for _, name := range []string{"rule", "state", "severity", "cause", "namespace", "task", "business_key", "assignee", "silenced", "silence", "incident", "members", "since", "q"} {
		v := q.Get(name)
		switch {
		case v == "" || name == "state" && v == "live":
			continue
		case name == "rule":
			v = ruleName(v)
		case name == "cause":
			v = causeName(v)
		case name == "since":
			v = "seen in the last " + v
		case name == "assignee":
			v = "assigned to " + v
		case name == "silenced":
			v = map[string]string{"yes": "silenced", "any": "silenced or not"}[v]
		case name == "silence":
			v = "silenced by " + v
		case name == "incident":
			v = "of incident " + v
		case name == "members":
			v = "each finding of incidents"
		}
		set = append(set, phrase{Text: visible(v), Href: with(q, "/findings", name, "")})
	}
	return set
}
