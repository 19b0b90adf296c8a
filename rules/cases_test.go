package rules_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"auditor/embedded/clickhouse/chtest"
	"auditor/event"
	"auditor/event/finding"
	"auditor/queries/querytest"
	"auditor/rules"
)

func TestMain(m *testing.M) { chtest.Main(m) }

// expectation is what a case must come to: findings that must be there with the fields given, and rules that must not.
type expectation struct {
	AsOf     time.Time        `json:"as_of"`
	Findings []map[string]any `json:"findings"`
	Absent   []string         `json:"absent"`
}

// Each case re-creates the events of a public report. It goes through the decoder, the store and the rules; what it says
// of rules that do not exist yet is left to them.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/cases/*.expect.json")
	if err != nil || len(files) == 0 {
		t.Fatal("no cases", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".expect.json")
		t.Run(name, func(t *testing.T) {
			expect := read[expectation](t, file)
			found := evaluate(t, "testdata/cases/"+name+".jsonl", expect.AsOf, event.DecoderConfig{})
			check(t, expect, found)
			for _, f := range found {
				t.Log(f["severity"], f["title"], "|", f["explanation"])
			}
		})
	}
}

// evaluate judges a file of events as of a moment.
func evaluate(t *testing.T, file string, asOf time.Time, decoding event.DecoderConfig) []map[string]any {
	t.Helper()
	store, batch := querytest.Store(t), decode(t, file, decoding)
	if err := store.InsertBatch(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	engine, err := rules.New(rules.DefaultConfig(), store, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	found, err := engine.Evaluate(t.Context(), asOf)
	if err != nil {
		t.Fatal(err)
	}
	again, err := engine.Evaluate(t.Context(), asOf)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(found, again); diff != "" {
		t.Errorf("a second look changes the findings: %s", diff)
	}
	checkReplay(t, store, batch.Events, asOf, found)
	return asJSON(t, found)
}

func decode(t *testing.T, file string, config event.DecoderConfig) event.Batch {
	t.Helper()
	decoder, err := event.NewDecoder(config)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b := event.Batch{Topic: filepath.Base(file)}
	for line := bufio.NewScanner(bytes.NewReader(text)); line.Scan(); b.Records++ {
		at := event.Position{Topic: b.Topic, Offset: int64(b.Records)}
		events, rejects := decoder.Decode(event.Record{Position: at, Value: slices.Clone(line.Bytes())})
		for i := range events {
			events[i].KafkaTime = events[i].Time
		}
		b.Events, b.Rejects = append(b.Events, events...), append(b.Rejects, rejects...)
	}
	if len(b.Rejects) > 0 {
		t.Fatalf("%s: rejected: %+v", file, b.Rejects[0])
	}
	b.Last = int64(b.Records - 1)
	return b
}

// check compares findings with what a case expects of the rules that exist.
func check(t *testing.T, expect expectation, found []map[string]any) {
	t.Helper()
	for _, want := range expect.Findings {
		if !slices.Contains(rules.Names, want["rule"].(string)) {
			continue
		}
		if !slices.ContainsFunc(found, func(f map[string]any) bool { return has(f, want) }) {
			t.Errorf("missing: %v", want)
		}
	}
	for _, f := range found {
		if rule := f["rule"].(string); slices.Contains(expect.Absent, "*") || slices.Contains(expect.Absent, rule) {
			t.Errorf("must not be found: %v", f)
		}
	}
	if t.Failed() {
		for _, f := range found {
			t.Logf("found: %v %v %v %v effects=%v: %v", f["rule"], f["kind"], f["business_key"], f["cause"], f["effects"], f["explanation"])
		}
	}
}

func has(f, want map[string]any) bool {
	for name, value := range want {
		if fmt.Sprint(f[name]) != fmt.Sprint(value) {
			return false
		}
	}
	return true
}

func asJSON(t *testing.T, findings []finding.Finding) []map[string]any {
	t.Helper()
	var all []map[string]any
	for _, f := range findings {
		text, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return all
}

func read[T any](t *testing.T, file string) T {
	t.Helper()
	var v T
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}
