package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"

	"auditor/cmd/auditor/config"
	"auditor/embedded/clickhouse/chtest"
	"auditor/event"
	"auditor/event/finding"
)

// The running service - broker, ingest, engine and rules - finds in every case what `auditor evaluate` finds in its file. The cases
// are sent at once, each in a namespace of its own and moved in time so that its moment of judgement is now; and in reverse order, which must not matter.
func TestServiceFindsWhatEvaluateFinds(t *testing.T) {
	chtest.Library(t)
	now := time.Now().UTC().Truncate(time.Second)
	lines := movedCases(t, "../../rules/testdata/cases", now)
	reversed := slices.Clone(lines)
	slices.Reverse(reversed)

	c := config.Default()
	c.Listen, c.Data = "127.0.0.1:0", t.TempDir()
	c.Embedded.KafkaListen, c.Embedded.KafkaPartitions = "127.0.0.1:0", 3
	c.Rules.Interval = 100 * time.Millisecond
	registry := prometheus.NewRegistry()
	a := newApp(c, allRoles, discardLog, registry)
	if err := a.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.stop(); err != nil {
			t.Error(err)
		}
	})
	client, err := kgo.NewClient(kgo.SeedBrokers(a.broker.Addr()), kgo.DefaultProduceTopic(c.Kafka.Topics[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var records []*kgo.Record
	for _, line := range reversed {
		records = append(records, &kgo.Record{Key: []byte(line.key), Value: line.text})
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "everything is in the store", func() bool {
		read := int64(0)
		for _, p := range a.ingester.Status().Partitions {
			read += p.Next
		}
		return read == int64(len(lines))
	})
	var file bytes.Buffer
	for _, line := range lines {
		file.Write(append(line.text, '\n'))
	}
	want := said(t, evaluateFile(t, c, &file, now))
	if len(want) < 20 {
		t.Fatalf("%d findings only, and this test proves little", len(want))
	}
	since := float64(time.Now().Add(stillOnItsWay).UnixMicro()) / 1e6
	eventually(t, "everything is judged", func() bool { return count64(t, registry, "auditor_rules_judged_time_seconds") > since })
	live, err := a.store.AllFindings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, said(t, live)); diff != "" {
		t.Errorf("evaluate (-), the running service (+):\n%s", diff)
	}
}

// stillOnItsWay is how long the rules take a task of which something has just arrived for one of which more is on its way.
const stillOnItsWay = 12 * time.Second

type caseLine struct {
	key  string
	text []byte
}

// movedCases gives the events of all cases, moved so that the moment of judgement of each is now.
func movedCases(t *testing.T, dir string, now time.Time) []caseLine {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) < 20 {
		t.Fatal(len(files), err)
	}
	var lines []caseLine
	for _, file := range files {
		name := strings.TrimSuffix(file, ".jsonl")
		var expect struct {
			AsOf time.Time `json:"as_of"`
		}
		if err := json.Unmarshal(contentsOf(t, name+".expect.json"), &expect); err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(contentsOf(t, file)) {
			var e map[string]any
			decoder := json.NewDecoder(bytes.NewReader(line))
			decoder.UseNumber()
			if err := decoder.Decode(&e); err != nil {
				t.Fatal(file, err)
			}
			e["namespace"] = filepath.Base(name)
			for _, field := range []string{"time", "eta", "expires", "deadline", "first_sent"} {
				if text, ok := e[field].(string); ok {
					at, err := time.Parse(time.RFC3339Nano, text)
					if err != nil {
						t.Fatal(file, err)
					}
					e[field] = at.Add(now.Sub(expect.AsOf)).Format(time.RFC3339Nano)
				}
			}
			text, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(lines, caseLine{fmt.Sprint(e["business_key"], e["task_id"]), text})
		}
	}
	return lines
}

func contentsOf(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func evaluateFile(t *testing.T, c config.Config, file *bytes.Buffer, asOf time.Time) []finding.Finding {
	t.Helper()
	store, err := openScratch(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer store.close()
	decoder, err := event.NewDecoder(c.Decoder())
	if err != nil {
		t.Fatal(err)
	}
	in := &intake{store: store.store, decoder: decoder, warn: os.Stderr, kafkaTime: time.Now()}
	if err := in.readFiles(t.Context(), []string{"-"}, file); err != nil {
		t.Fatal(err)
	}
	found, err := judge(t.Context(), c, store.store, asOf)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// said gives what findings say that hold, in order: all of it but where their events lie in Kafka, and when they were written.
func said(t *testing.T, found []finding.Finding) []string {
	t.Helper()
	var all []string
	for _, f := range found {
		if f.State == finding.Resolved {
			continue
		}
		for i := range f.Evidence {
			f.Evidence[i].Topic, f.Evidence[i].Partition, f.Evidence[i].Offset, f.Evidence[i].Index = "", 0, 0, 0
		}
		text, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s %s %s", f.Namespace, f.Rule, text))
	}
	slices.Sort(all)
	return all
}
