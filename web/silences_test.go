package web_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"auditor/event/finding"
	"auditor/event/silence"
)

func TestSilenceForm(t *testing.T) {
	store := full()
	server := newServer(t, store)
	if a := call(t, server, "GET", "/silences", ""); a.StatusCode != 200 || !strings.Contains(a.body, "No finding is silenced.") {
		t.Errorf("%d: %s", a.StatusCode, a.body)
	}
	filled := call(t, server, "GET", "/silences/new?"+url.Values{"rule": {"repeated_effect"}, "namespace": {""}, "business_key": {`a"<b>`}}.Encode(), "")
	for _, want := range []string{`name="rule" maxlength="1024" value="repeated_effect"`, `value="a&#34;&lt;b&gt;"`, `<option value="" selected>(default)`, `value="8h"`} {
		if !strings.Contains(filled.body, want) {
			t.Errorf("the form lacks %s", want)
		}
	}
	for _, c := range []struct {
		name, body string
		header     []string
		status     int
		want       string
	}{
		{"nothing is chosen", "until=2h&namespace=*", nil, 400, "at least one of them must be given"},
		{"no time", "rule=a&until=soon", nil, 400, "until: must be a time"},
		{"the past", "rule=a&until=-2h", nil, 400, "until: must be later than now"},
		{"from another site", "rule=a&until=2h", []string{"Sec-Fetch-Site", "cross-site"}, 403, ""},
		{"made", "rule=repeated_*&namespace=&until=2h&by=ada&note=deploy", nil, 303, ""},
	} {
		a := call(t, server, "POST", "/silences", c.body, append(c.header, "Content-Type", form)...)
		if a.StatusCode != c.status || !strings.Contains(a.body, c.want) {
			t.Errorf("%s: %d, want %d: %s", c.name, a.StatusCode, c.status, a.body)
		}
		if c.status == 400 && !strings.Contains(a.body, `action="/silences"`) {
			t.Errorf("%s: what was typed is gone", c.name)
		}
	}
	want := []silence.Silence{{ID: "s1", From: noon, Until: noon.Add(2 * time.Hour), By: "ada", Note: "deploy",
		Matchers: silence.Matchers{Rule: "repeated_*", Task: "*", BusinessKey: "*", Worker: "*", Severity: "*"}}}
	if diff := cmp.Diff(want, store.silences); diff != "" {
		t.Error(diff)
	}
	if a := call(t, server, "GET", "/silences", ""); !strings.Contains(a.body, "repeated_*") || !strings.Contains(a.body, "(default)") || !strings.Contains(a.body, "deploy") {
		t.Errorf("the silence is not listed: %s", a.body)
	}
	if a := call(t, server, "POST", "/silences/s1/end", "by=bob&note=done", "Content-Type", form); a.StatusCode != 303 || store.silences[0].EndedBy != "bob" {
		t.Errorf("%d, %+v", a.StatusCode, store.silences)
	}
	if a := call(t, server, "POST", "/silences/s2/end", "", "Content-Type", form); a.StatusCode != 404 {
		t.Errorf("one that is not there: %d", a.StatusCode)
	}
	if a := call(t, server, "GET", "/silences", ""); !strings.Contains(a.body, "ended by bob") {
		t.Error("how it ended is not told")
	}
}

func TestSilencesOverTheAPI(t *testing.T) {
	store := full()
	server := newServer(t, store)
	const kind = "application/json"
	made := call(t, server, "POST", "/api/v1/silences", `{"task": "mail.*", "until": "2026-11-02T14:00:00Z", "note": "deploy", "request": "r1"}`, "Content-Type", kind)
	want := `{"id":"s1","state":"active","rule":"*","task":"mail.*","namespace":"*","business_key":"*","worker":"*","severity":"*",` +
		`"from":"2026-11-02T12:00:00Z","until":"2026-11-02T14:00:00Z","by":"api","note":"deploy","ended_at":null,"ended_by":"","ended_note":"","findings":1}` + "\n"
	if made.StatusCode != 200 || made.body != want {
		t.Errorf("%d: %s", made.StatusCode, made.body)
	}
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/api/v1/silences", "", 200, `"task":"mail.*"`},
		{"GET", "/api/v1/silences?state=ended,expired", "", 200, ""},
		{"GET", "/api/v1/silences?state=gone", "", 400, "state: must be active, expired, ended or any"},
		{"GET", "/api/v1/silences/s1", "", 200, `"findings":1`},
		{"GET", "/api/v1/silences/s9", "", 404, ""},
		{"POST", "/api/v1/silences", `{"rule": "a", "until": "8h", "for": 3}`, 400, "unknown field"},
		{"POST", "/api/v1/silences", `{"severity": "loud", "until": "8h"}`, 400, "severity: must be critical, warning or info"},
		{"POST", "/api/v1/silences", `{"rule": "a"}`, 400, "until: must be a time"},
		{"POST", "/api/v1/silences", `{"rule": "` + strings.Repeat("a", 1025) + `", "until": "8h"}`, 400, "rule: must be at most"},
		{"POST", "/api/v1/silences/s1/end", `{"by": "ada", "note": "done"}`, 200, `"state":"ended"`},
		{"POST", "/api/v1/silences/s9/end", `{}`, 404, ""},
	} {
		a := call(t, server, c.method, c.path, c.body, "Content-Type", kind)
		if a.StatusCode != c.status || !strings.Contains(a.body, c.want) {
			t.Errorf("%s %s %s: %d, want %d: %s", c.method, c.path, c.body, a.StatusCode, c.status, a.body)
		}
	}
}

