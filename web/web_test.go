package web_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	"golang.org/x/net/html"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/reject"
	"auditor/event/review"
	"auditor/event/view"
	"auditor/web"
)

var pages = []string{"/", "/?window=1h", "/findings", "/findings/0123456789abcdef01234567", "/keys?key=receipt:9", "/tasks", "/tasks/id?id=a1",
	"/tasks/mail.send", "/tasks/?name=mail.send", "/workers", "/evidence", "/rejects", "/rejects/t:1:41:0", "/search?q=receipt"}

func full() *fake {
	return &fake{findings: []finding.Finding{twice("receipt:9")}, events: happened("receipt:9"),
		ledger:   []view.Ledger{{Topic: "t", Last: 2, Events: 3, Records: 3, KafkaTime: noon, Judged: 3}},
		workers:  []view.Worker{{Name: "w1@host", Last: noon}},
		activity: []view.Activity{{Slot: noon, Latest: noon, Task: "mail.send", Events: 3, Runs: 1, Succeeded: 1}},
		measures: []review.Measure{measured("", "mail.send")},
		rejects:  []reject.Reject{{State: reject.Open, Size: 1, Reject: event.Reject{Position: event.Position{Topic: "t", Partition: 1, Offset: 41}, KafkaTime: noon, Reason: event.ReasonNotJSON, Detail: "no", Raw: []byte("x")}}}}
}

func TestPagesAnswer(t *testing.T) {
	server := newServer(t, full())
	for _, path := range pages {
		a := call(t, server, "GET", path, "")
		if a.StatusCode != http.StatusOK || !strings.Contains(a.body, "<h1") {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
		for name, want := range map[string]string{
			"Content-Type": "text/html; charset=UTF-8", "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
			"Referrer-Policy": "same-origin", "Cache-Control": "no-store",
		} {
			if got := a.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
		if policy := a.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", path, policy)
		}
	}
}

// A page must not need what its policy forbids: no script or style of its own, in whatever form.
func TestPagesHoldNoCode(t *testing.T) {
	server := newServer(t, full())
	for _, path := range pages {
		for n := range nodes(t, call(t, server, "GET", path, "").body) {
			if n.Data == "script" && n.FirstChild != nil || n.Data == "style" {
				t.Errorf("%s has a %s", path, n.Data)
			}
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" || strings.HasPrefix(strings.ToLower(a.Val), "javascript:") {
					t.Errorf("%s: %s %s=%q", path, n.Data, a.Key, a.Val)
				}
			}
		}
	}
}

func nodes(t *testing.T, text string) func(func(*html.Node) bool) {
	t.Helper()
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return root.Descendants()
}

// Whatever a key holds, it is text: the page has the same elements as with a tame one, and links that lead back to the key.
func TestHostileTextIsText(t *testing.T) {
	tame := elements(t, "receipt:9")
	for _, key := range []string{
		hostileKey, longKey, `"><img src=x onerror=alert(1)>`, "';alert(1)//", "\u202egnp.exe", "a\r\nSet-Cookie: x=1", "</title><script>", "../../etc", "%00%2e",
		"javascript:alert(1)", "\xff\xfe", "{{.}}", strings.Repeat("\U0001F4A3", 200),
	} {
		if diff := cmp.Diff(tame, elements(t, key)); diff != "" {
			t.Errorf("%q changes the pages: %s", key, diff)
		}
	}
}

