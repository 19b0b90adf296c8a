package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"auditor/event/finding"
	"auditor/rules"
)

// A window that reaches further back than the changes are kept is told, and one that lies wholly there is refused.
func TestKept(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 11, n, 0, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		name                      string
		changes, events, from, to time.Time
		note, err                 string
	}{
		{"all is kept", day(1), day(1), day(1).Add(-time.Hour), day(2), "", ""},
		{"the window began later", day(10), day(1), day(11), day(12), "", ""},
		{"it began earlier", day(10), day(1), day(9), day(12), "here since 2026-11-10T00:00:00Z: of what is older, only", ""},
		{"it ended earlier", day(10), day(1), day(8), day(9), "", "here since 2026-11-10T00:00:00Z: the window ends before"},
		{"nothing changed lately", time.Time{}, day(1), day(8), day(9), "", "nothing did since"},
	} {
		note, err := kept(c.changes, c.events, rules.Window{From: c.from, To: c.to})
		if !strings.Contains(note, c.note) || (note == "") != (c.note == "") || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q, %v", c.name, note, err)
		}
	}
}

func TestComparison(t *testing.T) {
	at := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	of := func(id string, severity finding.Severity, cause string, effects int, fields string) finding.Finding {
		f := finding.Finding{ID: id, Rule: "repeated_effect", Severity: severity, Cause: cause, Effects: effects, Task: "t\x1b", BusinessKey: id, Title: "twice", FirstSeen: at}
		if err := json.Unmarshal([]byte(fields), &f.Fields); err != nil {
			t.Fatal(err)
		}
		return f
	}
	c := comparison{nameA: "a.yaml", nameB: "b.yaml",
		a: []finding.Finding{
			of("same", finding.Critical, "unknown", 2, `{"gap_seconds":1.5,"certainty":"certain"}`),
			of("graver", finding.Critical, "unknown", 2, `{"retries":5,"certainty":"certain"}`),
			of("only", finding.Info, "", 0, `{}`),
		},
		b: []finding.Finding{
			of("same", finding.Critical, "unknown", 2, `{"gap_seconds":2.5,"certainty":"certain"}`),
			of("graver", finding.Warning, "worker_lost", 3, `{"retries":6,"certainty":"unsure","waves":2}`),
			of("other", finding.Critical, "", 0, `{}`),
		}}
	var text strings.Builder
	if err := c.print(&text, "Replayed", false); err != nil {
		t.Fatal(err)
	}
	want := `Replayed; A is a.yaml, B is b.yaml.

IN    SEVERITY  RULE             CAUSE    TASK  KEY     FIRST SEEN            WHAT
both  critical  repeated_effect  unknown  t�    graver  2026-11-02 00:00:00Z  cause: unknown in A, worker_lost in B; certainty: certain in A, unsure in B; ` +
		`effects: 2 in A, 3 in B; retries: 5 in A, 6 in B; severity: critical in A, warning in B; waves: - in A, 2 in B
B     critical  repeated_effect  -        t�    other   2026-11-02 00:00:00Z  twice
A     info      repeated_effect  -        t�    only    2026-11-02 00:00:00Z  twice

1 finding found by A only, 1 by B only, 1 by both but not the same, 1 the same. Nothing was written.
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Error(diff)
	}
	text.Reset()
	if err := c.print(&text, "Replayed", true); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	if len(lines) != 4 || !strings.Contains(lines[0], `"severity":["critical","warning"]`) ||
		lines[3] != `{"config_a":"a.yaml","config_b":"b.yaml","only_a":1,"only_b":1,"differ":1,"same":1}` {
		t.Error(text.String())
	}
}
