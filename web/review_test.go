package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"auditor/event/finding"
	"auditor/event/review"
	"auditor/event/view"
	"auditor/web"
)

// measured is a task of which everything was measured: its retries are in lock-step, and its longest run comes near a time-out.
func measured(namespace, task string) review.Measure {
	return review.Measure{
		Namespace: namespace, Task: task, Sample: review.Sample{Since: noon.Add(-7 * 24 * time.Hour), OneIn: 16, Events: 3600},
		IDs: 300, KeyedIDs: 300, TriedAgain: 300, Runs: 1200, FirstRuns: 300, Retries: 900, RetriedIDs: 300, MaxRetries: -1, Highest: 3, Exhausted: 300, GaveUpAt: 3, FailedIDs: 300,
		Took: review.Lengths{Count: 1200, P50: 0.2, P95: 4, P99: 8, Max: 1500}, Held: review.Lengths{Count: 1200, P50: 0.3, P95: 4.1, P99: 8, Max: 1501},
		Timeouts: []review.Against{{Timeout: review.Timeout{Name: task + " half an hour", After: 30 * time.Minute}}, {Timeout: review.Timeout{Name: "an hour", After: time.Hour}}},
		Errors:   []review.Error{{Type: task + "Error", IDs: 300, GaveUp: 300, Permanent: 1}, {Type: "Timeout", IDs: 3, Healed: 2}},
		Gaps:     []review.Gap{{Attempt: 1, Count: 300, Low: 180, Median: 180, High: 180}, {Attempt: 2, Count: 300, Low: 180, Median: 180, High: 180}},
		Course:   []review.Bucket{{From: 152.2, To: 181, Count: 600}}, Together: 300,
		Effects: 9, KeyedEffects: 9, ExtraEffects: 2, Redeliveries: 2,
	}
}