// elements lists what the pages about a key are made of, and checks that the link to the key is whole.
func elements(t *testing.T, key string) []string {
	t.Helper()
	store := &fake{findings: []finding.Finding{twice(key)}, events: happened(key), hits: []view.Hit{
		{Kind: view.HitKey, BusinessKey: key, Task: key}, {Kind: view.HitTask, TaskID: key, BusinessKey: key}},
		rejects: []reject.Reject{{State: reject.Open, Size: len(key), Reject: event.Reject{Position: event.Position{Topic: "t"}, Key: []byte(key), Raw: []byte(key), Reason: "json", Detail: key,
			Headers: []event.Header{{Key: key, Value: []byte(key)}}}, Log: []reject.Entry{{Action: reject.Purge, By: key, Note: key, Attempt: key}}}},
		activity: []view.Activity{{Latest: noon, Namespace: key, Task: key, Runs: 1}}, measures: []review.Measure{measured(key, key)}}
	server := newServer(t, store)
	var all []string
	for _, path := range []string{"/", "/findings?q=" + url.QueryEscape(key), "/findings/0123456789abcdef01234567", "/keys?key=" + url.QueryEscape(key),
		"/tasks/id?id=" + url.QueryEscape(key), "/tasks", "/tasks/?name=" + url.QueryEscape(key), "/search?q=" + url.QueryEscape("text"), "/evidence", "/rejects?state=any"} {
		a := call(t, server, "GET", path, "")
		if a.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s", path, a.StatusCode, a.body)
		}
		for n := range nodes(t, a.body) {
			if n.Type == html.TextNode && strings.ContainsAny(n.Data, "\x00\u202e") {
				t.Errorf("%s shows control characters: %q", path, n.Data)
			}
			if n.Type == html.ElementNode {
				all = append(all, path[:strings.IndexAny(path+"?", "?")]+" "+n.Data)
			}
			for _, attribute := range n.Attr {
				if rest, ok := strings.CutPrefix(attribute.Val, "/keys?"); ok && attribute.Key == "href" {
					q, err := url.ParseQuery(rest)
					if err != nil || q.Get("key") != key {
						t.Errorf("%s: link %q leads to %q", path, attribute.Val, q.Get("key"))
					}
				}
			}
		}
	}
	return all
}

// When the store is away every page says so, in words that are ours.
func TestStoreAway(t *testing.T) {
	server := newServer(t, &fake{err: errAway})
	for _, path := range pages {
		a := call(t, server, "GET", path, "")
		if a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(a.body, "The store cannot be reached") {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
		if strings.Contains(a.body, "10.1.2.3") || a.Header.Get("Retry-After") == "" {
			t.Errorf("%s tells too much, or not when to come back: %s", path, a.body)
		}
	}
	a := call(t, server, "GET", "/api/v1/findings", "")
	if a.StatusCode != http.StatusServiceUnavailable || strings.Contains(a.body, "10.1.2.3") || !strings.Contains(a.body, `"error"`) {
		t.Errorf("API: %d %s", a.StatusCode, a.body)
	}
}

func TestSlowStoreIsGivenUp(t *testing.T) {
	store := &fake{block: make(chan struct{})}
	server := newServer(t, store, func(c *web.Config, _ *web.Options) { c.QueryTimeout = 100 * time.Millisecond })
	for _, path := range []string{"/findings", "/api/v1/findings"} {
		if a := call(t, server, "GET", path, ""); a.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%s: %d", path, a.StatusCode)
		}
	}
}

// However many ask for the same page at once, the store is asked once.
func TestManyTabsAskOnce(t *testing.T) {
	store := full()
	store.block = make(chan struct{})
	server := newServer(t, store)
	var tabs sync.WaitGroup
	for range 50 {
		tabs.Go(func() { call(t, server, "GET", "/workers", "") })
	}
	close(store.block)
	tabs.Wait()
	if store.asked > 6 { // the page, and what its frame shows; the page again should a second have passed
		t.Errorf("50 tabs asked the store %d times", store.asked)
	}
}

