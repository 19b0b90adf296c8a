package clickhouse_test

import (
	"context"
	"net"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"auditor/embedded/clickhouse"
	"auditor/embedded/clickhouse/chtest"
)

func TestMain(m *testing.M) { chtest.Main(m) }

// open gives a client whose tables are in a database of the test's own.
func open(t *testing.T) driver.Conn {
	t.Helper()
	database := chtest.Database(t)
	conn := openEngine(t, chtest.Start(t), database)
	return conn
}

func openEngine(t *testing.T, engine *clickhouse.Engine, database string) driver.Conn {
	t.Helper()
	conn, err := driver.Open(&driver.Options{
		Protocol:    driver.HTTP,
		Addr:        []string{"engine:80"},
		Auth:        driver.Auth{Database: database},
		DialContext: func(ctx context.Context, _ string) (net.Conn, error) { return engine.Dial(ctx) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func exec(t *testing.T, conn driver.Conn, sql string, arguments ...any) {
	t.Helper()
	if err := conn.Exec(t.Context(), sql, arguments...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestColumnarBatch(t *testing.T) {
	conn := open(t)
	exec(t, conn, `CREATE TABLE t (id UInt64, name LowCardinality(String), body String, at DateTime64(6, 'UTC'), flag Nullable(Bool), tags Array(String))
		ENGINE = MergeTree ORDER BY id`)
	batch, err := conn.PrepareBatch(t.Context(), "INSERT INTO t (id, name, body, at, flag, tags)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = batch.Close() }()
	at := time.Date(2026, 3, 1, 12, 30, 45, 123456000, time.UTC)
	yes := true
	columns := []any{
		[]uint64{1, 2}, []string{"a", "b"}, []string{"line one\nline two\n\x00after NUL", "\r\n\t\\'\""},
		[]time.Time{at, at.Add(time.Microsecond)}, []*bool{&yes, nil}, [][]string{{"x", "y\n"}, {}},
	}
	for i, column := range columns {
		if err := batch.Column(i).Append(column); err != nil {
			t.Fatal(err)
		}
	}
	if err := batch.Send(); err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		ID   uint64    `ch:"id"`
		Name string    `ch:"name"`
		Body string    `ch:"body"`
		At   time.Time `ch:"at"`
		Flag *bool     `ch:"flag"`
		Tags []string  `ch:"tags"`
	}
	if err := conn.Select(t.Context(), &rows, "SELECT id, name, body, at, flag, tags FROM t ORDER BY id"); err != nil {
		t.Fatal(err)
	}
	t.Log(rows)
}
