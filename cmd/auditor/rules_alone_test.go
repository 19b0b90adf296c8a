package main

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"auditor/event"
	"auditor/event/finding"
	"auditor/queries/querytest"
	"auditor/rules"
)

// A process that only judges goes by what the processes that ingest tell: behind their backlog no task is stuck, and where
// none of them runs it judges no further than their last word.
func TestRulesAlone(t *testing.T) {
	store, now := querytest.Store(t), time.Now().UTC().Truncate(time.Millisecond)
	id := event.PartitionID{Topic: "task-events"}
	e := event.Event{ID: "e1", Type: event.Started, Task: "report.build", TaskID: "a1", Worker: "w1", Time: now.Add(-time.Hour), KafkaTime: now.Add(-time.Hour),
		MaxRetries: event.Unknown, RetryIn: event.Unknown, Active: event.Unknown, Seq: event.Unknown, Position: event.Position{Topic: id.Topic}}
	err := store.InsertBatch(t.Context(), event.Batch{Topic: id.Topic, Records: 1, Time: e.KafkaTime, Oldest: e.KafkaTime, Events: []event.Event{e}})
	if err != nil {
		t.Fatal(err)
	}
	tell := func(end int64, newest, checked time.Time) {
		t.Helper()
		err := store.SaveProgress(t.Context(), []event.Progress{{PartitionID: id, Topics: []string{id.Topic}, Partitions: 1,
			Next: 1, End: end, Newest: newest, Checked: checked}})
		if err != nil {
			t.Fatal(err)
		}
	}
	c := rules.DefaultConfig()
	c.Interval = 100 * time.Millisecond
	registry := prometheus.NewRegistry()
	engine, err := rules.New(c, store, discardLog, registry)
	if err != nil {
		t.Fatal(err)
	}
	engine.CompleteTo((&completeness{told: store.Progress, log: discardLog}).at)
	start(t, engine.Run)
	found := func() []finding.Finding {
		t.Helper()
		all, err := store.AllFindings(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	for _, word := range []struct {
		what            string
		end             int64
		newest, checked time.Time
	}{
		{"a backlog of an hour", 500, e.KafkaTime, now},
		{"nobody ingests any more since the task began", 1, e.KafkaTime, e.KafkaTime.Add(time.Minute)},
	} {
		tell(word.end, word.newest, word.checked)
		looks := count64(t, registry, "auditor_rules_looks_total")
		eventually(t, "two more looks", func() bool { return count64(t, registry, "auditor_rules_looks_total") >= looks+2 })
		if all := found(); len(all) > 0 {
			t.Errorf("%s: found %+v", word.what, all)
		}
	}
	tell(1, e.KafkaTime, now)
	eventually(t, "the task is found to be stuck", func() bool { all := found(); return len(all) == 1 && all[0].Rule == rules.StuckPending })
	since := float64(time.Now().UnixMicro()) / 1e6
	eventually(t, "nothing is left to be judged", func() bool { return count64(t, registry, "auditor_rules_judged_time_seconds") > since })
}
