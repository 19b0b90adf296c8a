package web_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"auditor/event/finding"
	"auditor/event/view"
	"auditor/web"
)

func TestAPIFindings(t *testing.T) {
	store := full()
	server := newServer(t, store)
	a := call(t, server, "GET", "/api/v1/findings?rule=repeated_effect&state=open&business_key=receipt:9&task=a1&severity=critical&limit=7", "")
	var got struct {
		Items      []map[string]any `json:"items"`
		NextCursor *string          `json:"next_cursor"`
	}
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || len(got.Items) != 1 || got.NextCursor == nil || *got.NextCursor != "" {
		t.Fatalf("%s %v", a.body, err)
	}
	for name, want := range map[string]any{"id": "0123456789abcdef01234567", "rule": "repeated_effect", "state": "open", "business_key": "receipt:9", "effects": 2.0, "gap_seconds": 11.3} {
		if got.Items[0][name] != want {
			t.Errorf("%s is %v", name, got.Items[0][name])
		}
	}
	want := view.FindingFilter{Rule: "repeated_effect", States: []finding.State{"open"}, BusinessKey: "receipt:9", Task: "a1", Severity: "critical", Silenced: new(false), Limit: 7}
	if diff := cmp.Diff(want, store.filter); diff != "" {
		t.Error(diff)
	}
	if a := call(t, newServer(t, &fake{}), "GET", "/api/v1/findings", ""); strings.TrimSpace(a.body) != `{"items":[],"next_cursor":""}` {
		t.Errorf("of none: %s", a.body)
	}
}

func TestAPIRefusesWhatItDoesNotKnow(t *testing.T) {
	server := newServer(t, full())
	for path, name := range map[string]string{
		"/api/v1/findings?ruel=a": "ruel", "/api/v1/findings?state=gone": "state", "/api/v1/findings?severity=x": "severity", "/api/v1/findings?limit=0": "limit",
		"/api/v1/findings?limit=501": "limit", "/api/v1/findings?limit=x": "limit", "/api/v1/findings?rule=a&rule=b": "rule", "/api/v1/findings?cursor=bad": "cursor",
		"/api/v1/findings?sort=x": "sort", "/api/v1/findings?since=yesterday": "since", "/api/v1/keys": "business_key", "/api/v1/keys?key=a": "key",
		"/api/v1/events": "task_id", "/api/v1/events?task_id=a&business_key=b": "task_id", "/api/v1/rejects?cursor=x": "cursor", "/api/v1/rejects?before=x": "before: no such parameter; known here are topic, partition, reason, state, since, until, cursor, limit",
		"/api/v1/status?x=1": "x: no such parameter; this call takes none",
	} {
		a := call(t, server, "GET", path, "")
		var got struct{ Error string }
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.StatusCode != 400 || !strings.Contains(got.Error, name) {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
}

func TestAPIState(t *testing.T) {
	const path = "/api/v1/findings/0123456789abcdef01234567/state"
	const kind = "application/json"
	for _, c := range []struct {
		name, body, kind string
		status           int
	}{
		{"acknowledge", `{"state":"acknowledged","by":"ada","note":"looking"}`, kind, 200},
		{"with charset", `{"state":"resolved"}`, "application/json; charset=utf-8", 200},
		{"no such state", `{"state":"gone"}`, kind, 400},
		{"unknown field", `{"state":"open","who":"ada"}`, kind, 400},
		{"two objects", `{"state":"open"}{}`, kind, 400},
		{"no JSON", `state=open`, kind, 400},
		{"a form", `state=open`, form, 415},
		{"too large", `{"state":"open","note":"` + strings.Repeat("a", 70<<10) + `"}`, kind, 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := full()
			a := call(t, newServer(t, store), "POST", path, c.body, "Content-Type", c.kind)
			if a.StatusCode != c.status {
				t.Fatalf("%d, want %d: %s", a.StatusCode, c.status, a.body)
			}
			if c.status == 200 && (len(store.log) != 1 || !strings.Contains(a.body, `"state":"`+string(store.log[0].To)+`"`)) {
				t.Errorf("log %v, answer %s", store.log, a.body)
			}
			if c.status != 200 && len(store.log) > 0 {
				t.Errorf("logged %v", store.log)
			}
		})
	}
	if a := call(t, newServer(t, full()), "POST", strings.Replace(path, "0123", "9999", 1), `{"state":"open"}`, "Content-Type", kind); a.StatusCode != 404 {
		t.Errorf("of an unknown finding: %d", a.StatusCode)
	}
}

func TestAPIKeyAndEvents(t *testing.T) {
	server := newServer(t, full())
	var key struct {
		BusinessKey string           `json:"business_key"`
		TaskIDs     []string         `json:"task_ids"`
		Runs        []map[string]any `json:"runs"`
		Events      []map[string]any `json:"events"`
	}
	a := call(t, server, "GET", "/api/v1/keys?business_key=receipt:9", "")
	if err := json.Unmarshal([]byte(a.body), &key); err != nil || len(key.Runs) != 1 || len(key.Events) != 3 || key.Runs[0]["outcome"] != "succeeded" || key.TaskIDs[0] != "a1" {
		t.Errorf("%s %v", a.body, err)
	}
	var events struct{ Items []map[string]any }
	a = call(t, server, "GET", "/api/v1/events?task_id=a1", "")
	if err := json.Unmarshal([]byte(a.body), &events); err != nil || len(events.Items) != 3 {
		t.Fatalf("%s %v", a.body, err)
	}
	want := map[string]any{"topic": "t", "partition": 0.0, "offset": 1.0, "index": 0.0, "time": "2026-11-02T12:00:00Z"}
	if diff := cmp.Diff(want, events.Items[1]["kafka"]); diff != "" {
		t.Error(diff)
	}
}

func TestAPIStatus(t *testing.T) {
	store := full()
	store.progress = []view.Partition{{Topic: "t", Lag: 99, Checked: noon}, {Topic: "v", Lag: 3, Checked: noon, Newest: noon}}
	server := newServer(t, store, func(_ *web.Config, o *web.Options) {
		o.Version = "1.2.3"
		o.IngestStatus = func() []view.Partition {
			return []view.Partition{{Topic: "t", Lag: 7, Checked: noon, Newest: noon}, {Topic: "u", Checked: noon}}
		}
	})
	var got struct {
		Version    string
		EvidenceOK bool `json:"evidence_ok"`
		Partitions []struct {
			Topic string
			Lag   *int64
		}
	}
	a := call(t, server, "GET", "/api/v1/status", "")
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || got.Version != "1.2.3" || !got.EvidenceOK || len(got.Partitions) != 3 || *got.Partitions[0].Lag != 7 || *got.Partitions[2].Lag != 3 {
		t.Errorf("%s %v", a.body, err)
	}
}
