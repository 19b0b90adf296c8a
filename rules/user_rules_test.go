package rules

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"auditor/event/finding"
	"auditor/event/history/historytest"
	"auditor/event/userrule"
	"auditor/queries"
	"auditor/queries/querytest"
)

// aRule finds the keys that were done more than once in a window of ten minutes.
func aRule(name string, change ...func(*userrule.Rule)) userrule.Rule {
	r := userrule.Default()
	r.Name, r.Severity, r.Window = name, "warning", 10*time.Minute
	r.Title, r.Explanation, r.Remedy = "{{ .business_key }} was done {{ .times }} times", "By {{ join .workers \", \" }}.", "Do it once."
	r.Query = `SELECT namespace, task, business_key, min(time) AS first_seen, max(time) AS last_seen, groupUniqArray(task_id) AS task_ids,
	uniqExactIf(event_id, type = 'succeeded') AS times, arraySort(groupUniqArray(worker)) AS workers
FROM events FINAL
WHERE type IN ('succeeded', 'skipped') AND time >= {from:DateTime64(6)} AND time < {until:DateTime64(6)}
GROUP BY namespace, task, business_key
HAVING times > 1 AND countIf(type = 'skipped') = 0`
	for _, f := range change {
		f(&r)
	}
	return r
}

// users evaluates rules over a store at moments that the test chooses.
type users struct {
	*UserRules
	log strings.Builder
}

func newUsers(t *testing.T, store UserStore, all ...userrule.Rule) *users {
	t.Helper()
	for i := range all {
		if err := all[i].Validate(Names); err != nil {
			t.Fatal(err)
		}
	}
	u := &users{}
	var err error
	if u.UserRules, err = NewUserRules(all, DefaultConfig(), store, slog.New(slog.NewTextHandler(&u.log, nil)), prometheus.NewRegistry()); err != nil {
		t.Fatal(err)
	}
	return u
}

func (u *users) at(t *testing.T, second float64) time.Time {
	t.Helper()
	return u.look(t.Context(), func() time.Time { return historytest.At(second) })
}

func findingsOf(t *testing.T, store *queries.Store) map[string]string {
	t.Helper()
	all, err := store.AllFindings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range all {
		got[f.Title] = f.Rule + " " + string(f.State)
	}
	return got
}

// What the configuration of a task says of a rule holds for one that a user wrote, too.
func TestUserRuleGoesByTasks(t *testing.T) {
	b := newBench(t, DefaultConfig())
	u := newUsers(t, b.store, aRule("done_twice"))
	u.config.Written = []string{"done_twice"}
	u.config.Tasks = map[string]Task{"shop.*": {IgnoreKeys: []string{"order:2"}, Severity: map[string]finding.Severity{"done_twice": finding.Critical}}}
	if err := u.config.Validate(); err != nil {
		t.Fatal(err)
	}
	b.add(historytest.Events(t, "0 succeeded a w=w1\n100 succeeded b w=w2\n0 succeeded c w=w1 key=order:2\n400 succeeded d w=w2 key=order:2")...)
	u.at(t, 500)
	all, err := b.store.AllFindings(t.Context())
	if err != nil || len(all) != 1 || all[0].BusinessKey != "order:1" || all[0].Severity != finding.Critical {
		t.Errorf("%+v, %v", all, err)
	}
	u.config.Tasks["shop.*"] = Task{Off: []string{"done_twice"}}
	u.at(t, 560)
	if diff := cmp.Diff(map[string]string{"order:1 was done 2 times": "done_twice resolved"}, findingsOf(t, b.store)); diff != "" {
		t.Error(diff)
	}
}

// The rows of a user's rule become findings, which grow, stay when the window has left them behind, and resolve when the rule
// finds them no longer although they lie within the window.
func TestUserRuleLifecycle(t *testing.T) {
	b := newBench(t, DefaultConfig())
	u := newUsers(t, b.store, aRule("done_twice"))
	b.add(historytest.Events(t, "0 succeeded a w=w1\n100 succeeded b w=w2\n0 succeeded c w=w1 key=order:2\n400 succeeded d w=w2 key=order:2")...)
	want := map[string]string{"order:1 was done 2 times": "done_twice open", "order:2 was done 2 times": "done_twice open"}
	if next := u.at(t, 500); !next.Equal(historytest.At(560)) {
		t.Errorf("next at %s", next)
	}
	if diff := cmp.Diff(want, findingsOf(t, b.store)); diff != "" {
		t.Fatal(diff)
	}
	all, err := b.store.AllFindings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.ID != finding.ID("done_twice", "", "shop.settle", f.BusinessKey) || f.Severity != finding.Warning || f.Explanation != "By w1, w2." ||
			len(f.TaskIDs) != 2 || f.Fields["times"] != 2.0 || !f.FirstSeen.Equal(historytest.At(0)) {
			t.Errorf("%+v", f)
		}
	}
	b.add(historytest.Events(t, "450 skipped e w=w3 key=order:2")...)
	want["order:2 was done 2 times"] = "done_twice resolved"
	u.at(t, 560)
	if diff := cmp.Diff(want, findingsOf(t, b.store)); diff != "" {
		t.Error(diff)
	}
	u.at(t, 650) // half of order:1's lies before the window
	if diff := cmp.Diff(want, findingsOf(t, b.store)); diff != "" {
		t.Error(diff)
	}
	b.add(historytest.Events(t, "630 succeeded f w=w3\n640 succeeded g w=w3")...)
	u.at(t, 750)
	want = map[string]string{"order:1 was done 2 times": "done_twice open", "order:2 was done 2 times": "done_twice resolved"}
	if diff := cmp.Diff(want, findingsOf(t, b.store)); diff != "" {
		t.Error(diff)
	}
	all, err = b.store.AllFindings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.BusinessKey == "order:1" && (!f.FirstSeen.Equal(historytest.At(0)) || !f.LastSeen.Equal(historytest.At(640))) {
			t.Errorf("it grew: %+v", f)
		}
	}
}