func TestCloseEndsQueries(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	store := &fake{block: make(chan struct{})}
	server, err := web.New(web.DefaultConfig(), store, web.Options{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan answer)
	go func() { done <- call(t, server.Handler(), "GET", "/workers", "") }()
	for asked := 0; asked == 0; {
		store.mu.Lock()
		asked = store.asked
		store.mu.Unlock()
	}
	if err := server.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := <-done; a.StatusCode == http.StatusOK {
		t.Error("a query that was cut off was answered as if it had not been")
	}
}

func TestNotFoundAndNotUnderstood(t *testing.T) {
	server := newServer(t, &fake{})
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/nothing", 404}, {"GET", "/findings/unknown", 404}, {"GET", "/keys?key=unknown", 404}, {"GET", "/tasks/id?id=unknown", 404},
		{"GET", "/keys", 400}, {"GET", "/tasks/id", 400}, {"GET", "/?window=2h", 400}, {"GET", "/findings?severity=bad", 400},
		{"GET", "/findings?state=bad", 400}, {"GET", "/findings?sort=bad", 400}, {"GET", "/findings?since=bad", 400}, {"GET", "/findings?cursor=bad", 400},
		{"GET", "/search?q=" + strings.Repeat("a", 1025), 400}, {"GET", "/keys?key=" + strings.Repeat("a", 33<<10), 414},
		{"POST", "/findings", 405}, {"DELETE", "/findings/unknown", 405}, {"GET", "/static/web.go", 404}, {"GET", "/static/..%2fweb.go", 404},
		{"GET", "/api/v1/nothing", 404}, {"GET", "/api/v1/findings/unknown", 404}, {"GET", "/api/v1/keys?business_key=unknown", 404},
	} {
		a := call(t, server, c.method, c.path, "")
		if a.StatusCode != c.status {
			t.Errorf("%s %.60s: %d, want %d", c.method, c.path, a.StatusCode, c.status)
		}
		if api := strings.HasPrefix(c.path, "/api/"); api != strings.HasPrefix(a.Header.Get("Content-Type"), "application/json") {
			t.Errorf("%s %.60s is %s", c.method, c.path, a.Header.Get("Content-Type"))
		}
	}
}

func TestSearchLeadsToTheOneAnswer(t *testing.T) {
	key := view.Hit{Kind: view.HitKey, Exact: true, Namespace: "eu", BusinessKey: "receipt:9"}
	task := view.Hit{Kind: view.HitTask, Exact: true, TaskID: "a1", BusinessKey: "receipt:9"}
	prefix := view.Hit{Kind: view.HitKey, BusinessKey: "receipt:90"}
	request := view.Hit{Kind: view.HitRequest, Exact: true, BusinessKey: "receipt:9", TaskID: "a1"}
	for _, c := range []struct {
		name string
		hits []view.Hit
		to   string
	}{
		{"a key", []view.Hit{key}, "/keys?key=receipt%3A9&namespace=eu"},
		{"a task id", []view.Hit{task}, "/tasks/id?id=a1"},
		{"a request of two tasks of one key", []view.Hit{request, {Kind: view.HitRequest, Exact: true, BusinessKey: "receipt:9", TaskID: "a2"}}, "/keys?key=receipt%3A9"},
		{"the only one that begins so", []view.Hit{prefix}, "/keys?key=receipt%3A90"},
		{"a worker", []view.Hit{{Kind: view.HitWorker, Exact: true, Worker: "w1"}}, "/workers"},
		{"several", []view.Hit{key, task}, ""},
		{"none", nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := call(t, newServer(t, &fake{hits: c.hits}), "GET", "/search?q=x", "")
			if got := a.Header.Get("Location"); got != c.to {
				t.Errorf("leads to %q, want %q", got, c.to)
			}
			if c.to == "" && a.StatusCode != 200 {
				t.Errorf("%d", a.StatusCode)
			}
		})
	}
}