func TestActsOverTheAPI(t *testing.T) {
	store := full()
	server := newServer(t, store)
	const finding1, kind = "/api/v1/findings/0123456789abcdef01234567", "application/json"
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/acknowledge", `{"by": "ada", "request": "r1"}`, 200, `"state":"acknowledged"`},
		{"/assign", `{"assignee": "bob", "was": ""}`, 200, `"assignee":"bob"`},
		{"/assign", `{"assignee": "eve", "was": ""}`, 409, `by now`},
		{"/assign", `{"assignee": ""}`, 200, `"state":"acknowledged","namespace"`},
		{"/comment", `{"note": "hm"}`, 200, `"state":"acknowledged"`},
		{"/comment", `{}`, 400, "note: must say something"},
		{"/comment", `{"note": "hm", "assignee": "bob"}`, 400, "only assign has one"},
		{"/resolve", `{"note": "mended"}`, 200, `"state":"resolved"`},
		{"/acknowledge", `{}`, 409, "has to be opened again"},
		{"/reopen", `{}`, 200, `"state":"open"`},
		{"/state", `{"state": "resolved"}`, 200, `"state":"resolved"`},
		{"/state", `{"state": "gone"}`, 400, "state: must be open, acknowledged or resolved"},
		{"/resolve", `{"request": "` + strings.Repeat("a", 101) + `"}`, 400, "request: must be at most 100 bytes"},
		{"/paint", `{}`, 404, ""},
	} {
		a := call(t, server, "POST", finding1+c.path, c.body, "Content-Type", kind)
		if a.StatusCode != c.status || !strings.Contains(a.body, c.want) {
			t.Errorf("%s %s: %d, want %d: %s", c.path, c.body, a.StatusCode, c.status, a.body)
		}
	}
	log := call(t, server, "GET", finding1+"/log", "")
	if !strings.HasPrefix(log.body, `{"items":[{"time":"2026-11-02T12:00:00Z","action":"acknowledge","from":"open","to":"acknowledged","by":"ada","note":"","request":"r1"},`) {
		t.Errorf("%d: %s", log.StatusCode, log.body)
	}
	if a := call(t, server, "GET", "/api/v1/findings/gone/log", ""); a.StatusCode != 404 {
		t.Errorf("the log of nothing: %d", a.StatusCode)
	}
}

func TestSilencedIsLeftOut(t *testing.T) {
	store := full()
	store.findings[0].Silenced = &finding.Silenced{ID: "s1", Until: noon.Add(time.Hour)}
	server := newServer(t, store)
	for path, want := range map[string]bool{"/findings": false, "/findings?silenced=any": false, "/findings?silenced=yes": true} {
		call(t, server, "GET", path, "")
		if got := store.filter.Silenced; (got != nil && *got) != want || path == "/findings" && got == nil {
			t.Errorf("%s asks for %v", path, got)
		}
	}
	if a := call(t, server, "GET", "/findings?silenced=maybe", ""); a.StatusCode != 400 {
		t.Errorf("maybe: %d", a.StatusCode)
	}
	now := call(t, server, "GET", "/", "")
	if !strings.Contains(now.body, "No open findings.") || !strings.Contains(now.body, "1 silenced") || strings.Contains(now.body, `class="count`) {
		t.Error("a silenced finding is counted as trouble, or not told of")
	}
	page := call(t, server, "GET", "/findings/0123456789abcdef01234567", "")
	if !strings.Contains(page.body, `<a href="/silences#s1">silenced until 13:00:00</a>`) {
		t.Error("the page does not say that it is silenced")
	}
}
