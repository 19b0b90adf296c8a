package chdb_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"auditor/embedded/clickhouse"
	"auditor/embedded/clickhouse/chdb"
	"auditor/internal/require"
)

// A process has one engine, so all tests of this package share it.
var shared struct {
	sync.Once
	library *chdb.Library
	err     error
}

func TestMain(m *testing.M) {
	directory, err := os.MkdirTemp("", "chdb-")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	path, err := clickhouse.Locate("")
	if err != nil {
		shared.err = err
		os.Exit(m.Run())
	}
	var engine *chdb.Conn
	if shared.library, shared.err = chdb.Open(path); shared.err == nil {
		engine, shared.err = shared.library.Start("--path=" + directory)
	}
	code := m.Run()
	if engine != nil {
		engine.Close()
	}
	_ = os.RemoveAll(directory)
	os.Exit(code)
}

func connect(t testing.TB) *chdb.Conn {
	t.Helper()
	if errors.Is(shared.err, clickhouse.ErrNoLibrary) {
		require.Missing(t, "libchdb", "npm ci --prefix embedded/clickhouse")
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	conn, err := shared.library.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func TestQueryWithParameters(t *testing.T) {
	conn := connect(t)
	got, err := conn.Query("SELECT {a:String}, {b:UInt8}, {empty:String}", "TSV",
		chdb.Parameter{Name: "a", Value: `x\ty`}, chdb.Parameter{Name: "b", Value: "7"}, chdb.Parameter{Name: "empty"})
	if want := "x\\ty\t7\t\n"; string(got) != want || err != nil {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if version := shared.library.Version(); !strings.Contains(version, ".") {
		t.Errorf("version %q", version)
	}
}

func TestErrorsCarryTheEnginesText(t *testing.T) {
	conn := connect(t)
	_, err := conn.Query("SELECT * FROM nowhere", "TSV")
	wantText(t, err, "Code: 60. DB::Exception")
	_, err = conn.Stream("SELECT 1 +", "TSV")
	wantText(t, err, "Code: 62. DB::Exception")
	_, err = conn.Insert("INSERT INTO nowhere", "TSV")
	wantText(t, err, "Code: 60. DB::Exception")
	if _, err := shared.library.Start("--path=/elsewhere"); err == nil {
		t.Error("a second engine started")
	}
	if _, err := chdb.Open("/nowhere/libchdb.so"); err == nil {
		t.Error("a library that is not there was loaded")
	}
}

func wantText(t *testing.T, err error, prefix string) {
	t.Helper()
	if e, ok := errors.AsType[*chdb.Error](err); !ok || !strings.HasPrefix(e.Text, prefix) {
		t.Errorf("error %v, want %s", err, prefix)
	}
}

func TestStreamGivesAllOfAnAnswer(t *testing.T) {
	conn := connect(t)
	stream, err := conn.Stream("SELECT number FROM numbers(300000)", "RowBinary")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var total, parts int
	for {
		part, err := stream.Next()
		if err != nil {
			t.Fatal(err)
		}
		if len(part) == 0 {
			break
		}
		total += len(part)
		parts++
	}
	if total != 8*300_000 || parts < 2 {
		t.Errorf("%d bytes in %d parts, want %d in several", total, parts, 8*300_000)
	}
}

func TestStreamLeftHalfway(t *testing.T) {
	conn := connect(t)
	for range 20 {
		stream, err := conn.Stream("SELECT number FROM numbers(100000000)", "TSV")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Next(); err != nil {
			t.Fatal(err)
		}
		stream.Close()
		stream.Close()
	}
	if got, err := connect(t).Query("SELECT count() FROM system.processes", "TSV"); string(got) != "1\n" || err != nil {
		t.Errorf("%q queries run, %v", got, err)
	}
}

func TestInsert(t *testing.T) {
	conn := connect(t)
	if err := conn.Exec("CREATE TABLE inserted (s String) ENGINE = Memory"); err != nil {
		t.Fatal(err)
	}
	hostile := []byte("a\nb\x00c\r\n\xff")
	data := append([]byte{byte(len(hostile))}, hostile...)
	insert, err := conn.Insert("INSERT INTO inserted", "RowBinary")
	if err != nil {
		t.Fatal(err)
	}
	defer insert.Close()
	// A row may be cut anywhere.
	for i := range data {
		if n, err := insert.Write(data[i : i+1]); n != 1 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	if rows, err := insert.Finish(); rows != 1 || err != nil {
		t.Fatalf("%d rows, %v", rows, err)
	}
	insert.Close()
	if got, err := conn.Query("SELECT s FROM inserted", "RowBinary"); !bytes.Equal(got, data) || err != nil {
		t.Errorf("%q, %v; want %q", got, err, data)
	}
}

func TestInsertOfWhatIsNone(t *testing.T) {
	conn := connect(t)
	if err := conn.Exec("CREATE TABLE spoilt (n UInt64) ENGINE = Memory"); err != nil {
		t.Fatal(err)
	}
	insert, err := conn.Insert("INSERT INTO spoilt", "TSV")
	if err != nil {
		t.Fatal(err)
	}
	defer insert.Close()
	// The engine fails on the first line, and then takes no more.
	garbage := bytes.Repeat([]byte("garbage\n"), 100_000)
	for err == nil {
		_, err = insert.Write(garbage)
	}
	wantText(t, err, "Code: 27. DB::Exception")
}

func TestInsertLeftHalfway(t *testing.T) {
	conn := connect(t)
	if err := conn.Exec("CREATE TABLE half (n UInt64) ENGINE = MergeTree ORDER BY n"); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		insert, err := conn.Insert("INSERT INTO half", "TSV")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := insert.Write([]byte("1\n2\n")); err != nil {
			t.Fatal(err)
		}
		insert.Close()
	}
	if got, err := conn.Query("SELECT count() FROM half", "TSV"); string(got) != "0\n" || err != nil {
		t.Errorf("%q rows of inserts that were left, %v", got, err)
	}
}

// The engine resets the handlers that make a nil dereference a panic: they must be back after every connection.
func TestFaultIsStillAPanic(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the handlers are restored on Linux only")
	}
	connect(t)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	var nothing *struct{ field int }
	nothing.field = 1
}

func TestConnectionsSideBySide(t *testing.T) {
	var group sync.WaitGroup
	connect(t)
	for i := range 8 {
		group.Go(func() {
			for range 30 {
				conn, err := shared.library.Connect()
				if err != nil {
					t.Error(err)
					return
				}
				if err := conn.Exec(fmt.Sprintf("SET max_result_rows = %d", i+1)); err != nil {
					t.Error(err)
				}
				got, err := conn.Query("SELECT getSetting('max_result_rows')", "TSV")
				if want := fmt.Sprintln(i + 1); string(got) != want || err != nil {
					t.Errorf("%q, %v; want %q", got, err, want)
				}
				conn.Close()
			}
		})
	}
	group.Wait()
}