func TestEvidenceLine(t *testing.T) {
	stored := []view.Ledger{{Topic: "t", Last: 9, KafkaTime: noon.Add(-time.Minute)}}
	part := func(change func(*view.Partition)) []view.Partition {
		p := view.Partition{Topic: "t", Next: 10, End: 10, Newest: noon.Add(-time.Minute), Checked: noon.Add(-time.Second)}
		if change != nil {
			change(&p)
		}
		return []view.Partition{{Topic: "t", Partition: 1, Checked: noon}, p}
	}
	for _, c := range []struct {
		name   string
		ledger []view.Ledger
		status []view.Partition // of this process
		told   []view.Partition // by others
		want   string
		warn   bool
	}{
		{"complete", stored, part(nil), nil, "evidence complete to 11:59:59", false},
		{"a little behind", stored, part(func(p *view.Partition) { p.Lag, p.Newest = 5, noon.Add(-3*time.Second) }), nil, "evidence complete to 11:59:57", false},
		{"late", stored, part(func(p *view.Partition) { p.Lag = 1200 }), nil, "evidence is late by 1,200 records: complete to 11:59:00", true},
		{"not looked for", stored, part(func(p *view.Partition) { p.Checked = noon.Add(-time.Minute) }), nil, "evidence is late: complete to 11:59:00", true},
		{"not read yet", stored, part(func(p *view.Partition) { p.Checked = time.Time{} }), nil, "evidence is not read yet", true},
		{"stopped", stored, part(func(p *view.Partition) { p.Problem = "the topic was made anew" }), nil, "evidence stands still in t/0: the topic was made anew", true},
		{"missing", []view.Ledger{{Topic: "t", Last: 9, Missing: 3}}, part(nil), nil, "evidence is missing: 3 records", true},
		{"read elsewhere", stored, nil, part(nil), "evidence complete to 11:59:59", false},
		{"late elsewhere", stored, nil, part(func(p *view.Partition) { p.Lag = 1200 }), "evidence is late by 1,200 records: complete to 11:59:00", true},
		{"one stopped elsewhere", stored, part(nil), []view.Partition{{Topic: "t", Partition: 7, Problem: "topic_shorter"}}, "evidence stands still in t/7: topic_shorter", true},
		{"what was told of our own is older", stored, part(nil), part(func(p *view.Partition) { p.Lag, p.Problem = 9, "old" }), "evidence complete to 11:59:59", false},
		{"nobody has told", stored, nil, nil, "evidence stored up to 11:59:00", false},
		{"nothing yet", nil, nil, nil, "no evidence yet", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := full()
			store.ledger, store.progress = c.ledger, c.told
			server := newServer(t, store, func(_ *web.Config, o *web.Options) {
				o.IngestStatus = func() []view.Partition { return c.status }
			})
			for _, path := range pages[:4] {
				line := textOf(t, call(t, server, "GET", path, "").body, "evidence")
				if !strings.Contains(line, c.want) || strings.HasPrefix(line, "!") != c.warn {
					t.Errorf("%s says %q, want %q", path, line, c.want)
				}
			}
		})
	}
}

func TestEvidenceIsAsOfWhenKafkaWasAsked(t *testing.T) {
	for _, c := range []struct {
		name    string
		checked time.Time
		want    string
	}{
		{"a moment ago", noon.Add(-time.Second), "Everything that Kafka holds is in the store, once."},
		{"before all who read went away", noon.Add(-time.Hour), "Everything that Kafka held at 11:00:00 is in the store, once; since then nobody has looked."},
		{"never", time.Time{}, "Everything that was read from Kafka is in the store, once."},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := full()
			store.ledger = []view.Ledger{{Topic: "t", Last: 9, KafkaTime: noon.Add(-2 * time.Hour)}}
			store.progress = []view.Partition{{Topic: "t", Next: 10, End: 10, Checked: c.checked}}
			if body := call(t, newServer(t, store), "GET", "/evidence", "").body; !strings.Contains(body, c.want) {
				t.Errorf("the page lacks %q:\n%s", c.want, body)
			}
		})
	}
}

// textOf is the text of the element of that id.
func textOf(t *testing.T, body, id string) string {
	t.Helper()
	for n := range nodes(t, body) {
		for _, a := range n.Attr {
			if a.Key != "id" || a.Val != id {
				continue
			}
			var text strings.Builder
			for d := range n.Descendants() {
				if d.Type == html.TextNode {
					text.WriteString(d.Data)
				}
			}
			return strings.Join(strings.Fields(text.String()), " ")
		}
	}
	t.Fatalf("no element %q in %s", id, body)
	return ""
}

