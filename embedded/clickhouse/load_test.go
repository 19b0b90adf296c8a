package clickhouse_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"auditor/embedded/clickhouse"
	"auditor/embedded/clickhouse/chtest"
)

func TestErrorHalfwayThrough(t *testing.T) {
	conn := open(t)
	rows, err := conn.Query(t.Context(), "SELECT throwIf(number = 900000) FROM numbers(1000000) SETTINGS max_threads = 1")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	count := 0
	for rows.Next() {
		count++
	}
	if count == 0 || count >= 900_000 {
		t.Errorf("%d rows before the error", count)
	}
	wantCode(t, rows.Err(), 395)
	if got := value[uint64](t, t.Context(), conn, "SELECT 42::UInt64"); got != 42 {
		t.Errorf("the next answer is %d", got)
	}
}

func TestBigAnswerIsStreamed(t *testing.T) {
	engine := chtest.Start(t)
	conn := open(t)
	before := residentMemory(t, engine.PID())
	rows, err := conn.Query(t.Context(), "SELECT number, repeat('x', 250) FROM numbers(1600000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var number, sum uint64
	var text string
	var most int64
	for rows.Next() {
		if err := rows.Scan(&number, &text); err != nil {
			t.Fatal(err)
		}
		if sum += number; number%100_000 == 0 {
			most = max(most, residentMemory(t, engine.PID()))
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if want := uint64(1_600_000) * 1_599_999 / 2; sum != want {
		t.Errorf("sum %d, want %d", sum, want)
	}
	if grown := most - before; grown > 270<<20 {
		t.Errorf("an answer of 400 MB took %d MiB of the engine", grown>>20)
	}
}

// residentMemory of a process, in bytes; 0 where the system does not tell.
func residentMemory(t *testing.T, pid int) int64 { return statusBytes(t, pid, "VmRSS:") }

func statusBytes(t *testing.T, pid int, field string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), field)
	var kilobytes int64
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// A burst of queries that want more than there is: each fails by itself, and the process stays under 1 GiB.
func TestMemoryIsBounded(t *testing.T) {
	engine := start(t, clickhouse.Config{Data: t.TempDir()})
	conn := openEngine(t, engine, "default")
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() {
			err := conn.Exec(t.Context(), "SELECT groupUniqArray(toString(number)) FROM numbers(30000000) FORMAT Null")
			if exception, ok := errors.AsType[*driver.Exception](err); err != nil && (!ok || exception.Code != 241) {
				t.Errorf("error %v, want one with code 241", err)
			}
		})
	}
	group.Wait()
	execute(t, conn, createNumbers)
	if err := insertNumbers(t.Context(), conn, 1, 1_000_000); err != nil {
		t.Error(err)
	}
	if peak := statusBytes(t, engine.PID(), "VmHWM:"); peak > 1<<30 {
		t.Errorf("the engine took %d MiB", peak>>20)
	}
}

func TestSideBySide(t *testing.T) {
	conn := open(t)
	execute(t, conn, createNumbers)
	var group sync.WaitGroup
	for worker := range uint64(60) {
		group.Go(func() {
			ctx := driver.Context(t.Context(), driver.WithSettings(driver.Settings{"max_result_rows": 1000 + worker}))
			if err := insertNumbers(ctx, conn, worker*100, worker*100+99); err != nil {
				t.Error(err)
			}
			var got string
			if err := conn.QueryRow(ctx, "SELECT toString(getSetting('max_result_rows'))").Scan(&got); err != nil || got != fmt.Sprint(1000+worker) {
				t.Errorf("worker %d sees %q, %v", worker, got, err)
			}
		})
	}
	group.Wait()
	if got := value[uint64](t, t.Context(), conn, "SELECT uniqExact(n) FROM numbers"); got != 6000 {
		t.Errorf("%d numbers, want 6000", got)
	}
}
