package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"auditor/event/finding"
	"auditor/event/view"
	"auditor/ingest"
)

func line(t *testing.T, p *progress) string {
	events, open := p.look(t.Context())
	return events + open
}

func TestProgressLine(t *testing.T) {
	p := progress{
		ingested: func() ingest.Status {
			return ingest.Status{Partitions: []ingest.PartitionStatus{{Next: 12000, Lag: 5}, {Next: -1}, {Next: 345, Lag: 2}}}
		},
		findings: func(context.Context) ([]view.FindingCount, error) {
			return []view.FindingCount{
				{Rule: "repeated_effect", State: finding.Open, Count: 2},
				{Rule: "retry_storm", State: finding.Resolved, Count: 7},
				{Rule: "repeated_effect", State: finding.Acknowledged, Count: 1},
				{Rule: "stuck_pending", State: finding.Open, Count: 1},
			}, nil
		},
	}
	const want = "12,345 events, lag 7, open findings: repeated_effect 3, stuck_pending 1"
	if got := line(t, &p); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	p.findings = func(context.Context) ([]view.FindingCount, error) { return nil, nil }
	if got := line(t, &p); !strings.HasSuffix(got, "open findings: none yet") {
		t.Error(got)
	}
	p.findings = func(context.Context) ([]view.FindingCount, error) { return nil, errors.New("away") }
	if got := line(t, &p); got != "12,345 events, lag 7" {
		t.Error(got)
	}
}

func TestProgressIsCalm(t *testing.T) {
	for _, c := range []struct {
		name     string
		terminal bool
		want     string
	}{
		{"terminal", true, strings.Repeat("\r0 events, lag 0", 30) + "\n"},
		{"file", false, strings.Repeat("0 events, lag 0\n", 2)},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out strings.Builder
				p := progress{out: &out, terminal: c.terminal,
					ingested: func() ingest.Status { return ingest.Status{} },
					findings: func(context.Context) ([]view.FindingCount, error) { return nil, errors.New("away") },
				}
				ctx, cancel := context.WithTimeout(t.Context(), 61*time.Second)
				defer cancel()
				if err := p.run(ctx); err != nil {
					t.Fatal(err)
				}
				if out.String() != c.want {
					t.Errorf("%q\nwant\n%q", out.String(), c.want)
				}
			})
		})
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 events", 1: "1 event", 999: "999 events", 1000: "1,000 events", 1234567: "1,234,567 events"} {
		if got := count(n, "event"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestPrintableKeepsTheCursorStill(t *testing.T) {
	if got := printable("key\x1b[2J\r\n:ü\u202e"); got != "key\ufffd[2J\ufffd\ufffd:ü\ufffd" {
		t.Errorf("%q", got)
	}
}
