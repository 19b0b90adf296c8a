package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"auditor/ingest"
)

func TestPageHoldsWhatTheProgramPrints(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", pagePath))
	if err != nil {
		t.Fatal(err)
	}
	in := defaults()
	tables := in.page(usualRates)
	want, err := put(string(text), tables)
	if err != nil {
		t.Fatal(err)
	}
	if want != string(text) {
		t.Errorf("%s does not hold what the program prints: make scaling ARGS=--write", pagePath)
	}
	var out bytes.Buffer
	if err := run(nil, &out, &out); err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		if !strings.Contains(out.String(), table.text) {
			t.Errorf("the program does not print the table %s", table.name)
		}
	}
}

func TestPutKeepsTheRestOfThePage(t *testing.T) {
	begin, end := marks("a")
	got, err := put("before\n"+begin+"old\n"+end+"after\n", []table{{"a", "new\n"}})
	if want := "before\n" + begin + "new\n" + end + "after\n"; err != nil || got != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	if _, err := put(begin, []table{{"a", ""}}); err == nil {
		t.Error("a page without an end mark is taken")
	}
}

func TestLastLineIsJSON(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"--rates=20000", "--engine-memory"}, &out, &out); err == nil {
		t.Error("an unknown flag is taken")
	}
	out.Reset()
	if err := run([]string{"--rates=20000, 40000", "--utilisation=1"}, &out, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var last struct {
		Rates []struct {
			Rate     float64 `json:"events_per_second"`
			CaughtUp int     `json:"caught_up_seconds"`
		} `json:"rates"`
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatal(err)
	}
	if len(last.Rates) != 2 || last.Rates[1].Rate != 40_000 || last.Rates[1].CaughtUp != -1 {
		t.Errorf("got %+v; want two rates that never catch up", last.Rates)
	}
}

func TestInputsOutOfBoundsAreNamed(t *testing.T) {
	in := defaults()
	if err := in.validate(); err != nil {
		t.Fatal(err)
	}
	for _, i := range in.list() {
		for _, wrong := range []float64{i.least - 1, i.most * 2, math.NaN()} {
			if err := run([]string{"--" + i.name, strconv.FormatFloat(wrong, 'f', -1, 64)}, &bytes.Buffer{}, &bytes.Buffer{}); err == nil ||
				!strings.Contains(err.Error(), "--"+i.name+" must be from") {
				t.Errorf("--%s=%v: %v", i.name, wrong, err)
			}
		}
		if i.source == "" && i.known != wanted {
			t.Errorf("--%s has no source", i.name)
		}
	}
	for _, args := range []string{"--rates=0", "--rates=many", "--rates=", "more", "--write --ingest=9", "--bytes-all=40",
		"--run-events=100000 --full-rows=100000"} {
		if err := run(strings.Fields(args), &bytes.Buffer{}, &bytes.Buffer{}); err == nil {
			t.Errorf("%s is taken", args)
		}
	}
}

// What the model takes from files that cannot be imported is what they say.
func TestInputsAreThoseOfTheProgram(t *testing.T) {
	in := defaults()
	schema, err := filepath.Glob("../queries/schema/*.sql")
	if err != nil || len(schema) == 0 {
		t.Fatal(schema, err)
	}
	window := regexp.MustCompile(`deduplication_window = (\d+)`)
	views := 0
	for _, file := range schema {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range window.FindAllSubmatch(text, -1) {
			if n, _ := strconv.ParseFloat(string(m[1]), 64); n != in.window {
				t.Errorf("%s: a window of %v; the model has %v", file, n, in.window)
			}
		}
		for _, statement := range strings.Split(string(text), ";") {
			if strings.Contains(statement, "CREATE MATERIALIZED VIEW") && strings.Contains(statement, "\nFROM events\n") {
				views++
			}
		}
	}
	if tables := float64(1 + views - 1); tables != in.tables { // events, and all that is derived but keyless
		t.Errorf("a batch fills %v tables; the model has %v", tables, in.tables)
	}
	for _, v := range variants {
		changed, config := defaults(), ingest.DefaultConfig()
		v.change(&changed)
		config.MaxRows, config.MaxBytes, config.Memory = int(changed.maxRows), int(changed.maxMiB*mib), int(changed.memory*mib)
		config.MaxWait = time.Duration(changed.maxWait * float64(time.Second))
		if err := errors.Join(changed.validate(), config.Validate()); err != nil {
			t.Errorf("%s: %v", v.name, err)
		}
	}
	text, err := os.ReadFile("../ingest/group.go")
	if err != nil {
		t.Fatal(err)
	}
	heartbeat := regexp.MustCompile(`heartbeat: +(\d+) \* time.Second`).FindSubmatch(text)
	if heartbeat == nil || string(heartbeat[1]) != strconv.FormatFloat(in.heartbeat, 'f', -1, 64) {
		t.Errorf("ingest's heartbeat is %q; the model has %v", heartbeat, in.heartbeat)
	}
}

