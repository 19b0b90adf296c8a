package main

import (
	"testing"
	"time"

	"auditor/ingest"
)

func TestCompleteness(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	read := ingest.PartitionStatus{Checked: now.Add(-time.Second), Newest: now.Add(-time.Hour)}
	behind := ingest.PartitionStatus{Checked: now, Newest: now.Add(-20 * time.Minute), Lag: 5}
	stopped := ingest.PartitionStatus{Stopped: "topic_shrank"}
	for _, test := range []struct {
		name   string
		status ingest.Status
		want   time.Time
	}{
		{"not assigned yet", ingest.Status{}, time.Time{}},
		{"assigned, nothing asked yet", ingest.Status{Assigned: true, Partitions: []ingest.PartitionStatus{read, {}}}, time.Time{}},
		{"all read", ingest.Status{Assigned: true, Partitions: []ingest.PartitionStatus{read}}, now.Add(-time.Second)},
		{"a backlog", ingest.Status{Assigned: true, Partitions: []ingest.PartitionStatus{read, behind}}, now.Add(-20 * time.Minute)},
		{"one stands still", ingest.Status{Assigned: true, Partitions: []ingest.PartitionStatus{read, stopped}}, now.Add(-time.Second)},
		{"other processes have all partitions", ingest.Status{Assigned: true}, now},
	} {
		c := completeness{status: func() ingest.Status { return test.status }}
		if got := c.at(now); !got.Equal(test.want) {
			t.Errorf("%s: complete to %s, want %s", test.name, got, test.want)
		}
		c.status = func() ingest.Status { return ingest.Status{Trouble: "no broker answers"} }
		if got := c.at(now.Add(time.Hour)); !got.Equal(test.want) {
			t.Errorf("%s, then Kafka is away: complete to %s, want %s still", test.name, got, test.want)
		}
	}
}
