package queries

import (
	"errors"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"auditor/event"
	"auditor/event/userrule"
)

// asking is a rule with a query.
func asking(query string) *userrule.Rule {
	r := userrule.Default()
	r.Name, r.Query = "some_rule", query
	return &r
}

const goodQuery = `
-- Keys that were done more than once.
WITH done AS (SELECT * FROM events FINAL WHERE kafka_time >= {from:DateTime64(6)} AND time < {until:DateTime64(6)})
SELECT namespace, task, business_key, min(time) AS first_seen, max(time) AS last_seen, arraySort(groupUniqArray(10)(task_id)) AS task_ids,
    count() AS times, any(type) AS kind, max(redelivered) AS again, [1.5, 2.5] AS gaps, toDate('2026-11-02') AS day, NULL::Nullable(String) AS nothing
FROM done
WHERE business_key IN (SELECT business_key FROM task_keys) AND 1 IN (SELECT number FROM numbers(3))
GROUP BY ALL
HAVING times > 1; -- the end
;`

// ways are the ways to a store: HTTP to the embedded engine, and the native protocol to two servers of a cluster.
func ways(t *testing.T, f func(t *testing.T, s *Store)) {
	t.Run("embedded", func(t *testing.T) { f(t, newStore(t)) })
	t.Run("cluster", func(t *testing.T) { f(t, newShards(t).Store) })
}

func TestUserRule(t *testing.T) { ways(t, testUserRule) }

