package queries

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"auditor/event/finding"
	"auditor/event/view"
)

// Pages answers what the pages and the API ask: the same store, seen by its readers.
type Pages struct{ store *Store }

// Pages gives the store as pages see it.
func (s *Store) Pages() *Pages { return &Pages{s} }

// Findings lists what the filter chooses. A cursor that was not given out is view.ErrCursor.
func (p *Pages) Findings(ctx context.Context, f view.FindingFilter) (view.FindingPage, error) {
	type row struct {
		findingNowRow
		MemberOf string `ch:"member_of"`
		Rank     int64  `ch:"rank"`
		Folded   bool   `ch:"folded"`
		Total    uint64 `ch:"total"`
		LeftOut  uint64 `ch:"left_out"`
	}
	rank, id, err := readCursor(f.Cursor)
	if err != nil {
		return view.FindingPage{}, err
	}
	states := make([]string, len(f.States))
	for i, s := range f.States {
		states[i] = string(s)
	}
	namespace := ""
	if f.Namespace != nil {
		namespace = *f.Namespace
	}
	silenced := f.Silenced != nil && *f.Silenced
	order := f.Order
	if order == "" {
		order = view.BySeverity
	}
	limit := max(f.Limit, 1)
	rows, err := selectAll[row](ctx, p.store, "web/findings", params{
		"rule": f.Rule, "states": states, "severity": f.Severity, "cause": f.Cause, "any_namespace": f.Namespace == nil,
		"namespace": namespace, "task": f.Task, "business_key": f.BusinessKey, "text": f.Text, "since": f.Since,
		"assignee": f.Assignee, "any_silenced": f.Silenced == nil, "silenced": silenced, "silence": f.Silence,
		"incident": f.Incident, "fold": f.Fold, "sort": order, "first": f.Cursor == "", "after_rank": rank, "after_id": id, "limit": limit + 1,
	})
	if err != nil {
		return view.FindingPage{}, err
	}
	page := view.FindingPage{}
	if len(rows) > limit {
		rows = rows[:limit]
		last := rows[limit-1]
		page.NextCursor = writeCursor(last.Rank, last.ID)
	}
	for i := range rows {
		one, err := rows[i].finding()
		if err != nil {
			return page, fmt.Errorf("web/findings: %w", err)
		}
		page.Items, page.Total, page.Folded = append(page.Items, one), int(rows[i].Total), int(rows[i].LeftOut)
	}
	return page, nil
}

// A cursor is the place of the last finding of a page in the list's order.
func writeCursor(rank int64, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(rank, 10) + " " + id))
}

func readCursor(cursor string) (rank int64, id string, err error) {
	if cursor == "" {
		return 0, "", nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, "", view.ErrCursor
	}
	number, id, ok := strings.Cut(string(text), " ")
	rank, err = strconv.ParseInt(number, 10, 64)
	if err != nil || !ok {
		return 0, "", view.ErrCursor
	}
	return rank, id, nil
}

// findingNowRow is a row of the view findings_now.
type findingNowRow struct {
	findingRow
	Silences []string  `ch:"silences"`
	Until    time.Time `ch:"silenced_until"`
}

func (r *findingNowRow) finding() (finding.Finding, error) {
	f, err := r.findingRow.finding()
	if len(r.Silences) > 0 {
		f.Silenced = &finding.Silenced{ID: r.Silences[0], Until: r.Until}
	}
	return f, err
}

// Finding gives one finding, or view.ErrNotFound.
func (p *Pages) Finding(ctx context.Context, id string) (finding.Finding, error) {
	r, ok, err := selectOne[findingNowRow](ctx, p.store, "web/finding", params{"id": id})
	if err == nil && !ok {
		err = view.ErrNotFound
	}
	if err != nil {
		return finding.Finding{}, err
	}
	return r.finding()
}

// Act does to a finding what somebody asks for.
func (p *Pages) Act(ctx context.Context, a finding.Act) error { return p.store.Act(ctx, a) }

type changeRow struct {
	FindingID string    `ch:"finding_id"`
	Time      time.Time `ch:"time"`
	From      string    `ch:"from_state"`
	To        string    `ch:"to_state"`
	By        string    `ch:"by"`
	Note      string    `ch:"note"`
	Action    string    `ch:"action"`
	Assignee  string    `ch:"assignee"`
	Request   string    `ch:"request"`
	Through   string    `ch:"through"`
}

func (r *changeRow) change() finding.Change {
	return finding.Change{FindingID: r.FindingID, Time: r.Time, From: finding.State(r.From), To: finding.State(r.To), By: r.By, Note: r.Note,
		Action: finding.Action(r.Action), Assignee: r.Assignee, Request: r.Request, Through: r.Through}
}

// FindingLog gives the changes of a finding's state, the oldest first.
func (p *Pages) FindingLog(ctx context.Context, id string) ([]finding.Change, error) {
	rows, err := selectAll[changeRow](ctx, p.store, "web/finding_log", params{"id": id})
	return pluck(rows, func(r *changeRow) finding.Change { return r.change() }), err
}

// Changes gives the latest changes of findings' states, the newest first.
func (p *Pages) Changes(ctx context.Context, limit int) ([]view.LoggedChange, error) {
	type row struct {
		changeRow
		Title    string `ch:"title"`
		Rule     string `ch:"rule"`
		Severity string `ch:"severity"`
	}
	rows, err := selectAll[row](ctx, p.store, "web/changes", params{"limit": limit})
	return pluck(rows, func(r *row) view.LoggedChange {
		return view.LoggedChange{Change: r.change(), Title: r.Title, Rule: r.Rule, Severity: finding.Severity(r.Severity)}
	}), err
}

// FindingCounts gives how many findings there are of each rule, severity and state, apart those that are silenced and those that an
// incident stands for.
func (p *Pages) FindingCounts(ctx context.Context) ([]view.FindingCount, error) {
	type row struct {
		Rule     string    `ch:"rule"`
		Severity string    `ch:"severity"`
		State    string    `ch:"state"`
		Silenced bool      `ch:"silenced"`
		Folded   bool      `ch:"folded"`
		Found    uint64    `ch:"found"`
		Oldest   time.Time `ch:"oldest"`
	}
	rows, err := selectAll[row](ctx, p.store, "web/finding_counts", nil)
	return pluck(rows, func(r *row) view.FindingCount {
		return view.FindingCount{Rule: r.Rule, Severity: finding.Severity(r.Severity), State: finding.State(r.State),
			Silenced: r.Silenced, Folded: r.Folded, Count: int(r.Found), Oldest: known(r.Oldest)}
	}), err
}

// FindingValues gives what the filters of a list of findings can be set to.
func (p *Pages) FindingValues(ctx context.Context) (view.FindingValues, error) {
	type row struct {
		Rules      []string `ch:"rules"`
		Causes     []string `ch:"causes"`
		Namespaces []string `ch:"namespaces"`
		Tasks      []string `ch:"tasks"`
		Assignees  []string `ch:"assignees"`
	}
	v, _, err := selectOne[row](ctx, p.store, "web/finding_values", nil)
	return view.FindingValues(v), err
}
