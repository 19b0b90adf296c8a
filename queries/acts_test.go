package queries

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"auditor/event/finding"
	"auditor/event/view"
)

// saved gives the id of a finding that the auditor has found.
func saved(t *testing.T, s *Store, id string, change ...func(*finding.Finding)) string {
	t.Helper()
	f := aFinding(id)
	for _, c := range change {
		c(&f)
	}
	if err := s.SaveFindings(t.Context(), []finding.Finding{f}, about(f.ID, []finding.Change{step(finding.Open, "auditor", 0)})); err != nil {
		t.Fatal(err)
	}
	return f.ID
}

func act(id string, action finding.Action, by, note string) finding.Act {
	return finding.Act{FindingID: id, Action: action, By: by, Note: note, Time: noon.Add(time.Hour)}
}

// logOf is the log of a finding, from its second entry on, in words.
func logOf(t *testing.T, s *Store, id string) []string {
	t.Helper()
	log, err := s.Pages().FindingLog(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	words := []string{}
	for i, c := range log {
		if i > 0 && !c.Time.After(log[i-1].Time) {
			t.Errorf("entry %d is of %s, the one before of %s", i, c.Time, log[i-1].Time)
		}
		if i > 0 {
			words = append(words, strings.TrimSpace(fmt.Sprintf("%s %s>%s %s %s %s", c.What(), c.From, c.To, c.By, c.Assignee, c.Note)))
		}
	}
	return words
}

func TestActs(t *testing.T) {
	s := newStore(t)
	ack, comment, resolve, reopen := finding.Acknowledge, finding.Comment, finding.Resolve, finding.Reopen
	assign := func(to string, was *string) finding.Act {
		a := act("", finding.Assign, "ada", "")
		a.Assignee, a.Was = to, was
		return a
	}
	requested := func(a finding.Act, request string) finding.Act { a.Request = request; return a }
	for _, c := range []struct {
		name     string
		acts     []finding.Act
		state    finding.State
		assignee string
		log      []string
		refused  string // the last act
	}{
		{"acknowledged", []finding.Act{act("", ack, "ada", "")}, finding.Acknowledged, "", []string{"acknowledge open>acknowledged ada"}, ""},
		{"twice", []finding.Act{act("", ack, "ada", "I look"), act("", ack, "ada", "I look")}, finding.Acknowledged, "",
			[]string{"acknowledge open>acknowledged ada  I look"}, ""},
		{"by two", []finding.Act{act("", ack, "ada", ""), act("", ack, "bob", "me too")}, finding.Acknowledged, "",
			[]string{"acknowledge open>acknowledged ada", "acknowledge acknowledged>acknowledged bob  me too"}, ""},
		{"comments", []finding.Act{act("", comment, "ada", "hm"), act("", comment, "ada", "hm"), act("", comment, "bob", "hm"), act("", comment, "ada", "hm")},
			finding.Open, "", []string{"comment open>open ada  hm", "comment open>open bob  hm", "comment open>open ada  hm"}, ""},
		{"a whole life", []finding.Act{act("", ack, "ada", ""), act("", resolve, "ada", "mended"), act("", resolve, "bob", ""), act("", reopen, "bob", "not so")},
			finding.Open, "", []string{"acknowledge open>acknowledged ada", "resolve acknowledged>resolved ada  mended", "reopen resolved>open bob  not so"}, ""},
		{"resolved is not acknowledged", []finding.Act{act("", resolve, "ada", ""), act("", ack, "bob", "")}, finding.Resolved, "",
			[]string{"resolve open>resolved ada"}, "state: a resolved finding has to be opened again"},
		{"assigned", []finding.Act{assign("bob", nil), assign("bob", nil), assign("eve", nil)}, finding.Open, "eve",
			[]string{"assign open>open ada bob", "assign open>open ada eve"}, ""},
		{"taken off", []finding.Act{assign("bob", nil), assign("", nil)}, finding.Open, "", []string{"assign open>open ada bob", "assign open>open ada"}, ""},
		{"assigned by two who saw nobody", []finding.Act{assign("bob", new("")), assign("eve", new(""))}, finding.Open, "bob",
			[]string{"assign open>open ada bob"}, `assignee: it is "bob" by now`},
		{"stays assigned", []finding.Act{assign("bob", nil), act("", resolve, "bob", ""), act("", reopen, "bob", "")}, finding.Open, "bob",
			[]string{"assign open>open ada bob", "resolve open>resolved bob", "reopen resolved>open bob"}, ""},
		{"one request", []finding.Act{requested(act("", ack, "ada", ""), "r1"), act("", resolve, "bob", ""), act("", reopen, "bob", ""), requested(act("", ack, "ada", ""), "r1")},
			finding.Open, "", []string{"acknowledge open>acknowledged ada", "resolve acknowledged>resolved bob", "reopen resolved>open bob"}, ""},
		{"a request that changed nothing", []finding.Act{act("", resolve, "bob", ""), requested(act("", resolve, "ada", ""), "r1"), act("", reopen, "bob", ""), requested(act("", resolve, "ada", ""), "r1")},
			finding.Open, "", []string{"resolve open>resolved bob", "resolve resolved>resolved ada", "reopen resolved>open bob"}, ""},
		{"one id, two requests", []finding.Act{requested(act("", comment, "ada", "hm"), "r1"), requested(act("", comment, "ada", "ha"), "r1")}, finding.Open, "",
			[]string{"comment open>open ada  hm"}, "request: this id was given to another change"},
		{"two requests that say the same", []finding.Act{requested(act("", comment, "ada", "hm"), "r1"), requested(act("", comment, "ada", "hm"), "r2")}, finding.Open, "",
			[]string{"comment open>open ada  hm", "comment open>open ada  hm"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := saved(t, s, t.Name())
			for i, a := range c.acts {
				a.FindingID = id
				err := s.Act(t.Context(), a)
				var refusal finding.Refusal
				switch last := i == len(c.acts)-1 && c.refused != ""; {
				case last && (!errors.As(err, &refusal) || !strings.HasPrefix(err.Error(), c.refused)):
					t.Errorf("act %d: %v, want %q", i, err, c.refused)
				case !last && err != nil:
					t.Fatalf("act %d: %v", i, err)
				}
			}
			f, err := s.Pages().Finding(t.Context(), id)
			if err != nil || f.State != c.state || f.Assignee != c.assignee {
				t.Errorf("it is %s and %q's, want %s and %q's; %v", f.State, f.Assignee, c.state, c.assignee, err)
			}
			if diff := gocmp.Diff(c.log, logOf(t, s, id)); diff != "" {
				t.Errorf("log, want (-), got (+):\n%s", diff)
			}
		})
	}
}

func TestActsThatCannotBe(t *testing.T) {
	s := newStore(t)
	id := saved(t, s, "a")
	for name, a := range map[string]finding.Act{
		"no such action":        act(id, "paint", "ada", ""),
		"an empty comment":      act(id, finding.Comment, "ada", ""),
		"a long name":           act(id, finding.Resolve, strings.Repeat("a", 101), ""),
		"a long note":           act(id, finding.Resolve, "ada", strings.Repeat("a", 2001)),
		"bad text":              act(id, finding.Resolve, "ada", "\xff"),
		"an assignee of a note": {FindingID: id, Action: finding.Comment, Note: "x", Assignee: "bob"},
	} {
		if err := s.Act(t.Context(), a); err == nil {
			t.Errorf("%s: done", name)
		}
	}
	if err := s.Act(t.Context(), act("gone", finding.Resolve, "ada", "")); !errors.Is(err, view.ErrNotFound) {
		t.Errorf("a finding that is not there: %v", err)
	}
	if log := logOf(t, s, id); len(log) > 0 {
		t.Errorf("logged %v", log)
	}
}

// A client that gets no answer asks again, and the first request may still be under way.
func TestRequestThatComesManyTimesAtOnceIsWrittenOnce(t *testing.T) {
	s := newStore(t)
	id := saved(t, s, "a")
	a := act(id, finding.Comment, "ada", "once")
	a.Request = "r1"
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := s.Act(t.Context(), a); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := number(t, s, "SELECT count() FROM finding_log WHERE request = 'r1'"); n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
}

// Two people do something at once, neither knowing of the other: both are in the log.
func TestActsAtOnceAreAllKept(t *testing.T) {
	s := newStore(t)
	id := saved(t, s, "a")
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			if err := s.Act(t.Context(), act(id, finding.Comment, "ada", fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := number(t, s, "SELECT count() FROM finding_log FINAL WHERE action = 'comment'"); n != 8 {
		t.Errorf("%d comments, want 8", n)
	}
}

// A note that crosses a resolution does not bring the finding back.
func TestNoteThatCrossesAResolution(t *testing.T) {
	s := newStore(t)
	id := saved(t, s, "a")
	crossing := about(id, []finding.Change{step(finding.Resolved, "auditor", 1), step(finding.Open, "ada", 2)})
	crossing[0].From, crossing[1].From = finding.Open, finding.Open
	if err := s.insert(t.Context(), "finding_log", "", changeBlock(crossing)); err != nil {
		t.Fatal(err)
	}
	if got := theFinding(t, s, id).State; got != finding.Resolved {
		t.Errorf("state %s, want resolved", got)
	}
}

func TestActOnAnIncidentIsDoneToItsMembers(t *testing.T) {
	s := newStore(t)
	incident := saved(t, s, "incident", func(f *finding.Finding) { f.Rule = "incident" })
	member := func(f *finding.Finding) { f.Fields["incident"] = incident }
	open, over, other := saved(t, s, "open", member), saved(t, s, "over", member), saved(t, s, "other")
	for _, a := range []finding.Act{
		act(over, finding.Resolve, "bob", ""), act(incident, finding.Comment, "ada", "hm"), act(incident, finding.Acknowledge, "ada", ""),
		act(incident, finding.Resolve, "ada", "mended"), act(incident, finding.Resolve, "ada", "mended"), act(incident, finding.Reopen, "bob", ""),
	} {
		if err := s.Act(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string][]string{
		incident: {"comment open>open ada  hm", "acknowledge open>acknowledged ada", "resolve acknowledged>resolved ada  mended", "reopen resolved>open bob"},
		open: {"acknowledge open>acknowledged ada  with incident incident", "resolve acknowledged>resolved ada  with incident incident: mended",
			"reopen resolved>open bob  with incident incident"},
		over:  {"resolve open>resolved bob"},
		other: {},
	}
	for id, log := range want {
		if diff := gocmp.Diff(log, logOf(t, s, id)); diff != "" {
			t.Errorf("log of %s, want (-), got (+):\n%s", id, diff)
		}
	}
	// A member that joined later goes with the incident when the same is asked for again.
	if err := s.Act(t.Context(), act(incident, finding.Acknowledge, "ada", "")); err != nil {
		t.Fatal(err)
	}
	late := saved(t, s, "late", member)
	if err := s.Act(t.Context(), act(incident, finding.Acknowledge, "ada", "")); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff([]string{"acknowledge open>acknowledged ada  with incident incident"}, logOf(t, s, late)); diff != "" {
		t.Error(diff)
	}
}