func testUserRule(t *testing.T, s *Store) {
	insertPast(t, s, happened("1", event.Succeeded, noon), happened("2", event.Succeeded, noon.Add(time.Hour)), happened("3", event.Succeeded, noon.Add(2*time.Hour)))
	r := asking(strings.Replace(goodQuery, "; -- the end\n;", "", 1))
	columns, err := s.UserRuleColumns(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	want := []userrule.Column{{Name: "namespace", Type: "LowCardinality(String)"}, {Name: "task", Type: "LowCardinality(String)"}, {Name: "business_key", Type: "String"},
		{Name: "first_seen", Type: "DateTime64(6, 'UTC')"}, {Name: "last_seen", Type: "DateTime64(6, 'UTC')"}, {Name: "task_ids", Type: "Array(String)"},
		{Name: "times", Type: "UInt64"}, {Name: "kind", Type: "String"}, {Name: "again", Type: "Nullable(Bool)"}, {Name: "gaps", Type: "Array(Float64)"},
		{Name: "day", Type: "Date"}, {Name: "nothing", Type: "Nullable(String)"}}
	if diff := gocmp.Diff(want, columns); diff != "" {
		t.Error(diff)
	}
	rows, err := s.UserRuleRows(t.Context(), r, noon, noon.Add(90*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	row := userrule.Row{"namespace": "", "task": "shop.settle", "business_key": "order:1", "first_seen": noon, "last_seen": noon.Add(time.Hour),
		"task_ids": []any{"a"}, "times": uint64(2), "kind": "succeeded", "again": nil, "gaps": []any{1.5, 2.5}, "day": noon.Truncate(24 * time.Hour), "nothing": nil}
	if diff := gocmp.Diff([]userrule.Row{row}, rows); diff != "" {
		t.Error(diff)
	}
	if again, read, err := s.TryUserRule(t.Context(), r, noon, noon.Add(90*time.Minute)); read == 0 || len(again) != 1 || err != nil {
		t.Errorf("tried: %v, %d rows read, %v", again, read, err)
	}
}

// Only one SELECT is taken that reads the auditor's own tables, and each refusal says what is allowed.
func TestUserRuleRefusals(t *testing.T) { ways(t, testUserRuleRefusals) }

func testUserRuleRefusals(t *testing.T, s *Store) {
	for _, c := range []struct{ query, want string }{
		{"SELEKT 1", "Syntax error"},
		{"SELECT 1; DROP TABLE events", "Multi-statements are not allowed"},
		{"DROP TABLE events", "must be one SELECT"},
		{"INSERT INTO events (task) SELECT 'x'", "must be one SELECT"},
		{"WITH 1 AS a INSERT INTO events (task) SELECT 'x'", "must be one SELECT"},
		{"CREATE TABLE x (a Int8) ENGINE = Memory", "must be one SELECT"},
		{"ALTER TABLE events DELETE WHERE 1", "must be one SELECT"},
		{"SYSTEM FLUSH LOGS", "must be one SELECT"},
		{"KILL QUERY WHERE 1", "must be one SELECT"},
		{"SHOW TABLES", "must be one SELECT"},
		{"EXPLAIN SELECT 1", "must be one SELECT"},
		{"SET readonly = 0", "must"},
		{"SELECT 1 INTO OUTFILE '/tmp/x'", "INTO OUTFILE"},
		{"SELECT 1 FORMAT CSV", "must have neither FORMAT nor INTO OUTFILE"},
		{"SELECT 1 SETTINGS max_execution_time = 100", "must not have SETTINGS"},
		{"SELECT * FROM (SELECT 1 SETTINGS max_memory_usage = 0)", "must not have SETTINGS"},
		{"SELECT * FROM system.users", "must not select from system.users"},
		{"SELECT name FROM `system`.`tables`", "must not select from system.tables"},
		{"SELECT * FROM information_schema.tables", "must not select from information_schema.tables"},
		{"SELECT task IN system.one FROM events", "must not select from system.one"},
		{"SELECT 1 AS x WHERE x GLOBAL NOT IN system.one", "must not select from system.one"},
		{"SELECT * FROM events JOIN default.secrets USING (task)", "must not select from default.secrets"},
		{"SELECT * FROM {from:Identifier}", "must not select from"},
		{"SELECT * FROM nowhere", "nowhere"},
		{"SELECT * FROM file('/etc/passwd', 'LineAsString')", "must not select from the function file"},
		{"SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')", "must not select from the function url"},
		{"SELECT * FROM remote('127.0.0.1', system.one)", "must not select from the function remote"},
		{"SELECT * FROM merge('system', '.*')", "must not select from the function merge"},
		{"SELECT * FROM cluster('default', system.one)", "must not select from the function cluster"},
		{"SELECT * FROM s3('http://x/y')", "must not select from the function s3"},
		{"SELECT * FROM executable('x', 'CSV', 'a Int8')", "must not select from the function executable"},
		{"SELECT * FROM view(SELECT 1)", "must not select from the function view"},
		{"SELECT (SELECT count() FROM mysql('h', 'd', 't', 'u', 'p'))", "must not select from the function mysql"},
		{"WITH x AS (SELECT * FROM postgresql('h', 'd', 't', 'u', 'p')) SELECT * FROM x", "must not select from the function postgresql"},
		{"SELECT file('/etc/passwd')", "must not call the function file"},
		{"SELECT `file`('/etc/passwd')", "must not call the function file"},
		{"SELECT 1 WHERE length(file('/etc/passwd')) > 0", "must not call the function file"},
		{"SELECT sleep(3)", "must not call the function sleep"},
		{"SELECT dictGet('d', 'a', 1)", "must not call the function dictGet"},
		{"SELECT AIGenerate('x')", "must not call the function AIGenerate"},
		{"SELECT joinGet('a.b', 'c', 1)", "must not call the function joinGet"},
		{"SELECT getServerSetting('max_concurrent_queries')", "must not call the function getServerSetting"},
		{"SELECT {secret:String}", "secret"},
		{"SELECT count() FROM events) UNION ALL (SELECT 1", "Syntax error"},
		{"SELECT 1 /* no end", "Syntax error"},
		{"SELECT no_such_column FROM events", "no_such_column"},
	} {
		_, err := s.UserRuleColumns(t.Context(), asking(c.query))
		var wrong *UserRuleError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "query: ") {
			t.Errorf("%s: %v; want %q", c.query, err, c.want)
		}
	}
}

// A run that reaches a limit fails.
func TestUserRuleLimits(t *testing.T) { ways(t, testUserRuleLimits) }

func testUserRuleLimits(t *testing.T, s *Store) {
	insertPast(t, s, happened("1", event.Succeeded, noon), happened("2", event.Succeeded, noon))
	for _, c := range []struct {
		name, query, want string
		limit             func(*userrule.Limits)
	}{
		{"time", "SELECT sum(sipHash64(number)) FROM numbers(100000000000)", "Timeout exceeded", func(l *userrule.Limits) { l.Time = 200 * time.Millisecond }},
		{"memory", "SELECT length(groupArray(number)) FROM numbers(20000000)", "memory limit", func(l *userrule.Limits) { l.Memory = 8 << 20 }},
		{"rows read", "SELECT count() FROM events WHERE NOT ignore(task)", "rows", func(l *userrule.Limits) { l.RowsRead = 1 }},
		{"rows", "SELECT number FROM numbers(20)", "Limit for result exceeded", func(l *userrule.Limits) { l.Rows = 10 }},
	} {
		r := asking(c.query)
		r.Limits.RowsRead = userrule.Most.RowsRead * 1000
		c.limit(&r.Limits)
		_, err := s.UserRuleRows(t.Context(), r, noon, noon)
		if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := s.UserRuleRows(t.Context(), asking("SELECT count() FROM events"), noon, noon); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// Reading is all that a query can do, whatever the check of it lets through.
func TestUserRulesOnlyRead(t *testing.T) { ways(t, testUserRulesOnlyRead) }

func testUserRulesOnlyRead(t *testing.T, s *Store) {
	for _, query := range []string{"DROP TABLE events", "INSERT INTO keyless (namespace) VALUES ('x')", "SET readonly = 0", "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
		"SELECT * FROM file('/etc/passwd', 'LineAsString')", "SELECT 1 SETTINGS max_execution_time = 0"} {
		if rows, err := s.UserRuleRows(t.Context(), asking(query), noon, noon); err == nil {
			t.Errorf("%s: %v", query, rows)
		}
	}
}

func TestRuleRuns(t *testing.T) {
	s := newStore(t)
	first := userrule.Run{Rule: "b", Time: noon, Took: time.Second, Found: 3}
	second := userrule.Run{Rule: "a", Time: noon, Took: time.Millisecond, Error: "it's ‮ bad"}
	for _, run := range []userrule.Run{first, second, first} {
		run.Found++
		if err := s.SaveRuleRun(t.Context(), run); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SaveRuleRun(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	second.Found = 1
	got, err := s.RuleRuns(t.Context())
	if diff := gocmp.Diff([]userrule.Run{second, first}, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}
