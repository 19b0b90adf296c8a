package finding

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// Action is what was done to a finding, as its log tells it.
type Action string

// The actions of a finding's log. Found is the auditor's alone.
const (
	Found       Action = "found"
	Acknowledge Action = "acknowledge" // somebody sees to it
	Assign      Action = "assign"      // somebody shall see to it
	Comment     Action = "comment"
	Resolve     Action = "resolve" // it is over
	Reopen      Action = "reopen"
)

// Actions lists what people can do to a finding.
var Actions = []Action{Acknowledge, Assign, Comment, Resolve, Reopen}

// Bounds of what a person may write, in bytes.
const (
	LongestBy      = 100
	LongestNote    = 2000
	LongestRequest = 100
)

// Act is what somebody does to a finding.
type Act struct {
	FindingID string
	Action    Action
	Assignee  string  // Assign: who shall see to it; empty: nobody
	Was       *string // Assign: who had it as far as the caller knows, and nobody else may have; nil: whoever it is
	By        string  // who does it
	Note      string  // why
	Request   string  // id that the caller gave to this act, and gives again when it is repeated; empty: none
	Time      time.Time
}

// Validate names each field that can't be used, and what is allowed.
func (a Act) Validate() error {
	var errs []error
	if !slices.Contains(Actions, a.Action) {
		errs = append(errs, fmt.Errorf("action: must be among %v, got %q", Actions, a.Action))
	}
	if a.Action == Comment && a.Note == "" {
		errs = append(errs, errors.New("note: must say something: it is the comment"))
	}
	if a.Action != Assign && (a.Assignee != "" || a.Was != nil) {
		errs = append(errs, errors.New("assignee: only assign has one"))
	}
	return errors.Join(append(errs, Words(a.By, a.Note, a.Request), text("assignee", a.Assignee, LongestBy))...)
}

// Words checks what a person wrote beside a change: who does it, why, and the id of the request.
func Words(by, note, request string) error {
	return errors.Join(text("by", by, LongestBy), text("note", note, LongestNote), text("request", request, LongestRequest))
}

func text(name, value string, most int) error {
	if len(value) > most || !utf8.ValidString(value) {
		return fmt.Errorf("%s: must be at most %d bytes of UTF-8", name, most)
	}
	return nil
}

// Refusal says why an act cannot be done to a finding as it stands.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Standing is how a finding stands when somebody does something to it.
type Standing struct {
	State    State
	Assignee string
	Through  string // the incident through which it came to its state; empty: none
	Last     Change // the last entry of its log
}

// On gives the entry of the log that the act comes to, on a finding that stands so. None: nothing changes, for the same was
// done just before, or holds anyhow. An act that carries a request id is written down even so, since it may be repeated
// when that holds no longer. The error is a Refusal.
func (a Act) On(s Standing) (entry Change, any bool, err error) {
	c := Change{FindingID: a.FindingID, Time: a.Time, Action: a.Action, From: s.State, To: s.State, By: a.By, Note: a.Note, Request: a.Request}
	switch a.Action {
	case Acknowledge:
		if s.State == Resolved {
			return c, false, Refusal("state: a resolved finding has to be opened again before it can be acknowledged")
		}
		c.To = Acknowledged
	case Resolve:
		c.To = Resolved
	case Reopen:
		c.To = Open
	case Assign:
		c.Assignee = a.Assignee
		if a.Was != nil && *a.Was != s.Assignee && a.Assignee != s.Assignee {
			return c, false, Refusal(fmt.Sprintf("assignee: it is %q by now, and not %q as you saw it", s.Assignee, *a.Was))
		}
	}
	said := a.Note != "" && (s.Last.What() != a.Action || s.Last.By != a.By || s.Last.Note != a.Note)
	return c, c.From != c.To || c.Assignee != s.Assignee && a.Action == Assign || said || a.Request != "", nil
}

// OnMember gives the entry that the act comes to on a member of the incident that it was done to: a member goes through the
// same changes of state, and comes back with its incident where it was resolved with it. Other acts are the incident's own.
func (a Act) OnMember(id string, s Standing) (entry Change, any bool) {
	moves := a.Action == Acknowledge && s.State == Open || a.Action == Resolve && s.State != Resolved ||
		a.Action == Reopen && s.State == Resolved && s.Through == a.FindingID
	if !moves {
		return Change{}, false
	}
	incident := a.FindingID
	a.FindingID, a.Note = id, note(incident, a.Note)
	c, _, err := a.On(s)
	c.Through = incident
	return c, err == nil
}

// note is what the log of a member says of an act on its incident.
func note(incident, why string) string {
	if why == "" {
		return "with incident " + incident
	}
	return "with incident " + incident + ": " + why
}