func TestPlanBuysWhatIsAsked(t *testing.T) {
	for _, rate := range []float64{1, 500, 10_000, 123_456, 1e6, 1e7} {
		for _, u := range []float64{0.3, 0.5, 0.9} {
			in := defaults()
			in.utilisation = u
			p := in.plan(rate)
			bought := rate / u * (1 - 1e-6)
			for what, takes := range map[string]float64{
				"partitions": float64(p.partitions) * in.partitionRate,
				"processes":  float64(p.processes) * in.cores / in.ingest * 1e6,
				"memory":     float64(p.processes) * in.memory * mib / in.rowMemory / in.inFlight(in.fullBatch()),
			} {
				if takes < bought && !(what != "partitions" && p.processes == p.partitions) {
					t.Errorf("%v/s at %v: %s for %v/s", rate, u, what, takes)
				}
			}
			if disk := float64(p.shards) * in.disk * 1e12 * in.full; disk < p.kept {
				t.Errorf("%v/s: disk for %v bytes of %v", rate, disk, p.kept)
			}
			if p.batches*p.rows < rate*(1-1e-6) || p.rows > in.fullBatch() {
				t.Errorf("%v/s: %v batches of %v rows", rate, p.batches, p.rows)
			}
		}
	}
}

func TestMergesAreThoseOfTheRun(t *testing.T) {
	in := defaults()
	if got := in.timesMerged(in.fullRows, in.runEvents); math.Abs(got-in.runMerges) > 1e-9 {
		t.Errorf("an event of the run is merged %v times; measured were %v", got, in.runMerges)
	}
	if got := in.timesMerged(10, 5); got != 0 {
		t.Errorf("a part larger than all there is is merged %v times", got)
	}
	if in.timesMerged(100, 1e9) <= in.timesMerged(1000, 1e9) || in.timesMerged(100, 1e13) != in.timesMerged(100, 1e14) {
		t.Error("smaller parts must be merged more often, and the largest not at all")
	}
}

func TestWhatMakesSmallParts(t *testing.T) {
	in := defaults()
	usual := in.plan(1e6)
	in.disk /= 4
	if p := in.plan(1e6); p.partRows >= usual.partRows || p.parts <= usual.parts || p.engineCores <= usual.engineCores {
		t.Errorf("more shards must make more and smaller parts: %+v beside %+v", p, usual)
	}
	in = defaults()
	in.maxWait, in.maxMiB, in.maxRows = 10, 64, 200_000
	p := in.plan(1e6)
	fewer := p.parts / usual.parts
	if fewer < 0.1-1e-6 || fewer > 0.2 { // a tenth, or a little more where batches are full before the wait is over
		t.Errorf("with a wait ten times as long there are %v parts a second, of %v", p.parts, usual.parts)
	}
	for _, name := range []string{ofMerges, ofTokens, ofKeeper} {
		if math.Abs(p.strain[name]/usual.strain[name]-fewer) > 1e-6 {
			t.Errorf("%s: %v with larger batches, %v without", name, p.strain[name], usual.strain[name])
		}
	}
}

func TestGivesWayWhereStrainPassesOne(t *testing.T) {
	in := defaults()
	for _, name := range weak {
		at := in.bears(name)
		if below, above := in.plan(at * 0.97).strain[name], in.plan(at * 1.03).strain[name]; below > 1 || above <= 1 {
			t.Errorf("%s gives way at %v, but %v below and %v above", name, at, below, above)
		}
	}
	p := plan{strain: map[string]float64{ofMerges: 0.2, ofTokens: 0.1, ofKeeper: 3, ofRules: 2}}
	if p.first() != ofKeeper {
		t.Errorf("%s gives way first", p.first())
	}
}
