// Package silence holds what keeps findings silent: they are found and kept as ever, but alarm nobody for a while.
package silence

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"auditor/event/finding"
)

// Any is the pattern that everything fits.
const Any = "*"

// Matchers choose findings: a finding fits when it fits all of them. Each is a pattern in which * stands for any text, also
// none; everything else stands for itself.
type Matchers struct {
	Rule        string `json:"rule"`
	Task        string `json:"task"`
	Namespace   string `json:"namespace"`    // empty: the default one
	BusinessKey string `json:"business_key"` // the key or, for a finding without one, its task id where it has just one
	Worker      string `json:"worker"`       // of any of the events that show it
	Severity    string `json:"severity"`
}

// All are the patterns with their names, in the order in which they are told.
func (m Matchers) All() []Matcher {
	return []Matcher{{"rule", m.Rule}, {"task", m.Task}, {"namespace", m.Namespace}, {"business_key", m.BusinessKey},
		{"worker", m.Worker}, {"severity", m.Severity}}
}

// Matcher is one of them.
type Matcher struct{ Name, Pattern string }

// String tells what the matchers choose: those that do not fit everything.
func (m Matchers) String() string {
	var parts []string
	for _, one := range m.All() {
		if one.Pattern != Any {
			parts = append(parts, fmt.Sprintf("%s %q", strings.ReplaceAll(one.Name, "_", " "), one.Pattern))
		}
	}
	return strings.Join(parts, ", ")
}

// Filled are the matchers with Any for each that is not told. The namespace is left as it is: the empty one is the default.
func (m Matchers) Filled() Matchers {
	for _, p := range []*string{&m.Rule, &m.Task, &m.BusinessKey, &m.Worker, &m.Severity} {
		if *p == "" {
			*p = Any
		}
	}
	return m
}

// State is where a silence stands in its life.
type State string

// The states of a silence.
const (
	Active  State = "active"
	Expired State = "expired" // its time is over
	Ended   State = "ended"   // somebody ended it before
)

// States lists them.
var States = []State{Active, Expired, Ended}

// ParseStates reads states, separated by commas.
func ParseStates(text string) ([]State, error) {
	var states []State
	for one := range strings.SplitSeq(text, ",") {
		if !slices.Contains(States, State(one)) {
			return nil, fmt.Errorf("state: must be active, expired, ended or any, got %q", one)
		}
		states = append(states, State(one))
	}
	return states, nil
}

// ParseUntil reads when a silence that begins now is to end: a time, or a length of time.
func ParseUntil(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(d), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t.UTC(), nil
	}
	return time.Time{}, fmt.Errorf("until: must be a time such as 2026-01-31T14:00:00Z, or a length of time from now such as 8h, got %q", text)
}

// Silence keeps the findings that fit it silent for a while.
type Silence struct {
	ID string
	Matchers
	From      time.Time // when it was made, and began
	Until     time.Time
	By        string
	Note      string    // why
	Request   string    // the id that its maker gave to the request; empty: none
	EndedAt   time.Time // when it was ended before its time; zero: it was not
	EndedBy   string
	EndedNote string
	Findings  int // unresolved ones that fit it, whether it is active or not
}

// State tells how the silence stands at a moment.
func (s Silence) State(now time.Time) State {
	switch {
	case !s.EndedAt.IsZero():
		return Ended
	case !now.Before(s.Until):
		return Expired
	}
	return Active
}

const (
	longestPattern = 1024
	longest        = 5 * 366 * 24 * time.Hour
)

// Validate names each field that can't be used, and what is allowed. A silence begins at From.
func (s Silence) Validate() error {
	var errs []error
	for _, m := range s.Matchers.All() {
		if len(m.Pattern) > longestPattern || !utf8.ValidString(m.Pattern) {
			errs = append(errs, fmt.Errorf("%s: must be at most %d bytes of UTF-8", m.Name, longestPattern))
		}
	}
	if s.Matchers.String() == "" {
		errs = append(errs, errors.New("rule, task, namespace, business_key, worker, severity: at least one of them must be given, "+
			"or everything would be silent"))
	}
	severities := []string{Any, string(finding.Critical), string(finding.Warning), string(finding.Info)}
	if !slices.Contains(severities, s.Severity) {
		errs = append(errs, fmt.Errorf("severity: must be critical, warning or info, got %q", s.Severity))
	}
	if !s.Until.After(s.From) {
		errs = append(errs, fmt.Errorf("until: must be later than now, got %s", s.Until.UTC().Format(time.RFC3339)))
	} else if s.Until.Sub(s.From) > longest {
		errs = append(errs, errors.New("until: must be within five years; what shall never be told is better left out by the configuration"))
	}
	return errors.Join(append(errs, finding.Words(s.By, s.Note, s.Request))...)
}

// Same reports whether both ask for the same: who, what, why and until when.
func (s Silence) Same(t Silence) bool {
	return s.Matchers == t.Matchers && s.Until.Equal(t.Until) && s.By == t.By && s.Note == t.Note
}

// Shown is a silence as machines see it.
type Shown struct {
	ID    string `json:"id"`
	State State  `json:"state"`
	Matchers
	From      time.Time  `json:"from"`
	Until     time.Time  `json:"until"`
	By        string     `json:"by"`
	Note      string     `json:"note"`
	EndedAt   *time.Time `json:"ended_at"` // null: it was not
	EndedBy   string     `json:"ended_by"`
	EndedNote string     `json:"ended_note"`
	Findings  int        `json:"findings"` // unresolved ones that fit it
}

// Shown gives the silence as machines see it at a moment.
func (s Silence) Shown(now time.Time) Shown {
	shown := Shown{ID: s.ID, State: s.State(now), Matchers: s.Matchers, From: s.From, Until: s.Until, By: s.By, Note: s.Note,
		EndedBy: s.EndedBy, EndedNote: s.EndedNote, Findings: s.Findings}
	if !s.EndedAt.IsZero() {
		shown.EndedAt = &s.EndedAt
	}
	return shown
}
