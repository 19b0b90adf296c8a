package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
	"auditor/event/view"
	"auditor/queries"
	"auditor/queries/querytest"
	"auditor/web"
)

// What the pages ask of the store, on the real engine.
func TestStore(t *testing.T) {
	store := querytest.Store(t)
	scene := newScene(time.Now())
	scene.hostile()
	scene.reject(t, store)
	scene.store(t, store)
	pages := store.Pages()
	for _, c := range []struct {
		name string
		test func(*testing.T, *queries.Pages, *seeded)
	}{
		{"lists page by page in every order", testPaging}, {"filters", testFilters}, {"state and log", testState}, {"search", testSearch},
		{"histories", testHistories}, {"figures", testFigures}, {"evidence", testEvidence}, {"API", testAPI},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, pages, &seeded{scene, store}) })
	}
}

type seeded struct {
	*scene
	queries *queries.Store
}

func all(t *testing.T, pages *queries.Pages, f view.FindingFilter) []finding.Finding {
	t.Helper()
	if f.Limit == 0 {
		f.Limit = 100
	}
	page, err := pages.Findings(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return page.Items
}

func testPaging(t *testing.T, pages *queries.Pages, _ *seeded) {
	rank := map[finding.Severity]int{finding.Critical: 2, finding.Warning: 1}
	less := map[view.Order]func(a, b finding.Finding) bool{
		view.BySeverity: func(a, b finding.Finding) bool { return rank[a.Severity] >= rank[b.Severity] },
		view.ByRecent:   func(a, b finding.Finding) bool { return !a.LastSeen.Before(b.LastSeen) },
		view.ByOldest:   func(a, b finding.Finding) bool { return !a.FirstSeen.After(b.FirstSeen) },
		view.ByEffects:  func(a, b finding.Finding) bool { return a.Effects >= b.Effects },
	}
	for _, order := range view.Orders {
		var got []finding.Finding
		cursor := ""
		for {
			page, err := pages.Findings(t.Context(), view.FindingFilter{Order: order, Limit: 4, Cursor: cursor})
			if err != nil || page.Total != 16 || len(page.Items) > 4 {
				t.Fatalf("%s: %d of %d, %v", order, len(page.Items), page.Total, err)
			}
			got = append(got, page.Items...)
			if cursor = page.NextCursor; cursor == "" {
				break
			}
		}
		ids := map[string]bool{}
		for i, f := range got {
			ids[f.ID] = true
			if i > 0 && !less[order](got[i-1], f) {
				t.Errorf("%s: %s before %s", order, got[i-1].Title, f.Title)
			}
		}
		if len(got) != 16 || len(ids) != 16 {
			t.Errorf("%s: %d findings, %d of them different", order, len(got), len(ids))
		}
	}
	for _, bad := range []string{"x", "eA", "MTIz", "!!"} {
		if _, err := pages.Findings(t.Context(), view.FindingFilter{Limit: 1, Cursor: bad}); err == nil {
			t.Errorf("cursor %q is taken", bad)
		}
	}
}

func testFilters(t *testing.T, pages *queries.Pages, s *seeded) {
	for _, c := range []struct {
		name   string
		filter view.FindingFilter
		want   int
	}{
		{"rule", view.FindingFilter{Rule: "stuck_pending"}, 4},
		{"severity", view.FindingFilter{Severity: finding.Critical}, 6},
		{"cause", view.FindingFilter{Cause: "worker_lost"}, 1},
		{"task", view.FindingFilter{Task: "crm.notify"}, 2},
		{"task id", view.FindingFilter{Task: "charge-b"}, 2},
		{"business key", view.FindingFilter{BusinessKey: hostileKey}, 1},
		{"text", view.FindingFilter{Text: "RECEIPT:9"}, 1},
		{"text that is no pattern", view.FindingFilter{Text: "%"}, 1}, // the hostile key has one
		{"namespace", view.FindingFilter{Namespace: new("elsewhere")}, 0},
		{"default namespace", view.FindingFilter{Namespace: new("")}, 16},
		{"state", view.FindingFilter{States: []finding.State{finding.Resolved}}, 0},
		{"states", view.FindingFilter{States: []finding.State{finding.Open, finding.Acknowledged}}, 16},
		{"since", view.FindingFilter{Since: s.now.Add(-15 * time.Minute)}, 3},
		{"two at once", view.FindingFilter{Rule: "repeated_effect", Severity: finding.Warning}, 1},
	} {
		if got := len(all(t, pages, c.filter)); got != c.want {
			t.Errorf("%s: %d findings, want %d", c.name, got, c.want)
		}
	}
	values, err := pages.FindingValues(t.Context())
	want := view.FindingValues{Rules: []string{"concurrent_runs", "repeated_effect", "retry_storm", "stuck_pending"}, Namespaces: []string{""}, Assignees: []string{},
		Causes: []string{"published_twice", "redelivered_after_success", "redelivered_while_running", "worker_lost"},
		Tasks:  []string{"cart.check_out", "crm.notify", "legacy.import", "mail.send_batch", "mail.send_receipt", "order.settle", "report.build", "search.index"}}
	if diff := cmp.Diff(want, values); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func testState(t *testing.T, pages *queries.Pages, s *seeded) {
	f := all(t, pages, view.FindingFilter{BusinessKey: "settle_order:77"})[0]
	do := func(action finding.Action, note string) {
		t.Helper()
		if err := pages.Act(t.Context(), finding.Act{FindingID: f.ID, Time: time.Now(), Action: action, By: "ada", Note: note}); err != nil {
			t.Fatal(err)
		}
	}
	do(finding.Acknowledge, "")
	do(finding.Acknowledge, "") // says nothing new
	do(finding.Acknowledge, "'quoted' \\ \x00")
	do(finding.Resolve, "done")
	s.judge(t, s.queries) // the rules look again, and leave what a person decided
	do(finding.Reopen, "")
	log, err := pages.FindingLog(t.Context(), f.ID)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range log {
		got = append(got, fmt.Sprintf("%s>%s %s %q", c.From, c.To, c.By, c.Note))
	}
	want := []string{`>open auditor "found"`, `open>acknowledged ada ""`, `acknowledged>acknowledged ada "'quoted' \\ \x00"`, `acknowledged>resolved ada "done"`, `resolved>open ada ""`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if now, err := pages.Finding(t.Context(), f.ID); err != nil || now.State != finding.Open {
		t.Errorf("%s, %v", now.State, err)
	}
	changes, err := pages.Changes(t.Context(), 2)
	if err != nil || len(changes) != 2 || changes[0].To != finding.Open || changes[1].Note != "done" || changes[0].Title != f.Title {
		t.Errorf("%+v, %v", changes, err)
	}
	if err := pages.Act(t.Context(), finding.Act{FindingID: "unknown", Action: finding.Reopen}); err == nil {
		t.Error("an unknown finding can be changed")
	}
}

func testSearch(t *testing.T, pages *queries.Pages, _ *seeded) {
	for text, want := range map[string][]string{
		"receipt:9":                            {"business key receipt:9  exact"},
		"7c9e6679-7425-40de-944b-e07fc1f90ae7": {"task id receipt:9 7c9e6679-7425-40de-944b-e07fc1f90ae7 exact"},
		"req-81f3":                             {"request id receipt:9 7c9e6679-7425-40de-944b-e07fc1f90ae7 exact"},
		"w7@shop-3":                            {"worker   exact"},
		"settle_order":                         {"business key settle_order:42 ", "business key settle_order:77 "},
		"charge-":                              {"task id settle_order:42 charge-a", "task id settle_order:42 charge-b"},
		hostileKey:                             {"business key " + hostileKey + "  exact"},
		"nothing of that name":                 nil,
		"%":                                    nil,
		"":                                     nil,
	} {
		hits, err := pages.Search(t.Context(), text, 50)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, h := range hits {
			line := fmt.Sprintf("%s %s %s", h.Kind, h.BusinessKey, h.TaskID)
			if h.Exact {
				line += " exact"
			}
			got = append(got, line)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func testHistories(t *testing.T, pages *queries.Pages, _ *seeded) {
	for key, want := range map[string]int{"receipt:9": 8, hostileKey: 8, longKey: 8, "mail-batch:77": 8, "product:5": 900, "unknown": 0} {
		events, err := pages.SubjectEvents(t.Context(), history.Subject{BusinessKey: key}, 5000)
		if err != nil || len(events) != want {
			t.Errorf("%.40q: %d events, %v", key, len(events), err)
		}
		if !slices.IsSortedFunc(events, func(a, b event.Event) int { return a.Time.Compare(b.Time) }) {
			t.Errorf("%.40q: out of order", key)
		}
	}
	newest, err := pages.SubjectEvents(t.Context(), history.Subject{BusinessKey: "product:5"}, 10)
	if err != nil || len(newest) != 10 || newest[9].Retries != 299 {
		t.Errorf("the newest ten: %d, %v", len(newest), err)
	}
	keyless, err := pages.SubjectEvents(t.Context(), history.Subject{TaskID: "import-1"}, 100)
	if err != nil || len(keyless) != 6 {
		t.Errorf("of a task without a key: %d events, %v", len(keyless), err)
	}
	events, err := pages.TaskEvents(t.Context(), "charge-b", 100)
	if err != nil || len(events) != 5 || events[0].Type != event.Sent {
		t.Errorf("of a task id: %d events, %v", len(events), err)
	}
	from := events[0].Time
	heard, err := pages.Heard(t.Context(), "", []string{"w2@shop-2", "w3@shop-1"}, from, from.Add(time.Minute))
	if err != nil || len(heard) < 12 || len(heard) > 16 {
		t.Errorf("heard %d times, %v", len(heard), err)
	}
}

func testFigures(t *testing.T, pages *queries.Pages, s *seeded) {
	extra, err := pages.ExtraEffects(t.Context(), s.now.Add(-24*time.Hour), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	sum := map[string]int{}
	for _, e := range extra {
		sum[e.Task] += e.Extra
		sum["guarded"] += e.Guarded
	}
	if diff := cmp.Diff(map[string]int{"order.settle": 2, "cart.check_out": 2, "mail.send_receipt": 1, "mail.send_batch": 1, "legacy.import": 1, "guarded": 1}, sum); diff != "" {
		t.Error(diff)
	}
	activity, err := pages.Activity(t.Context(), s.now.Add(-24*time.Hour), 30*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	runs, retries := 0, 0
	for _, a := range activity {
		if a.Task == "search.index" {
			runs, retries = runs+a.Runs, retries+a.Retries
		}
		if a.Latest.Before(a.Slot) || a.Latest.After(s.now) {
			t.Errorf("slot %s was last busy at %s", a.Slot, a.Latest)
		}
	}
	if runs < 297 || runs > 303 || retries < 297 || retries > 303 {
		t.Errorf("%d runs and %d retries of 300", runs, retries)
	}
	workers, err := pages.Workers(t.Context(), 5)
	if err != nil || len(workers) != 5 || workers[0].Last.Before(workers[4].Last) {
		t.Errorf("%v, %v", workers, err)
	}
	counts, err := pages.FindingCounts(t.Context())
	total := 0
	for _, c := range counts {
		total += c.Count
	}
	if err != nil || total != 16 {
		t.Errorf("%d findings counted, %v", total, err)
	}
}

func testEvidence(t *testing.T, pages *queries.Pages, s *seeded) {
	ledger, err := pages.Ledger(t.Context(), s.now.Add(-time.Hour))
	if err != nil || len(ledger) != 2 || ledger[0].Missing != 0 || ledger[0].Events != len(s.events) || ledger[0].Judged != int64(len(s.events)) || ledger[1].Rejects != 2 {
		t.Fatalf("%+v, %v", ledger, err)
	}
	store := querytest.Store(t)
	for _, b := range []event.Batch{
		{Topic: "t", First: 100, Last: 109, Records: 10, Time: s.now},
		{Topic: "t", First: 110, Last: 119}, // holds no record, so it has no timestamp
		{Topic: "t", First: 125, Last: 129, Records: 5, Time: s.now},
		{Topic: "t", First: 130, Last: 139, Records: 7, Lost: 3, Time: s.now},
		{Topic: "old", First: 0, Last: 9, Records: 10, Time: s.now.Add(-48 * time.Hour)},
		{Topic: "old", First: 20, Last: 29, Records: 10, Time: s.now},
	} {
		if err := store.InsertBatch(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	ledger, err = store.Pages().Ledger(t.Context(), s.now.Add(-time.Hour))
	if err != nil || len(ledger) != 2 {
		t.Fatal(ledger, err)
	}
	if old := ledger[0]; old.First != 20 || old.Missing != 0 {
		t.Errorf("what lies further back counts: %+v", old)
	}
	if l := ledger[1]; l.First != 100 || l.Last != 139 || l.Missing != 5+3 || l.Batches != 4 {
		t.Errorf("%+v", l)
	}
	first, err := pages.Rejects(t.Context(), view.RejectList{Limit: 1, RawLimit: 5})
	if err != nil || len(first) != 1 || string(first[0].Raw) != `{"bus` || first[0].Size != 39 {
		t.Fatalf("%+v, %v", first, err)
	}
	second, err := pages.Rejects(t.Context(), view.RejectList{Limit: 5, RawLimit: 100, Before: view.Position{KafkaTime: first[0].KafkaTime, Position: first[0].Position}})
	if err != nil || len(second) != 1 || string(second[0].Raw) != "hello <b>there</b>\x00\xff" || second[0].Offset != 0 {
		t.Errorf("%+v, %v", second, err)
	}
	counts, err := pages.RejectCounts(t.Context(), view.RejectFilter{})
	if err != nil || len(counts) != 2 || counts[0].Count != 1 {
		t.Errorf("%+v, %v", counts, err)
	}
}

func testAPI(t *testing.T, pages *queries.Pages, _ *seeded) {
	server := newServer(t, pages, func(_ *web.Config, o *web.Options) { o.Now = time.Now })
	a := call(t, server, http.MethodGet, "/api/v1/findings?rule=repeated_effect&state=open&business_key="+url.QueryEscape(hostileKey), "")
	var got struct {
		Items []map[string]any `json:"items"`
	}
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || len(got.Items) != 1 || got.Items[0]["business_key"] != hostileKey || got.Items[0]["effects"] != 2.0 {
		t.Errorf("%s %v", a.body, err)
	}
	a = call(t, server, http.MethodGet, "/api/v1/keys?business_key=receipt:9", "")
	if a.StatusCode != 200 || strings.Count(a.body, `"outcome":"succeeded"`) != 1 {
		t.Errorf("%d %s", a.StatusCode, a.body)
	}
}