// A rule is evaluated at its own interval, and not before.
func TestUserRuleIntervals(t *testing.T) {
	b := newBench(t, DefaultConfig())
	u := newUsers(t, b.store, aRule("often"), aRule("seldom", func(r *userrule.Rule) { r.Interval = 10 * time.Minute }))
	for _, second := range []float64{0, 30, 60, 119, 600} {
		u.at(t, second)
	}
	for rule, want := range map[string]float64{"often": 3, "seldom": 2} {
		if got := testutil.ToFloat64(u.metrics.runs.WithLabelValues(rule, "ok")); got != want {
			t.Errorf("%s ran %v times, want %v", rule, got, want)
		}
	}
}

// broken is a store that fails in some of what the rules of users ask.
type broken struct {
	*queries.Store
	rows, runs error
}

func (b *broken) UserRuleRows(ctx context.Context, r *userrule.Rule, from, until time.Time) ([]userrule.Row, error) {
	if b.rows != nil && r.Name == "fails" {
		return nil, b.rows
	}
	return b.Store.UserRuleRows(ctx, r, from, until)
}

func (b *broken) SaveRuleRun(ctx context.Context, r userrule.Run) error {
	if b.runs != nil {
		return b.runs
	}
	return b.Store.SaveRuleRun(ctx, r)
}

// A rule that fails is told once, in the log, the metrics, the note and the store, and keeps no other from its work.
func TestFailingUserRule(t *testing.T) {
	b := newBench(t, DefaultConfig())
	store := &broken{Store: b.store, rows: errors.New("out of memory")}
	refused := aRule("refused", func(r *userrule.Rule) { r.Query = "SELECT * FROM system.users WHERE {from:DateTime64(6)} > 0" })
	lacking := aRule("lacking", func(r *userrule.Rule) { r.Query = "SELECT task, {from:DateTime64(6)} AS first_seen FROM events" })
	u := newUsers(t, store, aRule("fails"), refused, lacking, aRule("works"))
	b.add(historytest.Events(t, "0 succeeded a w=w1\n100 succeeded b w=w2")...)
	u.at(t, 200)
	u.at(t, 300)
	if diff := cmp.Diff(map[string]string{"order:1 was done 2 times": "works open"}, findingsOf(t, b.store)); diff != "" {
		t.Error(diff)
	}
	note := u.Note()
	for _, want := range []string{"fails fails: out of memory", "refused fails: query: must not select from system.users", "lacking fails: query: must give the column namespace"} {
		if !strings.Contains(note, want) {
			t.Errorf("note %q lacks %q", note, want)
		}
	}
	if n := strings.Count(u.log.String(), "level=ERROR"); n != 3 {
		t.Errorf("%d errors were logged: %s", n, u.log.String())
	}
	for rule, want := range map[string]float64{"fails": 1, "refused": 1, "works": 0} {
		if got := testutil.ToFloat64(u.metrics.failing.WithLabelValues(rule)); got != want {
			t.Errorf("%s failing: %v", rule, got)
		}
	}
	if got := testutil.ToFloat64(u.metrics.runs.WithLabelValues("fails", "error")); got != 2 {
		t.Errorf("%v failures counted", got)
	}
	runs, err := b.store.RuleRuns(t.Context())
	if err != nil || len(runs) != 4 || runs[0].Rule != "fails" || runs[0].Error != "out of memory" || runs[3].Found != 1 || runs[3].Error != "" {
		t.Errorf("stored: %+v, %v", runs, err)
	}
	store.rows = nil
	u.at(t, 400)
	if note := u.Note(); strings.Contains(note, "fails fails") || !strings.Contains(u.log.String(), "works again") {
		t.Errorf("recovered: %s, %s", note, u.log.String())
	}
	store.runs = errors.New("the store is away")
	u.at(t, 500)
	if note := u.Note(); !strings.Contains(note, "works fails: the store is away") {
		t.Errorf("note %q", note)
	}
}

// What workers put into keys and names arrives in a finding's texts as text, of bounded length.
func TestHostileRowOfAUserRule(t *testing.T) {
	b := newBench(t, DefaultConfig())
	u := newUsers(t, b.store, aRule("hostile"))
	events := historytest.Events(t, "0 succeeded a w=w1\n100 succeeded b w=w2")
	for i := range events {
		events[i].BusinessKey = "<script>{{ .task }}</script>\n\x1b[2J" + strings.Repeat("x", 500)
	}
	b.add(events...)
	u.at(t, 200)
	all, err := b.store.AllFindings(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatal(all, err, u.Note())
	}
	if f := all[0]; !strings.HasPrefix(f.Title, "<script>{{ .task }}</script> \x1b[2Jxxx") || !strings.HasSuffix(f.Title, "x…") || len(f.Title) > 310 {
		t.Errorf("title %q", f.Title)
	}
}

// Run ends with its context, and evaluates until then.
func TestUserRulesRun(t *testing.T) {
	store := querytest.Store(t)
	u := newUsers(t, store, aRule("runs"))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- u.Run(ctx) }()
	for {
		runs, err := store.RuleRuns(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(runs) == 1 {
			break
		}
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
