package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"auditor/embedded/clickhouse"
	"auditor/event"
	"auditor/internal/require"
)

// TestBenchmark runs the whole of it on few events: what comes out is no measurement, but everything that a measurement
// needs works, and every way stores each event once.
func TestBenchmark(t *testing.T) {
	for _, args := range [][]string{
		{"--events=20000", "--rounds=1", "--celery-events=5000", "--views=feed"},
		{"--events=5000", "--rounds=1", "--celery-events=0", "--views=all", "--broker=embedded", "--kafka-parse=table", "--ways=insert,kafka engine,auditor"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			result, _ := runBench(t, append(args, "--dir="+dir)...)
			for _, name := range []string{"ratio_kafka_engine", "bytes_per_event", "cpu_seconds_per_million", "peak_rss_mib"} {
				if figure, ok := result[name].(float64); !ok || figure <= 0 {
					t.Errorf("%s is %v", name, result[name])
				}
			}
			whole := !slices.Contains(args, "--celery-events=0")
			for _, name := range []string{"fraction_of_ceiling", "celery_bytes_per_event"} {
				if figure, ok := result[name].(float64); !ok || figure > 0 != whole {
					t.Errorf("%s is %v", name, result[name])
				}
			}
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("the data are left: %v", err)
			}
		})
	}
}

// runBench runs the program and gives its last line, and all of what it says.
func runBench(t *testing.T, args ...string) (result map[string]any, text string) {
	t.Helper()
	if _, err := clickhouse.Locate(""); err != nil {
		require.Missing(t, "libchdb", "npm ci --prefix embedded/clickhouse")
	}
	binary := filepath.Join(t.TempDir(), "bench")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(binary, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &result); err != nil {
		t.Fatalf("%v: %s", err, lines[len(lines)-1])
	}
	return result, stdout.String()
}

func TestOptionsAreChecked(t *testing.T) {
	for _, args := range []string{"--events=10", "--rounds=0", "--views=some", "--broker=other", "--ways=fetch,fly", "--kafka-parse=no", "more"} {
		if _, err := parse([]string{args}, &bytes.Buffer{}); err == nil {
			t.Errorf("%s is taken", args)
		}
	}
}

// TestRulesBenchmark holds the form of what a benchmark of the rules tells, and that it leaves nothing behind.
func TestRulesBenchmark(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	result, text := runBench(t, "rules", "--small=64e3", "--large=128e3", "--new=4e3", "--ticks=1", "--known=0.2", "--explain", "--dir="+dir)
	for _, name := range []string{"tick_ms_10m", "tick_ms_100m", "growth", "cpu_ratio_to_ingest", "rows_read_100m", "tick_cpu_seconds"} {
		if figure, ok := result[name].(float64); !ok || figure <= 0 {
			t.Errorf("%s is %v", name, result[name])
		}
	}
	if known := result["keys_with_an_old_past"].(float64); known < 0.15 || known > 0.25 {
		t.Errorf("%v of the keys have an old past, want 0.2", known)
	}
	for _, statement := range []string{"rules/told", "rules/histories", "insert into finding_versions", "rules/crowds"} {
		if n := strings.Count(text, statement+" "); n != 2 {
			t.Errorf("%s is told %d times, want once for each size:\n%s", statement, n, text)
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the data are left: %v", err)
	}
}

func TestRulesOptionsAreChecked(t *testing.T) {
	for _, args := range []string{"--small=10", "--small=2e6 --large=2e6", "--large=1e12", "--large=NaN", "--new=1", "--ticks=0", "--known=2", "more"} {
		if _, err := parseRules(strings.Fields(args), &bytes.Buffer{}); err == nil {
			t.Errorf("%s is taken", args)
		}
	}
}

// TestShapes holds what the topics are filled with to what is said of them.
func TestShapes(t *testing.T) {
	decoder, err := event.NewDecoder(decoderConfig())
	if err != nil {
		t.Fatal(err)
	}
	const events = 20_000
	for _, c := range []struct {
		name     string
		shape    shape
		from, to int // bytes of a value, on average
		keyless  bool
	}{
		{"auditor JSON", newShop(), 326, 346, false},
		{"auditor JSON with retries", newMixed(1, pastBegin(time.Now()), 0, 0), 326, 356, false},
		{"Celery", newCelery(), 280, 320, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			size, types, tasks, keyless := 0, map[event.Type]int{}, map[string]int{}, 0
			for range events {
				key, value, at := c.shape.next()
				size += len(value)
				decoded, rejects := decoder.Decode(event.Record{Key: key, Value: value, Time: at})
				if len(rejects) > 0 {
					t.Fatalf("%s: %s", rejects[0].Detail, value)
				}
				types[decoded[0].Type]++
				tasks[decoded[0].TaskID]++
				if decoded[0].BusinessKey == "" {
					keyless++
				}
			}
			if mean := size / events; mean < c.from || mean > c.to {
				t.Errorf("%d bytes an event, want %d to %d", mean, c.from, c.to)
			}
			if n := types[event.Succeeded]; n < events/5 || n > events/4 {
				t.Errorf("%d of %d succeeded", n, events)
			}
			if len(tasks) < events/5 || len(tasks) > events/3 {
				t.Errorf("%d tasks in %d events", len(tasks), events)
			}
			if keyless > 0 != c.keyless {
				t.Errorf("%d events without a key", keyless)
			}
		})
	}
}
