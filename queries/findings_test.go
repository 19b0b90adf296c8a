package queries

import (
	"math"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"auditor/event"
	"auditor/event/finding"
)

func aFinding(id string) finding.Finding {
	return finding.Finding{
		ID: id, Rule: "repeated_effect", Severity: finding.Critical, State: finding.Open, Namespace: "prod", Task: "shop.settle",
		BusinessKey: "settle:1", TaskIDs: []string{"t1", "t'2\x00\n"}, Cause: "worker_lost", Effects: 2,
		FirstSeen: noon, LastSeen: noon.Add(time.Minute), Title: "twice", Explanation: "It's\n\x00 so", Remedy: "mend",
		Fields:    map[string]any{"effect": "payment.charge", "gap": 9.5, "runs": []any{"a", nil}},
		Evidence:  []finding.Evidence{{Says: "started", EventID: "e1", Type: event.Started, Time: noon, Topic: "task-events", Offset: 4}},
		UpdatedAt: noon.Add(2 * time.Minute),
	}
}

func theFinding(t *testing.T, s *Store, id string) finding.Finding {
	t.Helper()
	found, err := s.Findings(t.Context(), []string{id})
	if err != nil {
		t.Fatal(err)
	}
	return found[id]
}

func TestFindingsReadBackAsTheyWereSaved(t *testing.T) {
	s := newStore(t)
	full, bare := aFinding("a"), finding.Finding{ID: "b", Rule: "retry_storm", Severity: finding.Warning}
	if err := s.SaveFindings(t.Context(), []finding.Finding{full, bare}, nil); err != nil {
		t.Fatal(err)
	}
	found, err := s.Findings(t.Context(), []string{"a", "b", "none"})
	if err != nil {
		t.Fatal(err)
	}
	full.Version, bare.Version, bare.State = 1, 1, finding.Open
	bare.TaskIDs, bare.Fields, bare.Evidence = []string{}, map[string]any{}, []finding.Evidence{}
	if diff := gocmp.Diff(map[string]finding.Finding{"a": full, "b": bare}, found); diff != "" {
		t.Errorf("saved (-), read (+):\n%s", diff)
	}
}

func TestFindingThatCannotBeWrittenIsAnError(t *testing.T) {
	f := aFinding("a")
	f.Fields["gap"] = math.NaN()
	if err := newStore(t).SaveFindings(t.Context(), []finding.Finding{f}, nil); err == nil {
		t.Error("no error")
	}
}

func TestNewestVersionOfAFindingCounts(t *testing.T) {
	s := newStore(t)
	f := aFinding("a")
	for range 3 {
		f.Effects++
		if err := s.SaveFindings(t.Context(), []finding.Finding{f}, nil); err != nil {
			t.Fatal(err)
		}
		got := theFinding(t, s, "a")
		if got.Effects != f.Effects || got.Version != f.Version+1 {
			t.Fatalf("got %d effects in version %d", got.Effects, got.Version)
		}
		f = got
	}
	if n := number(t, s, "SELECT count() FROM findings"); n != 1 {
		t.Errorf("%d findings, want 1", n)
	}
}

// step is a change made by who at a time by a clock of their own.
func step(to finding.State, by string, after time.Duration) finding.Change {
	return finding.Change{Time: noon.Add(after), To: to, By: by}
}

func about(id string, changes []finding.Change) []finding.Change {
	changes = slices.Clone(changes)
	for i := range changes {
		changes[i].FindingID = id
	}
	return changes
}

// The rules grow and resolve a finding while a person acknowledges it: neither may lose what it did.
func TestStateFollowsFromTheLog(t *testing.T) {
	const open, acked, resolved = finding.Open, finding.Acknowledged, finding.Resolved
	s := newStore(t)
	for _, c := range []struct {
		name  string
		steps []finding.Change
		want  finding.State
		log   int
	}{
		{"nothing logged", nil, open, 0},
		{"found", []finding.Change{step(open, "auditor", 0)}, open, 1},
		{"acknowledged", []finding.Change{step(open, "auditor", 0), step(acked, "ada", 1)}, acked, 2},
		{"resolved", []finding.Change{step(open, "auditor", 0), step(acked, "ada", 1), step(resolved, "auditor", 2)}, resolved, 3},
		{"reopened", []finding.Change{step(open, "auditor", 0), step(acked, "ada", 1), step(resolved, "auditor", 2), step(open, "auditor", 3)}, open, 4},
		{"acknowledged again", []finding.Change{step(open, "auditor", 0), step(acked, "ada", 1), step(open, "auditor", 2), step(acked, "ada", 3)}, acked, 4},
		{"acknowledgement by a clock ahead, then resolved", []finding.Change{step(open, "auditor", 0), step(acked, "ada", time.Hour), step(resolved, "auditor", time.Minute)}, resolved, 3},
		{"acknowledgement after the end", []finding.Change{step(open, "auditor", 0), step(resolved, "auditor", 1), step(acked, "ada", 2)}, resolved, 3},
		{"all within one moment", []finding.Change{step(open, "auditor", 0), step(resolved, "auditor", 0), step(open, "auditor", 0)}, open, 3},
		{"the same again", []finding.Change{step(open, "auditor", 0), step(open, "auditor", 1), step(acked, "ada", 2), step(acked, "ada", 2)}, acked, 2},
		{"a note", []finding.Change{step(open, "auditor", 0), {Time: noon, From: open, To: open, By: "ada", Note: "looking"}}, open, 2},
	} {
		for _, how := range []string{"one by one", "at once"} {
			t.Run(c.name+" "+how, func(t *testing.T) {
				saved := aFinding(t.Name())
				steps := about(saved.ID, c.steps)
				if how == "at once" {
					if err := s.SaveFindings(t.Context(), []finding.Finding{saved}, steps); err != nil {
						t.Fatal(err)
					}
				} else {
					for _, change := range steps {
						if err := s.SaveFindings(t.Context(), nil, []finding.Change{change}); err != nil {
							t.Fatal(err)
						}
					}
					if err := s.SaveFindings(t.Context(), []finding.Finding{saved}, nil); err != nil {
						t.Fatal(err)
					}
				}
				if got := theFinding(t, s, saved.ID); got.State != c.want || got.Effects != saved.Effects {
					t.Errorf("state %s, want %s", got.State, c.want)
				}
				if n := number(t, s, "SELECT count() FROM finding_log WHERE finding_id = '"+saved.ID+"'"); int(n) != c.log {
					t.Errorf("%d entries in the log, want %d", n, c.log)
				}
			})
		}
	}
}

