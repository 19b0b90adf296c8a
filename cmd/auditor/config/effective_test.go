package config

import (
	"strings"
	"testing"
	"time"

	"auditor/rules"
)

func effective(t *testing.T, c Config) Effective {
	t.Helper()
	e, err := c.Effective()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestDifferencesOfWhatTheRulesGoBy(t *testing.T) {
	c := Default()
	before := effective(t, c)
	if strings.Contains(before.Section, "listen") || !strings.Contains(before.Section, "stuck_after: 15m") {
		t.Errorf("the section is\n%s", before.Section)
	}
	c.Web.Title, c.Listen = "another", "127.0.0.1:1" // which the rules do not go by
	if same := effective(t, c); same != before {
		t.Errorf("it differs:\n%s", same.Section)
	}
	c.Rules.StuckAfter = time.Hour
	c.Rules.Polling = []string{"a", "b: c"}
	c.Tasks = map[string]Task{"mail.*": {BusinessKey: "k:{{ arg 0 }}", Rules: rules.Task{Off: []string{"retry_storm"}, RetryLoop: rules.RetryLoop{Retries: 30}}}}
	now := effective(t, c)
	got, err := Differences(before.Section, now.Section)
	const want = `- rules.polling: [celery.chord_unlock]
+ rules.polling: [a, b: c]
- rules.stuck_after: 15m
+ rules.stuck_after: 1h
+ tasks.mail.*.business_key: k:{{ arg 0 }}
+ tasks.mail.*.off: [retry_storm]
+ tasks.mail.*.retry_loop.retries: 30`
	if err != nil || got != want || now.Digest == before.Digest {
		t.Errorf("%v, got\n%s\nwant\n%s", err, got, want)
	}
	if same, err := Differences(now.Section, now.Section); err != nil || same != "" {
		t.Errorf("the same differs: %s, %v", same, err)
	}
}
