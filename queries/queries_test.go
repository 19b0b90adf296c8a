package queries

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"auditor/embedded/clickhouse/chtest"
)

func TestMain(m *testing.M) { chtest.Main(m) }

// emptyStore gives a store on an empty database of the shared engine.
func emptyStore(t testing.TB, change ...func(*Config)) *Store {
	t.Helper()
	engine := chtest.Start(t)
	config := DefaultConfig()
	config.Database = chtest.Database(t)
	config.RetentionDays = 0
	for _, f := range change {
		f(&config)
	}
	s, err := Open(config, Options{
		DialContext: func(ctx context.Context, _ string) (net.Conn, error) { return engine.Dial(ctx) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// newStore gives a store with all tables.
func newStore(t testing.TB) *Store {
	t.Helper()
	s := emptyStore(t)
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// Every statement runs on the engine as its header says. A new file is found by itself, and fails here when its header
// lacks an example.
func TestStatementsRun(t *testing.T) {
	s := newStore(t)
	names, err := fs.Glob(files, "*/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range names {
		if path.Dir(file) == "schema" {
			continue
		}
		name := strings.TrimSuffix(file, ".sql")
		if s.statements[name].params["cluster"] != "" {
			continue // needs one, and runs in its tests
		}
		t.Run(name, func(t *testing.T) {
			st := s.statements[name]
			if len(st.example) != len(st.params) {
				t.Fatalf("the header's example must give %s", describeParams(st.params))
			}
			if err := s.exec(t.Context(), name, st.example); err != nil {
				t.Error(err)
			}
		})
	}
}

// The queries that the documentation shows run, too.
func TestDocumentedQueriesRun(t *testing.T) {
	text, err := os.ReadFile("../docs/schema.md")
	if err != nil {
		t.Fatal(err)
	}
	s := newStore(t)
	queries := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(queries) == 0 {
		t.Fatal("no query was found")
	}
	for _, q := range queries {
		if err := s.execText(t.Context(), q[1]); err != nil {
			t.Errorf("%s%v", q[1], err)
		}
	}
	var tables []string
	if err := s.conn.QueryRow(t.Context(), "SELECT groupArray(name) FROM system.tables WHERE database = currentDatabase() AND engine != 'MaterializedView'").Scan(&tables); err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		if !strings.Contains(string(text), "| `"+table+"`") {
			t.Errorf("table %s is not in docs/schema.md", table)
		}
	}
}

func TestClosedStoreLeavesNothingRunning(t *testing.T) {
	chtest.Start(t)
	before := goleak.IgnoreCurrent()
	s := emptyStore(t)
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.InsertBatch(t.Context(), mixedBatch(10)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("net/http.(*Server).Serve"))
}

func TestWaitGivesUpWithItsContext(t *testing.T) {
	config := DefaultConfig()
	config.DialTimeout = 100 * time.Millisecond
	refused := &net.OpError{Op: "dial", Err: net.ErrClosed}
	s, err := Open(config, Options{
		DialContext: func(context.Context, string) (net.Conn, error) { return nil, refused },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err = s.Wait(ctx)
	if err == nil || !strings.Contains(err.Error(), refused.Err.Error()) {
		t.Errorf("Wait: %v; want the reason why the server was out of reach", err)
	}
}

func TestWaitTakesAMissingDatabaseForAnAnswer(t *testing.T) {
	s := emptyStore(t, func(c *Config) { c.Database = "never_made" })
	if err := s.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}
