package userrule

import (
	"fmt"
	"maps"
	"math"
	"strings"
	"time"

	"auditor/event/finding"
)

const (
	longestTitle       = 300     // bytes
	longestExplanation = 4 << 10 // and as much for a remedy
	longestValue       = 1 << 10 // of a text among the finding's own fields
	longestList        = 100     // values in a list
)

// Maker makes findings of rows. It may be used by many goroutines at once.
type Maker struct {
	rule  Rule
	texts []text
}

// NewMaker prepares a rule that Validate finds good.
func NewMaker(r Rule) (*Maker, error) {
	texts, err := r.parse()
	if err != nil {
		return nil, err
	}
	return &Maker{rule: r, texts: texts}, nil
}

// Findings makes a finding of each row. Rows about the same task and key are one finding: that of the row seen last, as long
// as all of them were.
func (m *Maker) Findings(rows []Row) ([]finding.Finding, error) {
	var all []finding.Finding
	at := map[string]int{}
	for _, row := range rows {
		f, err := m.finding(row)
		if err != nil {
			return nil, err
		}
		i, seen := at[f.ID]
		if !seen {
			at[f.ID] = len(all)
			all = append(all, f)
			continue
		}
		first := earlier(all[i].FirstSeen, f.FirstSeen)
		if f.LastSeen.After(all[i].LastSeen) {
			all[i] = f
		}
		all[i].FirstSeen = first
	}
	return all, nil
}

func (m *Maker) finding(row Row) (finding.Finding, error) {
	r := m.rule
	f := finding.Finding{Rule: r.Name, Severity: finding.Severity(r.Severity), Fields: map[string]any{}}
	f.Namespace, _ = row["namespace"].(string)
	f.Task, _ = row["task"].(string)
	f.BusinessKey, _ = row["business_key"].(string)
	f.Cause, _ = row["cause"].(string)
	f.FirstSeen, _ = row["first_seen"].(time.Time)
	f.LastSeen, _ = row["last_seen"].(time.Time)
	if f.LastSeen.Before(f.FirstSeen) {
		f.FirstSeen, f.LastSeen = f.LastSeen, f.FirstSeen
	}
	f.ID = finding.ID(r.Name, f.Namespace, f.Task, f.BusinessKey)
	ids, _ := row["task_ids"].([]any)
	for _, id := range ids[:min(len(ids), longestList)] {
		if s, ok := id.(string); ok {
			f.TaskIDs = append(f.TaskIDs, s)
		}
	}
	effects, _ := number(row["effects"])
	f.Effects = int(min(max(effects, 0), math.MaxInt32))
	for name, value := range row {
		if _, fixed := required[name]; fixed {
			continue
		}
		if _, fixed := known[name]; !fixed {
			f.Fields[name] = cut(value)
		}
	}
	told := maps.Clone(row)
	for name, value := range told {
		if value == nil {
			told[name] = "" // a text would say <no value>
		}
	}
	for i, into := range []*string{&f.Title, &f.Explanation, &f.Remedy} {
		most := longestExplanation
		if i == 0 {
			most = longestTitle
		}
		said, err := m.texts[i].render(told, most)
		if err != nil {
			return f, fmt.Errorf("rule %s: %w", r.Name, err)
		}
		*into = said
	}
	f.Title = strings.Join(strings.Fields(f.Title), " ")
	return f, nil
}

// cut bounds a value, and makes it one that JSON knows.
func cut(value any) any {
	switch v := value.(type) {
	case string:
		if len(v) > longestValue {
			return strings.ToValidUTF8(v[:longestValue], "") + "…"
		}
		return strings.ToValidUTF8(v, "\uFFFD")
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
	case []any:
		all := make([]any, 0, min(len(v), longestList))
		for _, item := range v[:min(len(v), longestList)] {
			all = append(all, cut(item))
		}
		return all
	}
	return value
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