// Two processes that both saw the finding open write their changes without knowing of each other.
func TestChangesThatCrossEachOther(t *testing.T) {
	s := newStore(t)
	for name, order := range map[string][]finding.Change{
		"acknowledged first": {step(finding.Acknowledged, "ada", 1), step(finding.Resolved, "auditor", 2)},
		"resolved first":     {step(finding.Resolved, "auditor", 1), step(finding.Acknowledged, "ada", 2)},
		"same moment":        {step(finding.Resolved, "auditor", 1), step(finding.Acknowledged, "ada", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			f := aFinding(t.Name())
			found := about(f.ID, []finding.Change{step(finding.Open, "auditor", 0)})
			if err := s.SaveFindings(t.Context(), []finding.Finding{f}, found); err != nil {
				t.Fatal(err)
			}
			crossing := about(f.ID, order)
			for i := range crossing {
				crossing[i].From = finding.Open
			}
			if err := s.insert(t.Context(), "finding_log", "", changeBlock(crossing)); err != nil {
				t.Fatal(err)
			}
			if got := theFinding(t, s, f.ID).State; got != finding.Resolved {
				t.Errorf("state %s, want resolved", got)
			}
		})
	}
}

func TestCursorKeepsTheLaterCall(t *testing.T) {
	s := newStore(t)
	p0, p1 := event.PartitionID{Topic: "task-events"}, event.PartitionID{Topic: "task-events", Partition: 1}
	if got, err := s.Cursor(t.Context(), "rules"); err != nil || len(got) != 0 {
		t.Fatalf("before: %v, %v", got, err)
	}
	for _, at := range []event.Cursor{{p0: 10, p1: 20}, {}, {p0: 30}, {p1: 5}} {
		if err := s.SaveCursor(t.Context(), "rules", at); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SaveCursor(t.Context(), "another", event.Cursor{p0: 99}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Cursor(t.Context(), "rules")
	if diff := gocmp.Diff(event.Cursor{p0: 30, p1: 5}, got); diff != "" || err != nil {
		t.Errorf("want (-), got (+): %s %v", diff, err)
	}
}

func TestManyFindingsAtOnce(t *testing.T) {
	s := newStore(t)
	var all []finding.Finding
	var changes []finding.Change
	for i := range 2500 {
		f := aFinding(finding.ID("repeated_effect", "", "x", string(rune(i))))
		all = append(all, f)
		changes = append(changes, finding.Change{FindingID: f.ID, Time: noon, To: finding.Open, By: "auditor"})
	}
	for range 2 {
		if err := s.SaveFindings(t.Context(), all, changes); err != nil {
			t.Fatal(err)
		}
	}
	ids := pluck(all, func(f *finding.Finding) string { return f.ID })
	slices.Reverse(ids)
	found, err := s.Findings(t.Context(), ids)
	if err != nil || len(found) != len(all) {
		t.Errorf("%d findings, %v; want %d", len(found), err, len(all))
	}
	if n := number(t, s, "SELECT count() FROM finding_log"); int(n) != len(all) {
		t.Errorf("%d entries in the log, want %d", n, len(all))
	}
}

// What a finding comes from is told again when the finding, or its state, has changed; not for what others come from.
func TestFreshRoots(t *testing.T) {
	s := newStore(t)
	one, other := aFinding("a"), aFinding("b")
	one.Rule, one.Fields = "repeated_effect", map[string]any{"root": map[string]any{"kind": "redelivery", "at": noon}}
	other.Rule, other.UpdatedAt = "repeated_effect", noon.Add(time.Hour)
	if err := s.SaveFindings(t.Context(), []finding.Finding{one, other}, nil); err != nil {
		t.Fatal(err)
	}
	roots := func(since time.Time) string {
		first, last, any, err := s.FreshRoots(t.Context(), since)
		if err != nil {
			t.Fatal(err)
		}
		if !any {
			return "none"
		}
		return first.Format(time.TimeOnly) + " " + last.Format(time.TimeOnly)
	}
	if got := roots(one.UpdatedAt); got != "12:00:00 12:00:00" {
		t.Errorf("just written: %s", got)
	}
	later := one.UpdatedAt.Add(time.Minute)
	if got := roots(later); got != "none" {
		t.Errorf("nothing has changed: %s", got)
	}
	if err := s.ChangeFindings(t.Context(), []finding.Change{{FindingID: "a", Time: later, To: finding.Resolved, By: "alice"}}); err != nil {
		t.Fatal(err)
	}
	if got := roots(later); got != "12:00:00 12:00:00" {
		t.Errorf("resolved: %s", got)
	}
	all, err := s.Rooted(t.Context(), noon.Add(-time.Hour), noon.Add(time.Hour))
	if err != nil || len(all) != 1 || all[0].ID != "a" || all[0].State != finding.Resolved {
		t.Errorf("rooted: %+v, %v", all, err)
	}
}
