package queries

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"auditor/event/finding"
)

// findingRow is a row of the view findings.
type findingRow struct {
	ID          string    `ch:"id"`
	Rule        string    `ch:"rule"`
	Severity    string    `ch:"severity"`
	State       string    `ch:"state"`
	Namespace   string    `ch:"namespace"`
	Task        string    `ch:"task"`
	BusinessKey string    `ch:"business_key"`
	TaskIDs     []string  `ch:"task_ids"`
	Cause       string    `ch:"cause"`
	Effects     uint32    `ch:"effects"`
	FirstSeen   time.Time `ch:"first_seen"`
	LastSeen    time.Time `ch:"last_seen"`
	Title       string    `ch:"title"`
	Explanation string    `ch:"explanation"`
	Remedy      string    `ch:"remedy"`
	Fields      string    `ch:"fields"`
	Evidence    string    `ch:"evidence"`
	UpdatedAt   time.Time `ch:"updated_at"`
	Version     uint64    `ch:"version"`
	Assignee    string    `ch:"assignee"`
}

func (r *findingRow) finding() (finding.Finding, error) {
	f := finding.Finding{
		ID: r.ID, Rule: r.Rule, Severity: finding.Severity(r.Severity), State: finding.State(r.State),
		Namespace: r.Namespace, Task: r.Task, BusinessKey: r.BusinessKey, TaskIDs: r.TaskIDs, Cause: r.Cause,
		Effects: int(r.Effects), FirstSeen: known(r.FirstSeen), LastSeen: known(r.LastSeen), Title: r.Title,
		Explanation: r.Explanation, Remedy: r.Remedy, UpdatedAt: known(r.UpdatedAt), Version: r.Version,
		Assignee: r.Assignee,
	}
	if err := json.Unmarshal([]byte(r.Fields), &f.Fields); err != nil {
		return f, fmt.Errorf("fields of finding %s: %w", r.ID, err)
	}
	if err := json.Unmarshal([]byte(r.Evidence), &f.Evidence); err != nil {
		return f, fmt.Errorf("evidence of finding %s: %w", r.ID, err)
	}
	return f, nil
}