func TestHealth(t *testing.T) {
	var failing error
	server := newServer(t, &fake{err: errAway}, func(_ *web.Config, o *web.Options) {
		o.Checks = []web.Check{
			{Name: "clickhouse", Func: func(context.Context) error { return failing }},
			{Name: "kafka", Func: func(ctx context.Context) error { return ctx.Err() }},
		}
	})
	if a := call(t, server, "GET", "/livez", ""); a.StatusCode != 200 {
		t.Errorf("livez: %d", a.StatusCode)
	}
	if a := call(t, server, "GET", "/readyz", ""); a.StatusCode != 200 {
		t.Errorf("readyz: %d %s", a.StatusCode, a.body)
	}
	failing = errors.New("connection refused")
	a := call(t, server, "GET", "/readyz", "")
	want := `{"status":"unavailable","checks":{"clickhouse":{"ok":false,"reason":"connection refused"},"kafka":{"ok":true}}}`
	if a.StatusCode != 503 || strings.TrimSpace(a.body) != want {
		t.Errorf("readyz: %d %s", a.StatusCode, a.body)
	}
}

// Until the store can be asked, pages and calls say so, without asking it; probes and the style sheet answer.
func TestStarting(t *testing.T) {
	prepared := make(chan struct{})
	server := newServer(t, full(), func(_ *web.Config, o *web.Options) { o.Prepared = prepared })
	for _, path := range []string{"/", "/findings", "/api/v1/findings"} {
		if a := call(t, server, "GET", path, ""); a.StatusCode != 503 || !strings.Contains(a.body, "bringing its tables up to date") {
			t.Errorf("%s: %d %s", path, a.StatusCode, a.body)
		}
	}
	for _, path := range []string{"/livez", "/readyz", "/static/app.css"} {
		if a := call(t, server, "GET", path, ""); a.StatusCode != 200 {
			t.Errorf("%s: %d", path, a.StatusCode)
		}
	}
	close(prepared)
	if a := call(t, server, "GET", "/", ""); a.StatusCode != 200 {
		t.Errorf("prepared: %d", a.StatusCode)
	}
}