func TestTaskPage(t *testing.T) {
	store := full()
	store.findings[0].Task = "mail.send"
	a := call(t, newServer(t, store), "GET", "/tasks/mail.send", "")
	for _, want := range []string{
		"5 of 10 answers</span> are bad; of 2 too little was seen.", "Measured on 1 key in 16, 3,600 events in the last 7 days: 1,200 runs of 300 task ids, 3.00 retries for each first run.",
		"3 m, 3 m: fixed, without jitter", "within one second 300", `<span class="glyph bad">bad</span> <div><strong>Is its work done once?`,
		`<span class="glyph warn">bad</span> <div><strong>Do its retries back off`, `<svg class="course-of-gaps"`, "600 attempts after 2 m 32 s to 3 m 1 s",
		`<svg class="margin warn"`, "4 m 59 s left", "mail.sendError", "67 %", `href="/findings/0123456789abcdef01234567"`,
		`href="/api/v1/reviews?namespace=&amp;task=mail.send"`,
	} {
		if !strings.Contains(a.body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(a.body)
	}
}

func TestTasksPageTellsOfReviews(t *testing.T) {
	store := full()
	store.activity = append(store.activity, view.Activity{Latest: noon, Task: "calm", Runs: 90})
	store.measures = append(store.measures, review.Measure{Task: "calm", IDs: 90, KeyedIDs: 90, Sample: store.measures[0].Sample})
	a := call(t, newServer(t, store), "GET", "/tasks", "")
	for _, want := range []string{
		`2 tasks in the last 24 hours, `, `, 1 of them with a bad review.`, "measured on 1 key in 16", `<a href="/tasks/mail.send" class="warn">5 bad</a>`, `<a href="/tasks/calm" class="quiet">1 good</a>`,
		`<td class="n nowrap">200 ms</td><td class="n nowrap">4 s</td><td><svg class="margin warn"`, "longest 25 m 1 s of 30 m",
	} {
		if !strings.Contains(a.body, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Index(a.body, "/tasks/mail.send") > strings.Index(a.body, "/tasks/calm") {
		t.Error("the worst does not come first")
	}
}

// Whatever a task is called, its row leads to its page, within the path or the query, and the API knows it.
func TestEveryTaskNameHasAnAddress(t *testing.T) {
	for _, name := range []string{
		"", "mail.send", ".", "..", "id", "a/b", "a//b", "../../etc", `a\b`, "a%2Fb", "100%", "%", "a b", "a?b=c&d", "a#b", "é", "\u202egnp.exe", "a\x00b", "a\nb", "<script>", "+", "a;b",
		`"><img src=x onerror=alert(1)>`, strings.Repeat("x/", 500), hostileKey,
	} {
		for _, namespace := range []string{"", "team & <b>"} {
			store := &fake{activity: []view.Activity{{Latest: noon, Namespace: namespace, Task: name, Runs: 1}}, measures: []review.Measure{measured(namespace, name)}}
			server := newServer(t, store)
			href := ""
			for n := range nodes(t, call(t, server, "GET", "/tasks", "").body) {
				for _, attribute := range n.Attr {
					if n.Type == html.ElementNode && attribute.Key == "href" && strings.HasPrefix(attribute.Val, "/tasks/") {
						href = attribute.Val
					}
				}
			}
			u, err := url.Parse("http://localhost:8080/tasks")
			if err != nil {
				t.Fatal(err)
			}
			there, err := u.Parse(href) // as a browser does, which takes the steps that it finds
			if err != nil || there.Host != u.Host {
				t.Fatalf("%q: %s leads to %v, %v", name, href, there, err)
			}
			asked := len(store.reviewed)
			if a := call(t, server, "GET", there.RequestURI(), ""); a.StatusCode != 200 {
				t.Errorf("%q: %s: %d", name, href, a.StatusCode)
			} else if q := store.reviewed[asked]; *q.Task != name || (namespace != "" && *q.Namespace != namespace) {
				t.Errorf("%q: %s leads to %q in %q", name, href, *q.Task, *q.Namespace)
			}
			query := url.Values{"task": {name}, "namespace": {namespace}}
			a := call(t, server, "GET", "/api/v1/reviews?"+query.Encode(), "")
			var got struct{ Items []struct{ Task string } }
			if err := json.Unmarshal([]byte(a.body), &got); err != nil || len(got.Items) != 1 || strings.ToValidUTF8(got.Items[0].Task, "\ufffd") != name {
				t.Errorf("%q: API: %d %.200s %v", name, a.StatusCode, a.body, err)
			}
			if name != "" && name != "." && name != ".." {
				if a := call(t, server, "GET", "/api/v1/tasks/"+url.PathEscape(name)+"/review", ""); a.StatusCode != 200 || !strings.HasPrefix(a.body, `{"task":`) {
					t.Errorf("%q: API: %d %.200s", name, a.StatusCode, a.body)
				}
			}
		}
	}
}

func TestReviewAPI(t *testing.T) {
	store := full()
	store.findings, store.measures = nil, append(store.measures, measured("a", "twin"), measured("b", "twin"))
	server := newServer(t, store)
	for _, c := range []struct {
		path   string
		status int
		want   string
	}{
		{"/api/v1/tasks/mail.send/review", 200, `"sample":{"since":"2026-10-26T12:00:00Z","one_in":16,"events":3600},"verdicts":{"bad":5,"good":3,"not_seen":2}`},
		{"/api/v1/tasks/mail.send/review?namespace=&since=2h", 200, `"question":"back_off"`},
		{"/api/v1/tasks/mail.send/review?namespace=elsewhere", 404, "no event of a task of that name"},
		{"/api/v1/tasks/unknown/review", 404, "no event of a task of that name"},
		{"/api/v1/tasks/twin/review", 400, `namespace: must be given, for several have a task of that name: \"a\", \"b\"`},
		{"/api/v1/tasks/twin/review?namespace=b", 200, `"namespace":"b"`},
		{"/api/v1/tasks/mail.send/review?task=a", 400, "task: no such parameter"},
		{"/api/v1/reviews", 200, `"next_cursor":""`},
		{"/api/v1/reviews?namespace=a", 200, `"task":"twin","namespace":"a"`},
		{"/api/v1/reviews?since=yesterday", 400, "since: must be a time"},
		{"/api/v1/reviews?tasks=a", 400, "tasks: no such parameter"},
		{"/tasks/unknown", 404, "No event of a task of that name"},
		{"/tasks/twin", 200, `href="/tasks/twin?namespace=b"`},
	} {
		if a := call(t, server, http.MethodGet, c.path, ""); a.StatusCode != c.status || !strings.Contains(a.body, c.want) {
			t.Errorf("%s: %d %s", c.path, a.StatusCode, a.body)
		}
	}
	if q := store.reviewed[1]; !q.Since.Equal(noon.Add(-2*time.Hour)) || *q.Namespace != "" {
		t.Errorf("asked for %+v", q)
	}
}

// A task of which a finding is open has a page, though nothing of it was seen lately.
func TestTaskPageWithoutReview(t *testing.T) {
	store := &fake{findings: []finding.Finding{twice("receipt:9")}}
	if a := call(t, newServer(t, store), "GET", "/tasks/mail.send", ""); a.StatusCode != 200 || !strings.Contains(a.body, "<bdi>mail.send</bdi>: no event of it was seen in the last 7 days.") {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}

// However many open the list, and however often, tasks are measured once a minute; and by what is configured.
func TestReviewsAreShared(t *testing.T) {
	store := full()
	settings := review.Settings{Timeouts: []review.Timeout{{Name: "lock", After: time.Minute}}}
	server := newServer(t, store, func(_ *web.Config, o *web.Options) { o.Review = settings })
	for i := range 20 {
		call(t, server, "GET", fmt.Sprintf("/tasks?x=%d", i), "")
		call(t, server, "GET", "/api/v1/reviews", "")
	}
	if len(store.reviewed) != 1 || len(store.reviewed[0].Timeouts) != 1 || !store.reviewed[0].Since.Equal(noon.Add(-7*24*time.Hour)) {
		t.Errorf("asked for %+v", store.reviewed)
	}
}