// selectFindings runs a statement that returns all columns of the view findings (SELECT * FROM findings).
func selectFindings(ctx context.Context, s *Store, name string, p params) ([]finding.Finding, error) {
	rows, err := selectAll[findingRow](ctx, s, name, p)
	if err != nil {
		return nil, err
	}
	all := make([]finding.Finding, len(rows))
	for i := range rows {
		if all[i], err = rows[i].finding(); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return all, nil
}

// Findings gives those of the findings that exist, as they are now.
func (s *Store) Findings(ctx context.Context, ids []string) (map[string]finding.Finding, error) {
	found := make(map[string]finding.Finding, len(ids))
	for _, some := range chunks(ids) {
		all, err := selectFindings(ctx, s, "store/findings", params{"ids": some})
		if err != nil {
			return nil, err
		}
		for _, f := range all {
			found[f.ID] = f
		}
	}
	return found, nil
}

// SaveFindings writes the changes of state and then the findings, each under the version after the one it carries. A
// finding's State is not written: it follows from the changes. Only the rules call it, and one at a time; what a person
// does goes through Act, and neither overwrites the other.
//
// The same call again changes nothing. After an error nothing, the changes, or all may be written.
func (s *Store) SaveFindings(ctx context.Context, findings []finding.Finding, changes []finding.Change) error {
	block, err := findingBlock(findings)
	if err != nil {
		return err
	}
	if err := s.ChangeFindings(ctx, changes); err != nil {
		return err
	}
	return s.insert(ctx, "finding_versions", "", block)
}

// ChangeFindings writes changes of findings' states into the log, from which the states follow. From is taken from the
// store. A change to the state that a finding is in anyhow is left out, unless it says so itself (From equals To): that is
// a note. The changes of one finding carry times that grow: one that comes with an earlier time, from a clock that is
// behind, is put right after the last.
func (s *Store) ChangeFindings(ctx context.Context, changes []finding.Change) error {
	type row struct {
		ID        string    `ch:"finding_id"`
		State     string    `ch:"state"`
		ChangedAt time.Time `ch:"changed_at"`
	}
	states := map[string]row{}
	for _, ids := range chunks(pluck(changes, func(c *finding.Change) string { return c.FindingID })) {
		rows, err := selectAll[row](ctx, s, "store/finding_states", params{"ids": ids})
		if err != nil {
			return err
		}
		for _, r := range rows {
			states[r.ID] = r
		}
	}
	var fresh []finding.Change
	for _, c := range changes {
		last, ok := states[c.FindingID]
		if ok && last.State == string(c.To) && c.From != c.To {
			continue
		}
		c.From, c.Time = finding.State(last.State), after(c.Time, last.ChangedAt)
		states[c.FindingID] = row{ID: c.FindingID, State: string(c.To), ChangedAt: c.Time}
		fresh = append(fresh, c)
	}
	return s.insert(ctx, "finding_log", "", changeBlock(fresh))
}

// after is the time as it is stored in a log, or the one right after the last entry where that is later.
func after(t, last time.Time) time.Time {
	if t = storable(t).Truncate(time.Microsecond); !t.After(last) {
		return last.Add(time.Microsecond)
	}
	return t
}

func findingBlock(findings []finding.Finding) ([]values, error) {
	fields, evidence := make([]string, len(findings)), make([]string, len(findings))
	for i, f := range findings {
		own := f.Fields
		if own == nil {
			own = map[string]any{}
		}
		shown := f.Evidence
		if shown == nil {
			shown = []finding.Evidence{}
		}
		for _, part := range []struct {
			text  *string
			value any
		}{{&fields[i], own}, {&evidence[i], shown}} {
			text, err := json.Marshal(part.value)
			if err != nil {
				return nil, fmt.Errorf("finding %s: %w", f.ID, err)
			}
			*part.text = string(text)
		}
	}
	word := func(get func(*finding.Finding) string) []string { return pluck(findings, get) }
	when := func(get func(*finding.Finding) time.Time) []time.Time {
		return pluck(findings, func(f *finding.Finding) time.Time { return storable(get(f)) })
	}
	return []values{
		{"id", word(func(f *finding.Finding) string { return f.ID })},
		{"rule", word(func(f *finding.Finding) string { return f.Rule })},
		{"severity", word(func(f *finding.Finding) string { return string(f.Severity) })},
		{"namespace", word(func(f *finding.Finding) string { return f.Namespace })},
		{"task", word(func(f *finding.Finding) string { return f.Task })},
		{"business_key", word(func(f *finding.Finding) string { return f.BusinessKey })},
		{"task_ids", pluck(findings, func(f *finding.Finding) []string { return f.TaskIDs })},
		{"cause", word(func(f *finding.Finding) string { return f.Cause })},
		{"effects", pluck(findings, func(f *finding.Finding) uint32 { return uint32(max(f.Effects, 0)) })},
		{"first_seen", when(func(f *finding.Finding) time.Time { return f.FirstSeen })},
		{"last_seen", when(func(f *finding.Finding) time.Time { return f.LastSeen })},
		{"title", word(func(f *finding.Finding) string { return f.Title })},
		{"explanation", word(func(f *finding.Finding) string { return f.Explanation })},
		{"remedy", word(func(f *finding.Finding) string { return f.Remedy })},
		{"fields", fields},
		{"evidence", evidence},
		{"updated_at", when(func(f *finding.Finding) time.Time { return f.UpdatedAt })},
		{"version", pluck(findings, func(f *finding.Finding) uint64 { return f.Version + 1 })},
	}, nil
}

func changeBlock(changes []finding.Change) []values {
	return []values{
		{"finding_id", pluck(changes, func(c *finding.Change) string { return c.FindingID })},
		{"time", pluck(changes, func(c *finding.Change) time.Time { return storable(c.Time) })},
		{"from_state", pluck(changes, func(c *finding.Change) string { return string(c.From) })},
		{"to_state", pluck(changes, func(c *finding.Change) string { return string(c.To) })},
		{"by", pluck(changes, func(c *finding.Change) string { return c.By })},
		{"note", pluck(changes, func(c *finding.Change) string { return c.Note })},
		{"action", pluck(changes, func(c *finding.Change) string { return string(c.What()) })},
		{"assignee", pluck(changes, func(c *finding.Change) string { return c.Assignee })},
		{"request", pluck(changes, func(c *finding.Change) string { return c.Request })},
		{"through", pluck(changes, func(c *finding.Change) string { return c.Through })},
	}
}
