package queries

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

func TestMigrateOnceAndAgain(t *testing.T) {
	s := emptyStore(t, func(c *Config) { c.Database += "_made" })
	t.Cleanup(func() {
		if err := s.conn.Exec(context.WithoutCancel(t.Context()), "DROP DATABASE "+s.Database()); err != nil {
			t.Error(err)
		}
	})
	have, want, err := s.SchemaVersion(t.Context())
	if err != nil || have != 0 || want < 3 {
		t.Fatalf("no database: have %d, want %d, %v", have, want, err)
	}
	applied, err := s.Migrate(t.Context())
	if err != nil || len(applied) != want {
		t.Fatalf("applied %v, %v", applied, err)
	}
	if have, want, err = s.SchemaVersion(t.Context()); err != nil || have != want {
		t.Fatalf("migrated: have %d, want %d, %v", have, want, err)
	}
	if applied, err = s.Migrate(t.Context()); err != nil || len(applied) != 0 {
		t.Errorf("again: applied %v, %v", applied, err)
	}
}

// Statements run again when a migration was cut off, so each must bear it.
func TestMigrationsMayRunTwice(t *testing.T) {
	s := newStore(t)
	migrations, err := loadMigrations()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range migrations {
		if err := s.apply(t.Context(), m); err != nil {
			t.Error(err)
		}
	}
	if n := number(t, s, "SELECT count() FROM schema_migrations FINAL"); int(n) != len(migrations) {
		t.Errorf("%d migrations on record, want %d", n, len(migrations))
	}
}

func TestManyMigrateAtOnce(t *testing.T) {
	s := emptyStore(t)
	errs := make([]error, 8)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = s.Migrate(t.Context()) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if have, want, err := s.SchemaVersion(t.Context()); err != nil || have != want {
		t.Errorf("have %d, want %d, %v", have, want, err)
	}
}

func TestChangedMigrationIsRefused(t *testing.T) {
	s := newStore(t)
	if err := s.exec(t.Context(), "store/record_migration", params{"name": "0002_ingest", "checksum": "another"}); err != nil {
		t.Fatal(err)
	}
	_, err := s.Migrate(t.Context())
	if err == nil || !strings.Contains(err.Error(), "0002_ingest") || !strings.Contains(err.Error(), "another") {
		t.Errorf("got %v", err)
	}
}

func TestDatabaseOfANewerProgram(t *testing.T) {
	s := newStore(t)
	if err := s.exec(t.Context(), "store/record_migration", params{"name": "9999_later", "checksum": "x"}); err != nil {
		t.Fatal(err)
	}
	if have, want, err := s.SchemaVersion(t.Context()); err != nil || have <= want {
		t.Errorf("have %d, want %d, %v", have, want, err)
	}
	if applied, err := s.Migrate(t.Context()); err != nil || len(applied) > 0 {
		t.Errorf("applied %v, %v", applied, err)
	}
}

func TestRetentionFollowsTheConfiguration(t *testing.T) {
	s := emptyStore(t)
	read := func(table string) int {
		return int(number(t, s, "SELECT toUInt32OrZero(extract(engine_full, 'toIntervalDay\\\\((?:_CAST\\\\()?([0-9]+)')) "+
			"FROM system.tables WHERE database = currentDatabase() AND name = '"+table+"'"))
	}
	for _, step := range []struct{ days, events, changedKeys int }{{90, 90, 14}, {7, 7, 7}, {0, 0, 0}, {0, 0, 0}, {400, 400, 14}} {
		s.config.RetentionDays = step.days
		if _, err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := [2]int{read("events"), read("changed_keys")}
		if want := [2]int{step.events, step.changedKeys}; got != want {
			t.Errorf("retention_days %d: events and changed_keys keep %v days, want %v", step.days, got, want)
		}
	}
	// Data of another age than the tables' must still go in, and stay while it is young enough.
	if err := s.InsertBatch(t.Context(), aBatch(anEvent(1))); err != nil {
		t.Error(err)
	}
}

// ClickHouse's DateTime, in which it reckons when a row has to go, begins anew in 2106.
func TestLongRetentionKeepsRows(t *testing.T) {
	s := emptyStore(t, func(c *Config) { c.RetentionDays = mostRetention })
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	now, late := anEvent(1), anEvent(2)
	now.KafkaTime, late.KafkaTime = time.Now().UTC(), time.Date(2075, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := s.InsertBatch(t.Context(), aBatch(now, late)); err != nil {
		t.Fatal(err)
	}
	if err := s.conn.Exec(t.Context(), "OPTIMIZE TABLE events FINAL"); err != nil {
		t.Fatal(err)
	}
	if n := number(t, s, "SELECT count() FROM events"); n != 2 {
		t.Errorf("%d of 2 events are kept", n)
	}
}

func TestSplitStatements(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"none", "  \n-- only; a comment;\n", nil},
		{"two", "SELECT 1;\nSELECT 2;\n", []string{"SELECT 1", "SELECT 2"}},
		{"no last semicolon", "SELECT 1;\nSELECT 2", []string{"SELECT 1", "SELECT 2"}},
		{"within a line", "SELECT 1; SELECT 2;\n", []string{"SELECT 1; SELECT 2"}},
		{"before a comment", "SELECT 1; -- one;\nSELECT 2;", []string{"SELECT 1", "-- one;\nSELECT 2"}},
		{"in text", "SELECT ';\n', \";\n\", `;\n`, 'it''s;\n', 'a\\';\n';\nSELECT 2;", []string{"SELECT ';\n', \";\n\", `;\n`, 'it''s;\n', 'a\\';\n'", "SELECT 2"}},
		{"in comments", "SELECT 1 -- '; \n, 2 /* ;\n ' */ ;\nSELECT 3;", []string{"SELECT 1 -- '; \n, 2 /* ;\n ' */", "SELECT 3"}},
		{"unclosed", "SELECT 'a;\n", []string{"SELECT 'a;"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := gocmp.Diff(c.want, splitStatements(c.text)); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		})
	}
}

func FuzzSplitStatements(f *testing.F) {
	f.Add("SELECT ';\n' -- a\n;\n/* b */ SELECT 2")
	f.Fuzz(func(t *testing.T, text string) {
		for _, statement := range splitStatements(text) {
			if statement == "" || !strings.Contains(text, statement) {
				t.Errorf("%q is no part of %q", statement, text)
			}
		}
	})
}
