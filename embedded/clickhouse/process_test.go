package clickhouse

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

func TestLinesAreHandedOnWhole(t *testing.T) {
	var got []string
	writer := &lines{each: func(line string) { got = append(got, line) }}
	long := strings.Repeat("x", 5000)
	for _, part := range []string{"a", "b\nc", "\n\nd", "\n" + long} {
		if n, err := writer.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	if want := []string{"ab", "c", "", "d", long[:4<<10]}; !slices.Equal(got, want) {
		t.Errorf("got %.60q, want %.60q", got, want)
	}
}

func TestComplaintsTellEnginesErrorsFromNoise(t *testing.T) {
	var log bytes.Buffer
	heard := complaints{logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, step := range []struct{ line, last string }{
		{"Logging error to console", ""},
		{`time=2026-01-31T23:59:59.123Z level=WARN msg="query not killed"`, ""},
		{"2026.01.31 23:59:59.123456 [ 12 ] {} <Fatal> ThreadStatus: current_thread contains invalid address", ""},
		{"2026.01.31 23:59:59.123456 [ 12 ] {a-b} <Error> executeQuery: Code: 60. DB::Exception: no table (in query: x), Stack trace (when copying):", "Code: 60. DB::Exception: no table (in query: x)"},
		{"0. ? @ 0x0000000020f214f4", "Code: 60. DB::Exception: no table (in query: x)"},
		{"panic: something broke", "panic: something broke"},
	} {
		if heard.hear(step.line); heard.last != step.last {
			t.Errorf("after %q: %q, want %q", step.line, heard.last, step.last)
		}
	}
	if count := strings.Count(log.String(), "\n"); count != 3 {
		t.Errorf("%d lines logged, want 3:\n%s", count, log.String())
	}
}
