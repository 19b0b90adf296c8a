package clickhouse_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/google/go-cmp/cmp"

	"auditor/embedded/clickhouse"
	"auditor/embedded/clickhouse/chtest"
)

// open gives a client of the shared engine, on a database of the test's own.
func open(t *testing.T) driver.Conn {
	t.Helper()
	return openEngine(t, chtest.Start(t), chtest.Database(t))
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

func execute(t *testing.T, conn driver.Conn, sql string, arguments ...any) {
	t.Helper()
	if err := conn.Exec(t.Context(), sql, arguments...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// value gives the one value that a query answers with.
func value[T any](t *testing.T, ctx context.Context, conn driver.Conn, sql string, arguments ...any) T {
	t.Helper()
	var result T
	if err := conn.QueryRow(ctx, sql, arguments...).Scan(&result); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return result
}

// insertNumbers sends a batch of the numbers from first to last, as one block.
func insertNumbers(ctx context.Context, conn driver.Conn, first, last uint64) error {
	batch, err := conn.PrepareBatch(ctx, "INSERT INTO numbers (n)")
	if err != nil {
		return err
	}
	defer func() { _ = batch.Close() }()
	var column []uint64
	for n := first; n <= last; n++ {
		column = append(column, n)
	}
	if err := batch.Column(0).Append(column); err != nil {
		return err
	}
	return batch.Send()
}

const createNumbers = "CREATE TABLE numbers (n UInt64) ENGINE = MergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 100"

func wantCode(t *testing.T, err error, code int32) {
	t.Helper()
	if exception, ok := errors.AsType[*driver.Exception](err); !ok || exception.Code != code {
		t.Errorf("error %v, want one with code %d", err, code)
	}
}

// within asks again and again, for a while, until the condition holds.
func within(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestColumnarBatchKeepsEveryByte(t *testing.T) {
	conn := open(t)
	execute(t, conn, `CREATE TABLE t (id UInt64, name LowCardinality(String), body String, at DateTime64(6, 'UTC'), flag Nullable(Bool), tags Array(String))
		ENGINE = MergeTree ORDER BY id`)
	type row struct {
		ID   uint64    `ch:"id"`
		Name string    `ch:"name"`
		Body string    `ch:"body"`
		At   time.Time `ch:"at"`
		Flag *bool     `ch:"flag"`
		Tags []string  `ch:"tags"`
	}
	at := time.Date(2026, 3, 1, 12, 30, 45, 123456000, time.UTC)
	yes := true
	want := []row{
		{1, "a", "line one\nline two\n\x00after NUL", at, &yes, []string{"x", "y\n"}},
		{2, "b\n", "\r\n\t\\'\"`" + string([]byte{0xff, 0xfe, 0x80}), at.Add(time.Microsecond), nil, []string{}},
		{3, "", strings.Repeat("long \n\x00", 100_000), at, nil, []string{""}},
	}
	batch, err := conn.PrepareBatch(t.Context(), "INSERT INTO t (id, name, body, at, flag, tags)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = batch.Close() }()
	column := func(i int, of func(row) any) {
		for _, r := range want {
			if err := batch.Column(i).AppendRow(of(r)); err != nil {
				t.Fatal(err)
			}
		}
	}
	column(0, func(r row) any { return r.ID })
	column(1, func(r row) any { return r.Name })
	column(2, func(r row) any { return r.Body })
	column(3, func(r row) any { return r.At })
	column(4, func(r row) any { return r.Flag })
	column(5, func(r row) any { return r.Tags })
	if err := batch.Send(); err != nil {
		t.Fatal(err)
	}
	var got []row
	if err := conn.Select(t.Context(), &got, "SELECT id, name, body, at, flag, tags FROM t ORDER BY id"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParameters(t *testing.T) {
	conn := open(t)
	const hostile = "a'); DROP TABLE t; --\n\t\\ \" ` {x:String} ü\r"
	if got := value[string](t, t.Context(), conn, "SELECT {x:String}", driver.Named("x", hostile)); got != hostile {
		t.Errorf("named: %q, want %q", got, hostile)
	}
	ctx := driver.Context(t.Context(), driver.WithParameters(driver.Parameters{"n": "7", "list": "['a','b']"}))
	if got := value[string](t, ctx, conn, "SELECT concat(toString({n:UInt64}), arrayStringConcat({list:Array(String)}))"); got != "7ab" {
		t.Errorf("with parameters: %q", got)
	}
	execute(t, conn, "CREATE TABLE t (n UInt64, s String) ENGINE = MergeTree ORDER BY n")
	execute(t, conn, "INSERT INTO t VALUES ({n:UInt64}, {s:String})", driver.Named("n", 1), driver.Named("s", hostile))
	execute(t, conn, "INSERT INTO t SELECT {n:UInt64}, {s:String}", driver.Named("n", 2), driver.Named("s", hostile))
	execute(t, conn, "INSERT INTO t (n, s) VALUES (3, 'x'), (4, 'y\n')")
	rows, err := conn.Query(t.Context(), "SELECT n, s FROM t WHERE s = {s:String} ORDER BY n", driver.Named("s", hostile))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var found []uint64
	for rows.Next() {
		var n uint64
		var s string
		if err := rows.Scan(&n, &s); err != nil {
			t.Fatal(err)
		}
		found = append(found, n)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]uint64{1, 2}, found); diff != "" {
		t.Error(diff)
	}
	if got := value[uint64](t, t.Context(), conn, "SELECT count() FROM t"); got != 4 {
		t.Errorf("%d rows, want 4", got)
	}
}

func TestManyKeysInOneParameter(t *testing.T) {
	conn := open(t)
	keys := make([]string, 50_000)
	for i := range keys {
		keys[i] = fmt.Sprintf("settle_order:'%032d'", i)
	}
	got := value[uint64](t, t.Context(), conn, "SELECT uniqExact(arrayJoin({keys:Array(String)}))", driver.Named("keys", keys))
	if got != uint64(len(keys)) {
		t.Errorf("%d keys arrived of %d", got, len(keys))
	}
}

func TestCompression(t *testing.T) {
	engine := chtest.Start(t)
	database := chtest.Database(t)
	dial := func(method driver.CompressionMethod) (driver.Conn, error) {
		conn, err := driver.Open(&driver.Options{
			Protocol:    driver.HTTP,
			Addr:        []string{"engine:80"},
			Auth:        driver.Auth{Database: database},
			Compression: &driver.Compression{Method: method, Level: 1},
			DialContext: func(ctx context.Context, _ string) (net.Conn, error) { return engine.Dial(ctx) },
		})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn, conn.Ping(t.Context())
	}
	conn, err := dial(driver.CompressionGZIP)
	if err != nil {
		t.Fatal(err)
	}
	execute(t, conn, createNumbers)
	if err := insertNumbers(t.Context(), conn, 1, 5000); err != nil {
		t.Fatal(err)
	}
	if got := value[uint64](t, t.Context(), conn, "SELECT sum(n) FROM numbers"); got != 5000*5001/2 {
		t.Errorf("sum %d", got)
	}
	_, err = dial(driver.CompressionLZ4)
	wantCode(t, err, 48)
}

func TestDeduplicationTokenIsHonoured(t *testing.T) {
	conn := open(t)
	execute(t, conn, createNumbers)
	insert := func(token string, first, last uint64) {
		t.Helper()
		ctx := driver.Context(t.Context(), driver.WithSettings(driver.Settings{"async_insert": 0, "insert_deduplication_token": token}))
		if err := insertNumbers(ctx, conn, first, last); err != nil {
			t.Fatal(err)
		}
	}
	insert("a:0:1-3", 1, 3)
	insert("a:0:1-3", 1, 3)
	insert("a:0:1-3", 7, 9)
	if got := value[uint64](t, t.Context(), conn, "SELECT count() FROM numbers"); got != 3 {
		t.Errorf("%d rows after the same token thrice, want 3", got)
	}
	insert("a:0:4-6", 1, 3)
	if got := value[uint64](t, t.Context(), conn, "SELECT count() FROM numbers"); got != 6 {
		t.Errorf("%d rows after a second token, want 6", got)
	}
}

func TestSettingsActAndDoNotLeak(t *testing.T) {
	conn := open(t)
	const current = "SELECT toString(getSetting('max_result_rows'))"
	ctx := driver.Context(t.Context(), driver.WithSettings(driver.Settings{"max_result_rows": 12345}))
	if got := value[string](t, ctx, conn, current); got != "12345" {
		t.Errorf("max_result_rows is %s, want 12345", got)
	}
	execute(t, conn, "SET max_result_rows = 54321")
	if got := value[string](t, t.Context(), conn, current); got != "0" {
		t.Errorf("max_result_rows is %s in the next request, want 0", got)
	}
	ctx = driver.Context(t.Context(), driver.WithSettings(driver.Settings{"log_comment": "it's mine"}))
	if got := value[string](t, ctx, conn, "SELECT getSetting('log_comment')"); !strings.HasSuffix(got, " it's mine") {
		t.Errorf("log_comment is %q", got)
	}
}

func TestExceptionsCarryTheirCodes(t *testing.T) {
	conn := open(t)
	execute(t, conn, createNumbers)
	for _, test := range []struct {
		name, sql string
		settings  driver.Settings
		code      int32
	}{
		{"unknown table", "SELECT * FROM nowhere", nil, 60},
		{"unknown column", "SELECT nothing FROM numbers", nil, 47},
		{"syntax", "SELEC 1", nil, 62},
		{"syntax in a query", "SELECT 1 +", nil, 62},
		{"two statements", "SELECT 1; DROP TABLE numbers", nil, 62},
		{"exists already", "CREATE TABLE numbers (n UInt64) ENGINE = Memory", nil, 57},
		{"unknown database", "CREATE TABLE nowhere.t (n UInt64) ENGINE = Memory", nil, 81},
		{"unknown setting", "SELECT 1", driver.Settings{"no_such_setting": 1}, 115},
		{"bad value of a setting", "SELECT 1", driver.Settings{"max_threads": "many"}, 27},
		{"hostile setting", "SELECT 1", driver.Settings{"max_threads = 1, readonly": 1}, 115},
		{"bad value", "INSERT INTO numbers VALUES ('x')", nil, 6},
		{"too deep", "SELECT " + strings.Repeat("(", 3000) + "1" + strings.Repeat(")", 3000), nil, 306},
		{"too much memory", "SELECT groupArray(repeat('x', 1000)) FROM numbers(1000000)", driver.Settings{"max_memory_usage": 10_000_000}, 241},
		{"out of time", "SELECT sum(sipHash64(number)) FROM numbers(100000000000)", driver.Settings{"max_execution_time": 0.2}, 159},
		{"into a file", "SELECT 1 INTO OUTFILE '/tmp/x'", nil, 48},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx := driver.Context(t.Context(), driver.WithSettings(test.settings))
			wantCode(t, conn.Exec(ctx, test.sql), test.code)
		})
	}
	_, err := conn.PrepareBatch(t.Context(), "INSERT INTO nowhere (n)")
	wantCode(t, err, 60)
	_, err = conn.Query(t.Context(), "SELECT * FROM nowhere")
	wantCode(t, err, 60)
	execute(t, conn, "DROP TABLE numbers")
}

func TestBatchIntoTableThatIsGone(t *testing.T) {
	conn := open(t)
	execute(t, conn, createNumbers)
	batch, err := conn.PrepareBatch(t.Context(), "INSERT INTO numbers (n)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = batch.Close() }()
	if err := batch.Column(0).Append([]uint64{1}); err != nil {
		t.Fatal(err)
	}
	execute(t, conn, "DROP TABLE numbers")
	wantCode(t, batch.Send(), 60)
}

func TestCancelledQueryIsKilled(t *testing.T) {
	conn := open(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- conn.Exec(ctx, "SELECT sum(sipHash64(number)) FROM numbers(1000000000000) SETTINGS max_threads = 1, max_block_size = 1111")
	}()
	running := func() uint64 {
		return value[uint64](t, t.Context(), conn, "SELECT count() FROM system.processes WHERE query LIKE '%max_block_size = 1111' AND query NOT LIKE '%system.processes%'")
	}
	within(t, "the query runs", func() bool { return running() == 1 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	within(t, "the query has gone", func() bool { return running() == 0 })
}

func TestProjectSchemaRuns(t *testing.T) {
	conn := open(t)
	files, err := filepath.Glob("../../queries/schema/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no schema files: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, sql := range strings.Split(string(text), ";\n") {
			if strings.TrimSpace(sql) != "" {
				execute(t, conn, sql)
			}
		}
	}
}

func TestEmptyAnswers(t *testing.T) {
	conn := open(t)
	execute(t, conn, createNumbers)
	if err := conn.QueryRow(t.Context(), "SELECT n FROM numbers").Scan(new(uint64)); err == nil {
		t.Error("a row of an empty table")
	}
	var got []struct {
		N uint64 `ch:"n"`
	}
	if err := conn.Select(t.Context(), &got, "SELECT n FROM numbers"); err != nil || len(got) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	if err := conn.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	version, err := conn.ServerVersion()
	if err != nil || version.Version.Major < 26 {
		t.Errorf("version %v, %v", version, err)
	}
}