// Monitors ask with HEAD.
func TestHead(t *testing.T) {
	server := newServer(t, full())
	for _, path := range []string{"/", "/findings", "/livez", "/readyz", "/api/v1/findings"} {
		if a := call(t, server, "HEAD", path, ""); a.StatusCode != 200 {
			t.Errorf("%s: %d", path, a.StatusCode)
		}
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	server := newServer(t, full(), func(_ *web.Config, o *web.Options) { o.Registerer, o.Gatherer = registry, registry })
	call(t, server, "GET", "/findings/0123456789abcdef01234567", "")
	call(t, server, "GET", "/findings/unknown", "")
	call(t, server, "GET", "/made-up-"+longKey, "")
	want := `
# HELP auditor_http_requests_total Requests answered, by route and status code.
# TYPE auditor_http_requests_total counter
auditor_http_requests_total{code="200",route="/findings/:id"} 1
auditor_http_requests_total{code="404",route="/findings/:id"} 1
auditor_http_requests_total{code="404",route="none"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "auditor_http_requests_total"); err != nil {
		t.Error(err)
	}
	if a := call(t, server, "GET", "/metrics", ""); a.StatusCode != 200 || !strings.Contains(a.body, "auditor_http_request_seconds_bucket") {
		t.Errorf("metrics: %d", a.StatusCode)
	}
}

// Profiles are served where that is asked for, even while the store can't be used, and under known host names only.
func TestProfiles(t *testing.T) {
	starting := make(chan struct{})
	for _, asked := range []bool{false, true} {
		server := newServer(t, full(), func(_ *web.Config, o *web.Options) { o.Profiling, o.Prepared = asked, starting })
		for _, path := range []string{"/debug/pprof/", "/debug/pprof/goroutine?debug=1", "/debug/pprof/heap"} {
			if a := call(t, server, "GET", path, ""); (a.StatusCode == 200) != asked {
				t.Errorf("asked for: %t; %s: %d", asked, path, a.StatusCode)
			}
		}
	}
}

func TestConfig(t *testing.T) {
	if err := web.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*web.Config){
		"title":         func(c *web.Config) { c.Title = " " },
		"base_url":      func(c *web.Config) { c.BaseURL = "audit.example.org/path" },
		"allowed_hosts": func(c *web.Config) { c.AllowedHosts = []string{"http://a"} },
		"time_zone":     func(c *web.Config) { c.TimeZone = "Mars/Olympus" },
		"page_size":     func(c *web.Config) { c.PageSize = 0 },
		"key_events":    func(c *web.Config) { c.KeyEvents = 1 },
		"refresh":       func(c *web.Config) { c.Refresh = time.Millisecond },
		"query_timeout": func(c *web.Config) { c.QueryTimeout = 0 },
	} {
		c := web.DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), name+": ") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := web.New(c, full(), web.Options{}); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// Every figure of the first page leads to what it counts.
func TestNumbersLead(t *testing.T) {
	body := call(t, newServer(t, full()), "GET", "/", "").body
	for n := range nodes(t, body) {
		if n.Data != "dd" || attribute(n, "class") != "says" {
			continue
		}
		for d := range n.Descendants() {
			if d.Type == html.TextNode && strings.ContainsAny(d.Data, "0123456789") && !inLink(d) {
				t.Errorf("%q leads nowhere", d.Data)
			}
		}
	}
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func inLink(n *html.Node) bool {
	for a := range n.Ancestors() {
		if a.Data == "a" && attribute(a, "href") != "" {
			return true
		}
	}
	return false
}

func TestFilters(t *testing.T) {
	store := full()
	server := newServer(t, store)
	for query, want := range map[string]view.FindingFilter{
		"":                           {States: []finding.State{"open", "acknowledged"}, Silenced: new(false), Fold: true, Limit: 50},
		"state=any&members=yes":      {Silenced: new(false), Limit: 50},
		"state=any&incident=a1":      {Silenced: new(false), Incident: "a1", Fold: true, Limit: 50},
		"state=resolved&sort=recent": {States: []finding.State{"resolved"}, Order: view.ByRecent, Silenced: new(false), Fold: true, Limit: 50},
		"namespace=":                 {States: []finding.State{"open", "acknowledged"}, Namespace: new(""), Silenced: new(false), Fold: true, Limit: 50},
		"since=24h&q=+a+":            {States: []finding.State{"open", "acknowledged"}, Since: noon.Add(-24 * time.Hour), Text: "a", Silenced: new(false), Fold: true, Limit: 50},
		"since=2026-11-01T00:00:00Z&cause=worker_lost": {States: []finding.State{"open", "acknowledged"}, Since: noon.Add(-36 * time.Hour), Cause: "worker_lost", Silenced: new(false), Fold: true, Limit: 50},
	} {
		if a := call(t, server, "GET", "/findings?"+query, ""); a.StatusCode != 200 {
			t.Errorf("%q: %d", query, a.StatusCode)
		}
		if diff := cmp.Diff(want, store.filter); diff != "" {
			t.Errorf("%q: %s", query, diff)
		}
	}
}

func TestNoFormForgetsAFilter(t *testing.T) {
	body := call(t, newServer(t, full()), "GET", "/findings?since=24h&business_key=receipt:9&rule=unseen_rule&namespace=eu&incident=a1&members=yes", "").body
	values := map[string]string{}
	for n := range nodes(t, body) {
		if n.Data == "input" && attribute(n, "type") == "hidden" && attribute(n.Parent, "class") == "filters" {
			values[attribute(n, "name")] = attribute(n, "value")
		}
		if n.Data == "option" && n.Attr != nil && strings.Contains(fmt.Sprint(n.Attr), "selected") {
			values[attribute(n.Parent, "name")] = attribute(n, "value")
		}
	}
	want := map[string]string{"since": "24h", "business_key": "receipt:9", "rule": "unseen_rule", "namespace": "eu", "incident": "a1", "members": "yes"}
	if diff := cmp.Diff(want, values); diff != "" {
		t.Error(diff)
	}
}
