package rules_test

import (
	"slices"
	"testing"
	"time"

	"auditor/event"
)

const (
	ranTwice   = "4d30e2c8-3079-406b-972a-1514f46bd7d4" // delivered again after 70.3 s, and run by both workers
	killedWork = "12c61036-d939-4cfa-96ad-c4e09a9a60e5" // its worker was killed; then its second run's acknowledgement was lost
)

// Two captures of real Celery workers, without and with business keys from a template: the task that ran on two workers
// and the killed worker's task are found, and nothing else: not the retries until failure, the ignored, rejected, expired
// or timed-out task, nor the killed pool child.
func TestCelery(t *testing.T) {
	asOf := time.Date(2026, 11, 30, 20, 0, 0, 0, time.UTC)
	templates := map[string]string{}
	for _, task := range []string{"ok", "flaky", "ignored", "rejected", "hard", "suicide", "slow", "req"} {
		templates["tasks."+task] = task + ":{{ arg 0 }}"
	}
	for _, test := range []struct {
		name     string
		decoding event.DecoderConfig
		key      func(arg string) string
	}{
		{"by task id", event.DecoderConfig{}, func(string) string { return "" }},
		{"by business key", event.DecoderConfig{Keys: templates}, func(arg string) string { return "slow:" + arg }},
	} {
		t.Run(test.name, func(t *testing.T) {
			check(t, expectation{Absent: []string{"*"}}, evaluate(t, "../event/testdata/celery/events_basic.jsonl", asOf, test.decoding))
			found := evaluate(t, "../event/testdata/celery/events_vt.jsonl", asOf, test.decoding)
			check(t, expectation{Findings: []map[string]any{
				{"rule": "repeated_effect", "cause": "redelivered_while_running", "effects": 2, "task": "tasks.slow",
					"business_key": test.key("order-88"), "task_ids": []any{ranTwice}, "severity": "critical"},
				{"rule": "concurrent_runs", "cause": "redelivered_while_running", "task": "tasks.slow", "business_key": test.key("order-88")},
				{"rule": "stuck_pending", "task": "tasks.slow", "business_key": test.key("order-99"), "task_ids": []any{killedWork}, "phase": "started"},
			}}, found)
			if len(found) != 3 {
				t.Errorf("%d findings", len(found))
			}
			for _, f := range found {
				if ids := f["task_ids"].([]any); !slices.Contains([]any{ranTwice, killedWork}, ids[0]) {
					t.Errorf("a healthy task: %v", f)
				}
				t.Log(f["title"], "|", f["explanation"])
			}
		})
	}
}
