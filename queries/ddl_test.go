package queries

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	gocmp "github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

func clusterLayout() layout {
	c := DefaultConfig()
	c.Cluster = "main"
	return newLayout(c)
}

// clusterDDL gives what a migration comes to in a layout, one statement after the other.
func clusterDDL(t testing.TB, l layout, m migration) []string {
	t.Helper()
	var all []string
	for i, statement := range m.statements {
		forms, err := l.statements(statement)
		if err != nil {
			t.Fatalf("migration %s, statement %d: %v", m.name, i+1, err)
		}
		all = append(all, forms...)
	}
	return all
}

// What each migration is on a cluster, word for word. A new migration is found by itself: run the test with -update, and
// read what it wrote.
func TestMigrationsOnAClusterByText(t *testing.T) {
	migrations, err := loadMigrations()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range migrations {
		t.Run(m.name, func(t *testing.T) {
			golden(t, filepath.Join("testdata", "cluster", m.name+".sql"), strings.Join(clusterDDL(t, clusterLayout(), m), ";\n\n")+";\n")
		})
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (run the test with -update, and read what it wrote)", err)
	}
	if diff := gocmp.Diff(string(want), got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

// ClickHouse's own parser reads what the migrations are on a cluster, and reads in it what the text says.
func TestMigrationsOnAClusterByTheParser(t *testing.T) {
	s := emptyStore(t)
	migrations, err := loadMigrations()
	if err != nil {
		t.Fatal(err)
	}
	replicatedDatabase := clusterLayout()
	replicatedDatabase.onCluster, replicatedDatabase.arguments = false, false
	for _, m := range migrations {
		for _, l := range []layout{clusterLayout(), replicatedDatabase} {
			for _, statement := range clusterDDL(t, l, m) {
				var formatted, tree string
				ctx := clickhouse.Context(t.Context(), clickhouse.WithParameters(clickhouse.Parameters{"q": escaper.Replace(statement)}))
				if err := s.conn.QueryRow(ctx, "SELECT formatQuerySingleLine({q:String})").Scan(&formatted); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
				rows, err := s.conn.Query(t.Context(), "EXPLAIN AST "+statement)
				if err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
				for rows.Next() {
					var line string
					if err := rows.Scan(&line); err != nil {
						t.Fatal(err)
					}
					tree += line + "\n"
				}
				if err := rows.Close(); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(formatted, "ON CLUSTER main") != l.onCluster && !strings.HasPrefix(formatted, "INSERT") {
					t.Errorf("ON CLUSTER %t: %s", l.onCluster, formatted)
				}
				if !strings.HasPrefix(formatted, "CREATE") {
					continue
				}
				if strings.Contains(formatted, "ENGINE = Replicated") && strings.Contains(formatted, "'{replica}'") != l.arguments {
					t.Errorf("path and replica %t: %s", l.arguments, formatted)
				}
				if kind := "CreateQuery auditor "; !strings.Contains(tree, kind) {
					t.Errorf("the database is not named: %s\n%s", formatted, tree)
				}
			}
		}
	}
}

// Tables, views, columns, keys, indexes and TTL are on a cluster what they are without one.
func TestSchemaIsTheSameOnACluster(t *testing.T) {
	one, two := newStore(t), newShards(t)
	one.config.RetentionDays = DefaultConfig().RetentionDays
	if _, err := one.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	two.config.RetentionDays = one.config.RetentionDays
	for _, shard := range two.each {
		shard.config.RetentionDays = one.config.RetentionDays
		if _, err := shard.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	const columns = "SELECT c.table, c.name, c.type, c.default_kind, c.default_expression, c.position FROM system.columns AS c " +
		"INNER JOIN system.tables AS t ON t.database = c.database AND t.name = c.table " +
		"WHERE c.database = currentDatabase() AND %s ORDER BY c.table, c.position"
	const keys = "SELECT name, partition_key, primary_key, sorting_key, extract(engine_full, 'TTL (.*?)(?: SETTINGS|$)'), " +
		"extract(engine_full, 'SETTINGS (.*)$'), engine, (SELECT groupArray((i.name, i.expr, i.type_full, i.granularity)) FROM system.data_skipping_indices AS i " +
		"WHERE i.database = currentDatabase() AND i.table = tables.name) FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree' ORDER BY name"
	plain := func(rows []string) []string {
		for i, row := range rows {
			rows[i] = strings.Replace(row, localSuffix+" | ", " | ", 1)
		}
		slices.Sort(rows)
		return rows
	}
	want, wantKeys := plain(textRows(t, one, fmt.Sprintf(columns, "t.engine LIKE '%MergeTree'"))), plain(textRows(t, one, keys))
	for i, shard := range two.each {
		for _, of := range []string{"t.engine LIKE '%MergeTree'", "t.engine = 'Distributed'"} {
			if diff := gocmp.Diff(want, plain(textRows(t, shard, fmt.Sprintf(columns, of)))); diff != "" {
				t.Errorf("columns on one server (-), on shard %d where %s (+):\n%s", i, of, diff)
			}
		}
		if diff := gocmp.Diff(wantKeys, plain(textRows(t, shard, keys))); diff != "" {
			t.Errorf("keys, TTL and settings on one server (-), on shard %d (+):\n%s", i, diff)
		}
		for _, kind := range []string{"View", "MaterializedView"} {
			views := "SELECT c.table, c.name, c.type, c.position FROM system.columns AS c INNER JOIN system.tables AS t ON t.database = c.database " +
				"AND t.name = c.table WHERE c.database = currentDatabase() AND t.engine = '" + kind + "'"
			if diff := gocmp.Diff(plain(textRows(t, one, views)), plain(textRows(t, shard, views))); diff != "" {
				t.Errorf("%ss on one server (-), on shard %d (+):\n%s", kind, i, diff)
			}
		}
	}
}

// textRows gives the rows of a query as text.
func textRows(t *testing.T, s *Store, query string) []string {
	t.Helper()
	rows, err := s.conn.Query(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	all := []string{}
	for rows.Next() {
		all = append(all, rowText(t, rows))
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return all
}

// Whatever is not known is refused, and nothing is half done.
func TestStatementsThatCannotBeToldOnAClusterAreRefused(t *testing.T) {
	for _, c := range []struct{ statement, want string }{
		{"CREATE TABLE events (a Int8) ENGINE = MergeTree ORDER BY a", "IF [NOT] EXISTS"},
		{"CREATE TABLE IF NOT EXISTS unheard (a Int8) ENGINE = MergeTree ORDER BY a", `"unheard" is not known`},
		{"CREATE TABLE IF NOT EXISTS other.events (a Int8) ENGINE = MergeTree ORDER BY a", "a plain name"},
		{"CREATE TABLE IF NOT EXISTS `events` (a Int8) ENGINE = MergeTree ORDER BY a", "a plain name"},
		{"CREATE TABLE IF NOT EXISTS events AS rejects", "( is expected"},
		{"CREATE TABLE IF NOT EXISTS events (a Int8) ENGINE = Memory", `"Memory" has no Replicated kind`},
		{"CREATE TABLE IF NOT EXISTS events (a Int8) ENGINE = MergeTree ORDER BY a AS SELECT 1", "AS is not expected"},
		{"CREATE TABLE IF NOT EXISTS events (a Int8 ENGINE = MergeTree ORDER BY a", ") is missing"},
		{"CREATE TABLE IF NOT EXISTS events (a Int8) ENGINE = MergeTree ORDER BY a SETTINGS replicated_deduplication_window = 1", "replicated_deduplication_window is not expected"},
		{"CREATE MATERIALIZED VIEW IF NOT EXISTS attempts_view TO attempts AS SELECT 1 FROM events JOIN task_keys USING task_id", "must read one table, not events and task_keys"},
		{"CREATE MATERIALIZED VIEW IF NOT EXISTS attempts_view TO attempts AS SELECT 1 FROM findings", "must read one table"},
		{"CREATE MATERIALIZED VIEW IF NOT EXISTS attempts_view TO attempts AS SELECT 1 FROM events, task_keys", "a list of tables"},
		{"CREATE MATERIALIZED VIEW IF NOT EXISTS attempts_view TO attempts AS SELECT 1 FROM events AS e, task_keys", "a list of tables"},
		{"CREATE MATERIALIZED VIEW IF NOT EXISTS attempts_view ENGINE = MergeTree ORDER BY a AS SELECT 1 FROM events", "TO is expected"},
		{"CREATE MATERIALIZED VIEW IF NOT EXISTS attempts_view TO attempts AS SELECT extract(day FROM time) FROM events", `"time" is not known`},
		{"CREATE VIEW IF NOT EXISTS findings AS SELECT remote('h', d, t) FROM events", "remote is not expected"},
		{"CREATE VIEW IF NOT EXISTS findings AS SELECT * FROM events WHERE task_id IN task_keys", "IN task_keys is not expected"},
		{"CREATE VIEW IF NOT EXISTS findings AS SELECT * FROM system.one", "a plain name"},
		{"CREATE VIEW IF NOT EXISTS findings AS SELECT {a:String} FROM events", "a parameter"},
		{"CREATE VIEW IF NOT EXISTS findings AS SELECT 'a", "quoted text has no end"},
		{"CREATE VIEW IF NOT EXISTS findings AS SELECT 1 /* a", "a comment has no end"},
		{"CREATE VIEW IF NOT EXISTS findings AS SELECT 1; DROP TABLE events", `';' is not expected`},
		{"ALTER TABLE events ADD COLUMN a Int8, MODIFY TTL b", "statements of their own"},
		{"ALTER TABLE events ATTACH PARTITION 1", "ATTACH PARTITION 1 is not known"},
		{"ALTER TABLE events ADD COLUMN a Int8,", "an action is missing"},
		{"ALTER TABLE events UPDATE a = 1 WHERE b IN (SELECT c FROM rejects)", "a subquery"},
		{"ALTER TABLE findings ADD COLUMN a Int8", `"findings" is not known here`},
		{"ALTER TABLE changed_keys_view MODIFY QUERY SELECT 1 FROM events JOIN rejects USING a", "must read one table"},
		{"DROP TABLE events", "IF [NOT] EXISTS"},
		{"DROP TABLE IF EXISTS findings", `"findings" is not known here`},
		{"DROP TABLE IF EXISTS events, rejects", `"," is not expected`},
		{"RENAME TABLE events TO others", "RENAME cannot be told"},
		{"TRUNCATE TABLE events", "TRUNCATE cannot be told"},
		{"INSERT INTO events VALUES (1)", "SELECT is expected"},
		{"INSERT INTO events_local SELECT 1", "not known"},
		{"SELECT 1", "SELECT cannot be told"},
		{"-- nothing", "there is nothing"},
	} {
		if got, err := clusterLayout().statements(c.statement); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n gives %q, %v; want an error with %q", c.statement, got, err, c.want)
		}
	}
}

func TestStatementsOfLaterMigrationsOnACluster(t *testing.T) {
	for _, c := range []struct {
		statement string
		want      []string
	}{
		{"ALTER TABLE events ADD COLUMN IF NOT EXISTS a Int8 DEFAULT f(1, 2) AFTER b, ADD COLUMN IF NOT EXISTS c Int8", []string{
			"ALTER TABLE auditor.events_local ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS a Int8 DEFAULT f(1, 2) AFTER b, ADD COLUMN IF NOT EXISTS c Int8",
			"ALTER TABLE auditor.events ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS a Int8 DEFAULT f(1, 2) AFTER b, ADD COLUMN IF NOT EXISTS c Int8"}},
		{"ALTER TABLE rejects DROP COLUMN IF EXISTS a", []string{
			"ALTER TABLE auditor.rejects ON CLUSTER 'main' DROP COLUMN IF EXISTS a",
			"ALTER TABLE auditor.rejects_local ON CLUSTER 'main' DROP COLUMN IF EXISTS a"}},
		{"ALTER TABLE events MODIFY COLUMN a REMOVE CODEC", []string{"ALTER TABLE auditor.events_local ON CLUSTER 'main' MODIFY COLUMN a REMOVE CODEC"}},
		{"ALTER TABLE events ADD INDEX IF NOT EXISTS i a TYPE minmax", []string{"ALTER TABLE auditor.events_local ON CLUSTER 'main' ADD INDEX IF NOT EXISTS i a TYPE minmax"}},
		{"ALTER TABLE rejects UPDATE a = {a:String}, b = 1 WHERE c IN {c:Array(Int64)} SETTINGS mutations_sync = 1", []string{
			"ALTER TABLE auditor.rejects_local ON CLUSTER 'main' UPDATE a = {a:String}, b = 1 WHERE c IN {c:Array(Int64)} SETTINGS mutations_sync = 1"}},
		{"ALTER TABLE events MODIFY SETTING index_granularity = 8, non_replicated_deduplication_window = 5", []string{
			"ALTER TABLE auditor.events_local ON CLUSTER 'main' MODIFY SETTING index_granularity = 8, replicated_deduplication_window = 5, replicated_deduplication_window_seconds = 604800"}},
		{"ALTER TABLE changed_keys_view MODIFY QUERY SELECT 1 AS a FROM events", []string{"ALTER TABLE auditor.changed_keys_view ON CLUSTER 'main' MODIFY QUERY SELECT 1 AS a FROM auditor.events_local"}},
		{"DROP VIEW IF EXISTS keyless_view", []string{"DROP VIEW IF EXISTS auditor.keyless_view ON CLUSTER 'main' SYNC"}},
		{"DROP TABLE IF EXISTS keyless", []string{"DROP TABLE IF EXISTS auditor.keyless ON CLUSTER 'main' SYNC", "DROP TABLE IF EXISTS auditor.keyless_local ON CLUSTER 'main' SYNC"}},
		{"CREATE OR REPLACE VIEW finding_states AS WITH x AS (SELECT 1 FROM finding_log) SELECT * FROM x JOIN finding_versions FINAL USING id", []string{
			"CREATE OR REPLACE VIEW auditor.finding_states ON CLUSTER 'main' AS WITH x AS (SELECT 1 FROM auditor.finding_log) SELECT * FROM x JOIN auditor.finding_versions FINAL USING id"}},
		{"INSERT INTO keyless (namespace) SELECT namespace FROM events WHERE a IN (1, 2)", []string{"INSERT INTO auditor.keyless (namespace) SELECT namespace FROM auditor.events WHERE a IN (1, 2)"}},
		{"CREATE TABLE IF NOT EXISTS keyless (a Int8) ENGINE = MergeTree() ORDER BY a", []string{
			"CREATE TABLE IF NOT EXISTS auditor.keyless_local ON CLUSTER 'main' (a Int8) ENGINE = ReplicatedMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}') ORDER BY a",
			"CREATE TABLE IF NOT EXISTS auditor.keyless ON CLUSTER 'main' AS auditor.keyless_local\nENGINE = Distributed('main', 'auditor', 'keyless_local', rand())"}},
	} {
		got, err := clusterLayout().statements(c.statement)
		if err != nil {
			t.Errorf("%s: %v", c.statement, err)
		}
		if diff := gocmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s\nwant (-), got (+):\n%s", c.statement, diff)
		}
	}
}

// A table that a migration adds needs a place, and one that has a place must exist.
func TestEveryTableHasItsPlaceInACluster(t *testing.T) {
	objects, err := schemaObjects()
	if err != nil {
		t.Fatal(err)
	}
	for name, kind := range objects {
		if _, ok := shardedBy[name]; ok != (kind == aTable) {
			t.Errorf("%s: shardedBy says where its rows lie: %t, it is a table: %t", name, ok, kind == aTable)
		}
	}
	for name := range shardedBy {
		if objects[name] == 0 {
			t.Errorf("shardedBy names %s, which no migration makes", name)
		}
	}
}

func FuzzTokens(f *testing.F) {
	for _, text := range []string{"SELECT 'a''b\\'' -- c\n, `d` /* e */ {f:Array(Int8)}", "'", "{", "\\", "é", "/*", "'\\"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := tokens(text)
		if err != nil {
			return
		}
		end := 0
		for _, one := range all {
			if one.start < end || text[one.start:one.end] != one.text || one.text == "" {
				t.Fatalf("%+v is no piece of %q", one, text)
			}
			end = one.end
		}
		_, _ = clusterLayout().statements(text) // may refuse, must not fail
	})
}
