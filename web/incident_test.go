package web_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"auditor/event/finding"
	"auditor/event/view"
	"auditor/queries/querytest"
	"auditor/web"
)

// An incident stands for its findings, on the pages and in what they count, and leads to them as they lead to it.
func TestIncidents(t *testing.T) {
	store := querytest.Store(t)
	scene := &scene{now: time.Now().UTC().Truncate(time.Millisecond)}
	scene.cohort()
	scene.publishedTwice()
	scene.store(t, store)
	pages := store.Pages()
	incident := all(t, pages, view.FindingFilter{Rule: "incident"})[0]
	members := all(t, pages, view.FindingFilter{Incident: incident.ID})
	single := len(all(t, pages, view.FindingFilter{Limit: 500})) - len(members) - 1
	if len(members) < 30 || single < 1 || incident.Fields["key_count"] != 30.0 {
		t.Fatalf("%d findings of the incident, %d besides: %+v", len(members), single, incident)
	}
	server := newServer(t, pages, func(_ *web.Config, o *web.Options) { o.Now = func() time.Time { return scene.now } })
	list := func(f view.FindingFilter) view.FindingPage {
		t.Helper()
		f.Fold, f.Limit = true, 100
		page, err := pages.Findings(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		return page
	}
	if p := list(view.FindingFilter{}); p.Total != 1+single || p.Folded != len(members) || p.Items[0].ID != incident.ID {
		t.Errorf("%d findings, %d of incidents, first %s", p.Total, p.Folded, p.Items[0].Title)
	}
	if p := list(view.FindingFilter{Rule: "repeated_effect", Task: "invoice.send"}); p.Total != 30 || p.Folded != 0 {
		t.Errorf("of the rule %d and %d: the incident is not in this list, so its findings must be", p.Total, p.Folded)
	}
	open := 0
	counts, err := pages.FindingCounts(t.Context())
	for _, c := range counts {
		if !c.Folded {
			open += c.Count
		}
	}
	if open != 1+single || err != nil {
		t.Errorf("%d findings count, want %d; %v", open, 1+single, err)
	}
	changes, err := pages.Changes(t.Context(), 100)
	if len(changes) != 1+single || err != nil {
		t.Errorf("%d changes, want %d; %v", len(changes), 1+single, err)
	}
	incidentOnPages(t, server, incident, members)
	incidentInAPI(t, server, incident, len(members))
}

func incidentOnPages(t *testing.T, server http.Handler, incident finding.Finding, members []finding.Finding) {
	t.Helper()
	for _, c := range []struct {
		path      string
		has, lack []string
	}{
		{"/", []string{">30 keys<", "of them an incident", incident.Title}, []string{`href="/findings/` + members[0].ID}},
		{"/findings", []string{">30 keys<", "more that belong to incidents listed here", "members=yes"}, []string{`href="/findings/` + members[0].ID}},
		{"/findings?members=yes&q=invoice:7", []string{"email.send twice for invoice:7"}, nil},
		{"/findings?incident=" + incident.ID, []string{"They belong to", `href="/findings/` + incident.ID}, []string{">30 keys<"}},
		{"/findings/" + incident.ID, []string{"with this cause", "more findings", "Keys that it hit", "q=invoice%3A29", "a timeline of its own"}, []string{"finding count", "Same cause"}},
		{"/findings/" + members[0].ID, []string{"Same cause", "29 more keys → ", `href="/findings/` + incident.ID}, []string{"Keys that it hit"}},
	} {
		a := call(t, server, http.MethodGet, c.path, "")
		for _, text := range c.has {
			if !strings.Contains(a.body, text) {
				t.Errorf("%s lacks %q", c.path, text)
			}
		}
		for _, text := range c.lack {
			if strings.Contains(a.body, text) {
				t.Errorf("%s has %q", c.path, text)
			}
		}
	}
	a := call(t, server, http.MethodGet, "/findings/"+incident.ID, "")
	if n := strings.Count(a.body, "data-row"); n != 12 {
		t.Errorf("the incident's page lists %d findings, want 12 of %d", n, len(members))
	}
}

func incidentInAPI(t *testing.T, server http.Handler, incident finding.Finding, members int) {
	t.Helper()
	count := func(query string) (n int, has bool) {
		t.Helper()
		a := call(t, server, http.MethodGet, "/api/v1/findings?limit=500&"+query, "")
		var got struct {
			Items []struct{ ID string } `json:"items"`
		}
		if err := json.Unmarshal([]byte(a.body), &got); err != nil {
			t.Fatal(a.body, err)
		}
		return len(got.Items), slices.ContainsFunc(got.Items, func(f struct{ ID string }) bool { return f.ID == incident.ID })
	}
	if n, has := count("incident=" + incident.ID); n != members || has {
		t.Errorf("incident=: %d findings, want %d and not the incident itself", n, members)
	}
	whole, _ := count("")
	if n, has := count("members=no"); n != whole-members || !has {
		t.Errorf("members=no: %d findings of %d, the incident among them: %v", n, whole, has)
	}
	if a := call(t, server, http.MethodGet, "/api/v1/findings?members=maybe", ""); a.StatusCode != http.StatusBadRequest {
		t.Errorf("members=maybe: status %d", a.StatusCode)
	}
}

// A finding says how sure the auditor is of it, and which evidence would make it surer; whatever that is, it is text.
func TestCertainty(t *testing.T) {
	f := twice("receipt:9")
	f.Fields = map[string]any{"certainty": "unsure", "missing": []any{"Events of <b>w1</b> were lost."}, "incident": "gone", "root": map[string]any{"kind": "redelivery"}}
	store := &fake{findings: []finding.Finding{f}}
	a := call(t, newServer(t, store), http.MethodGet, "/findings/"+f.ID, "")
	for _, text := range []string{`<span class="warn">unsure</span>`, "Evidence is missing.", "Events of &lt;b&gt;w1&lt;/b&gt; were lost."} {
		if !strings.Contains(a.body, text) {
			t.Errorf("the page lacks %q", text)
		}
	}
	if strings.Contains(a.body, "Same cause") || strings.Contains(a.body, "redelivery") {
		t.Error("the page tells of an incident that is not there, or of the root")
	}
	store.findings[0].Fields = map[string]any{"certainty": "certain"}
	a = call(t, newServer(t, store), http.MethodGet, "/findings/"+f.ID, "")
	if !strings.Contains(a.body, "· certain") || strings.Contains(a.body, "Evidence is missing.") {
		t.Error("a certain finding is told as if evidence were missing")
	}
}
