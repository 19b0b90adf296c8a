// Package finding holds what the rules find: one trouble, why the auditor thinks so, and what became of it.
package finding

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"auditor/event"
)

// Severity is how much a finding matters.
type Severity string

// The severities, from the one that wakes people up to the one that only informs.
const (
	Critical Severity = "critical"
	Warning  Severity = "warning"
	Info     Severity = "info"
)

// State is where a finding stands in its life: open, then acknowledged, then resolved; new evidence opens it again.
type State string

// The states of a finding.
const (
	Open         State = "open"
	Acknowledged State = "acknowledged"
	Resolved     State = "resolved"
)

// States lists the states in the order of a finding's life.
var States = []State{Open, Acknowledged, Resolved}

// Finding is one trouble. The same trouble has the same ID whenever and however often it is found, and grows.
type Finding struct {
	ID          string
	Rule        string
	Severity    Severity
	State       State
	Namespace   string
	Task        string
	BusinessKey string // empty when the task has none, or for a population
	TaskIDs     []string
	Cause       string // empty where the rule knows no causes
	Effects     int    // how often the effect happened, the first included; 0 where the rule counts none
	FirstSeen   time.Time
	LastSeen    time.Time
	Title       string         // one line: what happened to what
	Explanation string         // plain English: what happened, why the auditor thinks so
	Remedy      string         // what usually mends it
	Fields      map[string]any // the rule's own fields, with JSON values; names never meet those above
	Evidence    []Evidence     // the events that show it, in the order of the argument
	UpdatedAt   time.Time      // when the finding last changed
	Version     uint64         // grows with each change
	Assignee    string         // who shall see to it; empty: nobody in particular
	Silenced    *Silenced      // what keeps it silent now; nil: nothing, or it was not asked
}

// Silenced says which silence keeps a finding silent, and until when: of several, the one that ends last.
type Silenced struct {
	ID    string    `json:"id"`
	Until time.Time `json:"until"`
}

// Evidence is one event that a finding rests on.
type Evidence struct {
	Says    string     `json:"says"` // what this event shows, in a few words
	EventID string     `json:"event_id"`
	Type    event.Type `json:"type"`
	Time    time.Time  `json:"time"`
	Worker  string     `json:"worker,omitempty"`
	TaskID  string     `json:"task_id,omitempty"`

	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Index     int32  `json:"index"`
}

// Change is one entry of a finding's log.
type Change struct {
	FindingID string
	Time      time.Time
	Action    Action // empty: it follows from the states
	From      State  // empty when the finding is new
	To        State  // the same as From where the state is left as it was
	Assignee  string // with Assign: who shall see to it from then on; empty: nobody
	By        string // a person, or "auditor"
	Note      string
	Request   string // the id that the caller gave; empty: none
	Through   string // the incident with which it was done; empty: none
}

// What tells what was done. What an old entry did follows from its states.
func (c Change) What() Action {
	switch {
	case c.Action != "":
		return c.Action
	case c.From == "":
		return Found
	case c.From == c.To:
		return Comment
	case c.To == Open:
		return Reopen
	case c.To == Acknowledged:
		return Acknowledge
	}
	return Resolve
}

// MarshalJSON writes the entry as machines see it.
func (c Change) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Time     time.Time `json:"time"`
		Action   Action    `json:"action"`
		From     State     `json:"from"`
		To       State     `json:"to"`
		Assignee string    `json:"assignee,omitempty"`
		By       string    `json:"by"`
		Note     string    `json:"note"`
		Request  string    `json:"request,omitempty"`
		Incident string    `json:"incident,omitempty"`
	}{c.Time, c.What(), c.From, c.To, c.Assignee, c.By, c.Note, c.Request, c.Through})
}

// ID derives a finding's id from what the trouble is about: rule, namespace, task or effect, and key (for a
// population: the window it began in).
func ID(rule, namespace, about, key string) string {
	h := sha256.New()
	for _, s := range []string{rule, namespace, about, key} {
		fmt.Fprintf(h, "%d:%s,", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// MarshalJSON writes the fixed fields and the rule's own side by side, as one flat object, own fields last and sorted.
func (f Finding) MarshalJSON() ([]byte, error) {
	type fixed struct {
		ID          string     `json:"id"`
		Rule        string     `json:"rule"`
		Severity    Severity   `json:"severity"`
		State       State      `json:"state,omitempty"`
		Assignee    string     `json:"assignee,omitempty"`
		Silenced    *Silenced  `json:"silenced,omitempty"`
		Namespace   string     `json:"namespace"`
		Task        string     `json:"task"`
		BusinessKey string     `json:"business_key"`
		TaskIDs     []string   `json:"task_ids"`
		Cause       string     `json:"cause"`
		Effects     int        `json:"effects"`
		FirstSeen   time.Time  `json:"first_seen"`
		LastSeen    time.Time  `json:"last_seen"`
		Title       string     `json:"title"`
		Explanation string     `json:"explanation"`
		Remedy      string     `json:"remedy"`
		Evidence    []Evidence `json:"evidence"`
	}
	ids, evidence := f.TaskIDs, f.Evidence
	if ids == nil {
		ids = []string{}
	}
	if evidence == nil {
		evidence = []Evidence{}
	}
	out, err := json.Marshal(fixed{f.ID, f.Rule, f.Severity, f.State, f.Assignee, f.Silenced, f.Namespace, f.Task, f.BusinessKey, ids, f.Cause,
		f.Effects, f.FirstSeen, f.LastSeen, f.Title, f.Explanation, f.Remedy, evidence})
	if err != nil {
		return nil, err
	}
	out = out[:len(out)-1]
	for _, name := range slices.Sorted(maps.Keys(f.Fields)) {
		value, err := json.Marshal(f.Fields[name])
		if err != nil {
			return nil, fmt.Errorf("finding field %s: %w", name, err)
		}
		out = fmt.Appendf(out, ",%q:%s", name, value)
	}
	return append(out, '}'), nil
}
