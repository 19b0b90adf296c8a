package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"auditor/event"
	"auditor/ingest"
)

func TestCompleteness(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	topics := []string{"a"}
	told := func(partition int32, change func(*event.Progress)) event.Progress {
		p := event.Progress{PartitionID: event.PartitionID{Topic: "a", Partition: partition}, Topics: topics, Partitions: 2,
			Next: 10, End: 10, Newest: now.Add(-time.Hour), Checked: now.Add(-time.Second)}
		if change != nil {
			change(&p)
		}
		return p
	}
	behind := func(p *event.Progress) { p.End, p.Newest = 15, now.Add(-20*time.Minute) }
	silent := func(p *event.Progress) { p.Checked = now.Add(-5 * time.Minute) }
	stopped := func(p *event.Progress) {
		*p = event.Progress{PartitionID: p.PartitionID, Topics: topics, Partitions: 2, Next: -1, Problem: "topic_shorter"}
	}
	own := func(change func(*ingest.PartitionStatus)) *ingest.Status {
		p := ingest.PartitionStatus{Topic: "a", Partition: 0, Partitions: 2, Next: 20, HighWatermark: 20, Checked: now.Add(-time.Millisecond)}
		if change != nil {
			change(&p)
		}
		return &ingest.Status{Assigned: true, Topics: topics, Partitions: []ingest.PartitionStatus{p}}
	}
	for _, test := range []struct {
		name string
		told []event.Progress
		own  *ingest.Status
		want time.Time
	}{
		{"nobody told anything", nil, nil, time.Time{}},
		{"one partition is not told of", []event.Progress{told(0, nil)}, nil, time.Time{}},
		{"a topic is not told of", []event.Progress{told(0, nil), told(1, func(p *event.Progress) { p.Topics = []string{"a", "b"} })}, nil, time.Time{}},
		{"all read", []event.Progress{told(0, nil), told(1, nil)}, nil, now.Add(-time.Second)},
		{"a backlog", []event.Progress{told(0, nil), told(1, behind)}, nil, now.Add(-20 * time.Minute)},
		{"no process reads any more", []event.Progress{told(0, silent), told(1, silent)}, nil, now.Add(-5 * time.Minute)},
		{"one stands still", []event.Progress{told(0, nil), told(1, stopped)}, nil, now.Add(-time.Second)},
		{"a clock runs ahead", []event.Progress{told(0, nil), told(1, func(p *event.Progress) { p.Checked = now.Add(time.Hour) })}, nil, now.Add(-time.Second)},
		{"this process knows better of its own", []event.Progress{told(0, behind), told(1, nil)}, own(nil), now.Add(-time.Second)},
		{"this process has all there is", nil, own(func(p *ingest.PartitionStatus) { p.Partitions = 1 }), now.Add(-time.Millisecond)},
		{"this process was just given one", []event.Progress{told(0, behind), told(1, nil)}, own(func(p *ingest.PartitionStatus) { p.Next = -1 }), now.Add(-20 * time.Minute)},
		{"not assigned yet, and nobody told", nil, &ingest.Status{}, time.Time{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var away error
			c := completeness{log: discardLog, told: func(context.Context) ([]event.Progress, error) { return test.told, away }}
			if test.own != nil {
				c.status = func() ingest.Status { return *test.own }
			}
			if got := c.at(t.Context(), now); !got.Equal(test.want) {
				t.Errorf("complete to %s, want %s", got, test.want)
			}
			away = errors.New("no answer")
			if got := c.at(t.Context(), now.Add(time.Hour)); !got.Equal(test.want) {
				t.Errorf("then the store is away: complete to %s, want %s still", got, test.want)
			}
		})
	}
}

func TestCompletenessLeavesAClusterTimeToSettle(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	p := event.Progress{PartitionID: event.PartitionID{Topic: "a"}, Topics: []string{"a"}, Partitions: 1, Next: 10, End: 10, Checked: now.Add(-time.Second)}
	c := completeness{log: discardLog, settle: 5 * time.Second, told: func(context.Context) ([]event.Progress, error) { return []event.Progress{p}, nil }}
	if got, want := c.at(t.Context(), now), now.Add(-6*time.Second); !got.Equal(want) {
		t.Errorf("complete to %s, want %s", got, want)
	}
	p.Checked = time.Time{}
	if got := c.at(t.Context(), now); !got.IsZero() {
		t.Errorf("complete to %s, and nothing is known", got)
	}
}

func TestRulesSayOnceThatTheyWait(t *testing.T) {
	var said bytes.Buffer
	c := completeness{log: slog.New(slog.NewTextHandler(&said, nil)), told: func(context.Context) ([]event.Progress, error) { return nil, nil }}
	for range 3 {
		c.at(t.Context(), time.Now())
	}
	if n := strings.Count(said.String(), "rules wait"); n != 1 {
		t.Errorf("said %d times: %s", n, &said)
	}
}

func TestPartitionsThatStandStillAreNoted(t *testing.T) {
	var s ingest.Status
	note := noteKafka(func() ingest.Status { return s })
	for partition := range int32(8) {
		s.Partitions = append(s.Partitions, ingest.PartitionStatus{Topic: "t", Partition: partition})
	}
	if got := note(); got != "" {
		t.Errorf("%q, although none stands still", got)
	}
	s.Assigned = true
	s.Partitions[3].Stopped = ingest.Compacted
	if got, want := note(), "1 of 8 partitions stand still: t/3 topic_compacted"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if err := checkKafka(func() ingest.Status { return s })(t.Context()); err != nil {
		t.Errorf("not ready: %v", err)
	}
	for i := range s.Partitions {
		s.Partitions[i].Stopped = ingest.Shorter
	}
	if got, want := note(), "8 of 8 partitions stand still: t/0 topic_shorter, t/1 topic_shorter, t/2 topic_shorter, t/3 topic_shorter, t/4 topic_shorter, ..."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
