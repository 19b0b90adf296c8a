package web_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"auditor/event/finding"
	"auditor/web"
)

func TestHostNames(t *testing.T) {
	server := newServer(t, full(), func(c *web.Config, _ *web.Options) {
		c.AllowedHosts = []string{"auditor"}
		c.BaseURL = "https://audit.example.org"
	})
	for host, status := range map[string]int{
		"localhost": 200, "localhost:8080": 200, "127.0.0.1:8080": 200, "[::1]:8080": 200, "10.0.0.7": 200, "AUDITOR:8080": 200,
		"audit.example.org": 200, "evil.example": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421, "": 421,
	} {
		if a := call(t, server, "GET", "/findings", "", "Host", host); a.StatusCode != status {
			t.Errorf("%q: %d, want %d", host, a.StatusCode, status)
		}
	}
	open := newServer(t, full(), func(c *web.Config, _ *web.Options) { c.AllowedHosts = []string{"*"} })
	if a := call(t, open, "GET", "/findings", "", "Host", "any.example"); a.StatusCode != 200 {
		t.Errorf("*: %d", a.StatusCode)
	}
}

const form = "application/x-www-form-urlencoded"

func TestStateForm(t *testing.T) {
	const path = "/findings/0123456789abcdef01234567/state"
	for _, c := range []struct {
		name, body string
		header     []string
		status     int
		want       *finding.Change
	}{
		{"acknowledge", "state=acknowledged&by=ada&note=looking", nil, 303, &finding.Change{Action: "acknowledge", To: "acknowledged", By: "ada", Note: "looking"}},
		{"nobody", "state=resolved", []string{"Sec-Fetch-Site", "same-origin"}, 303, &finding.Change{Action: "resolve", To: "resolved", By: "web"}},
		{"same origin", "state=resolved", []string{"Origin", "http://localhost:8080"}, 303, &finding.Change{Action: "resolve", To: "resolved", By: "web"}},
		{"from another site", "state=resolved", []string{"Sec-Fetch-Site", "cross-site"}, 403, nil},
		{"from another origin", "state=resolved", []string{"Origin", "http://evil.example"}, 403, nil},
		{"no such state", "state=gone", nil, 400, nil},
		{"a long name", "state=open&by=" + strings.Repeat("a", 101), nil, 400, nil},
		{"a long note", "state=open&note=" + strings.Repeat("a", 2001), nil, 400, nil},
		{"bad text", "state=open&note=%ff", nil, 400, nil},
		{"too large", "state=open&note=" + strings.Repeat("a", 70<<10), nil, 413, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := full()
			a := call(t, newServer(t, store), "POST", path, c.body, append(c.header, "Content-Type", form)...)
			if a.StatusCode != c.status {
				t.Fatalf("%d, want %d: %s", a.StatusCode, c.status, a.body)
			}
			if c.want == nil {
				if len(store.log) > 0 {
					t.Errorf("logged %v", store.log)
				}
				return
			}
			c.want.FindingID, c.want.Time, c.want.From = "0123456789abcdef01234567", noon, finding.Open
			if diff := cmp.Diff([]finding.Change{*c.want}, store.log); diff != "" {
				t.Error(diff)
			}
			if to := a.Header.Get("Location"); to != "/findings/0123456789abcdef01234567" {
				t.Errorf("leads to %q", to)
			}
		})
	}
}

func TestChangeIsSeenAtOnce(t *testing.T) {
	server := newServer(t, full())
	page := "/findings/0123456789abcdef01234567"
	if a := call(t, server, "GET", page, ""); !strings.Contains(a.body, ">Acknowledge<") {
		t.Fatal("an open finding cannot be acknowledged")
	}
	call(t, server, "POST", page+"/state", "state=acknowledged", "Content-Type", form)
	if a := call(t, server, "GET", page, ""); strings.Contains(a.body, ">Acknowledge<") || !strings.Contains(a.body, ">Reopen<") {
		t.Error("the page still shows the state before")
	}
}

func TestResolvedIsNotAcknowledged(t *testing.T) {
	store := full()
	store.findings[0].State = finding.Resolved
	a := call(t, newServer(t, store), "POST", "/findings/0123456789abcdef01234567/state", "state=acknowledged", "Content-Type", form)
	if a.StatusCode != 409 || len(store.log) > 0 {
		t.Errorf("%d, log %v", a.StatusCode, store.log)
	}
}

func TestCommentAndAssignForms(t *testing.T) {
	const page = "/findings/0123456789abcdef01234567"
	store := full()
	server := newServer(t, store)
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{"/comment", "note=hm&by=ada", 303},
		{"/comment", "note=", 400},
		{"/assign", "assignee=bob&by=ada&was=", 303},
		{"/assign", "assignee=eve&by=ada&was=", 409}, // bob was assigned meanwhile
		{"/assign", "assignee=&by=ada&was=bob", 303},
		{"/assign", "assignee=" + strings.Repeat("a", 101), 400},
	} {
		if a := call(t, server, "POST", page+c.path, c.body, "Content-Type", form); a.StatusCode != c.status {
			t.Errorf("%s %s: %d, want %d: %s", c.path, c.body, a.StatusCode, c.status, a.body)
		}
		if c.body == "assignee=bob&by=ada&was=" {
			if a := call(t, server, "GET", page, ""); !strings.Contains(a.body, "assigned to <bdi>bob</bdi>") || !strings.Contains(a.body, `name="was" value="bob"`) {
				t.Error("the page does not say whose the finding is")
			}
		}
	}
	var got []string
	for _, c := range store.log {
		got = append(got, string(c.Action)+" "+c.Assignee+" "+c.Note)
	}
	if diff := cmp.Diff([]string{"comment  hm", "assign bob ", "assign  "}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheme(t *testing.T) {
	server := newServer(t, full())
	for back, want := range map[string]string{
		"/findings?rule=a&q=b": "/findings?rule=a&q=b", "//evil.example": "/", "https://evil.example/": "/", "/\\evil.example": "/", "": "/", "javascript:alert(1)": "/",
	} {
		a := call(t, server, "POST", "/theme", url.Values{"theme": {"dark"}, "return": {back}}.Encode(), "Content-Type", form)
		if a.StatusCode != 303 || a.Header.Get("Location") != want || len(a.Cookies()) != 1 || a.Cookies()[0].Value != "dark" {
			t.Errorf("%q: %d to %q with %v", back, a.StatusCode, a.Header.Get("Location"), a.Cookies())
		}
	}
	if a := call(t, server, "POST", "/theme", "theme=pink", "Content-Type", form); a.StatusCode != 400 {
		t.Errorf("pink: %d", a.StatusCode)
	}
	if a := call(t, server, "GET", "/findings", "", "Cookie", "auditor_theme=dark"); !strings.Contains(a.body, `data-theme="dark"`) {
		t.Error("the theme is forgotten")
	}
	if a := call(t, server, "GET", "/findings", "", "Cookie", `auditor_theme="><script>`); !strings.Contains(a.body, `data-theme="auto"`) {
		t.Error("a theme that is none is taken")
	}
}
