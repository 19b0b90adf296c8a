package archive

import (
	"bytes"
	"compress/gzip"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"auditor/event"
)

var update = flag.Bool("update", false, "write the golden files anew")

// read gives what ingest reads of a file: an event a line, or why there is none.
func read(t testing.TB, text, name string, f Format, table Table) []string {
	t.Helper()
	decoder, err := event.NewDecoder(event.DecoderConfig{})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for rec, err := range Read(strings.NewReader(text), name, f, table) {
		if err != nil {
			out = append(out, "ends: "+err.Error())
			continue
		}
		if rec.Bad != "" {
			out = append(out, fmt.Sprintf("%d %s", rec.Number, rec.Bad))
			continue
		}
		events, rejects := decoder.Decode(event.Record{Value: rec.Value})
		for _, r := range rejects {
			out = append(out, fmt.Sprintf("%d %s: %s", rec.Number, r.Reason, r.Detail))
		}
		for _, e := range events {
			e.ID = ""
			out = append(out, fmt.Sprintf("%d %s", rec.Number, e.AppendJSON(nil)))
		}
	}
	return out
}

const flowerDump = `{"a1": {"uuid": "a1", "name": "shop.settle", "state": "RETRY", "received": 1793606401.5, "sent": 1793606400.5, "started": 1793606402, "retried": 1793606403,
  "args": "('42',)", "kwargs": "{}", "retries": 1, "worker": "w1@h", "client": "web@h", "routing_key": "celery", "exception": "ConnectionError('503')", "traceback": null,
  "timestamp": 1793606403, "clock": 9, "result": null, "eta": null, "expires": null, "root_id": "a1", "parent_id": null, "succeeded": null, "failed": null, "runtime": null},
 "a2": {"uuid": "a2", "name": "shop.settle", "state": "PENDING"},
 "a3": {"uuid": "a3", "name": "shop.mail", "state": "SUCCESS", "started": 1793606401, "succeeded": 1793606402, "runtime": 0.5, "worker": {"hostname": "w2@h"}}}`

var flowerEventsOf = []string{
	`1 {"type":"sent","time":"2026-11-02T08:00:00.5Z","system":"celery","task":"shop.settle","task_id":"a1","queue":"celery","worker":"web@h","root_id":"a1","args_digest":"sha256:DIGEST","attributes":{"args":"('42',)","kwargs":"{}","routing_key":"celery"}}`,
	`1 {"type":"received","time":"2026-11-02T08:00:01.5Z","system":"celery","task":"shop.settle","task_id":"a1","retries":1,"queue":"celery","worker":"w1@h","root_id":"a1","args_digest":"sha256:DIGEST","attributes":{"args":"('42',)","kwargs":"{}","routing_key":"celery"}}`,
	`1 {"type":"started","time":"2026-11-02T08:00:02Z","system":"celery","task_id":"a1","worker":"w1@h"}`,
	`1 {"type":"retried","time":"2026-11-02T08:00:03Z","system":"celery","task_id":"a1","worker":"w1@h","error":{"type":"ConnectionError","message":"503"}}`,
	`2 the task of Flower tells no time at all`,
	`3 {"type":"started","time":"2026-11-02T08:00:01Z","system":"celery","task_id":"a3","worker":"w2@h"}`,
	`3 {"type":"succeeded","time":"2026-11-02T08:00:02Z","system":"celery","task_id":"a3","worker":"w2@h","runtime":0.5}`,
}

var digest = regexp.MustCompile(`sha256:[0-9a-f]{32}`)

func TestFilesOfEveryKind(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte("task_id,time,outcome\na1,1793606400,succeeded\n")); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	const succeeded = `1 {"type":"succeeded","time":"2026-11-02T08:00:00Z","task_id":"a1"}`
	for _, c := range []struct {
		name, file, text string
		table            Table
		want             []string
	}{
		{"events", "a.jsonl", `{"task_id":"a1","type":"succeeded","time":1793606400}` + "\n{\n", Table{}, []string{succeeded, "2 not_json: the JSON ends too early"}},
		{"Flower's export", "tasks.json", flowerDump, Table{}, flowerEventsOf},
		{"Flower's tasks in a list", "tasks.json", `[{"uuid":"a1","state":"SUCCESS","succeeded":1793606400}]`, Table{},
			[]string{`1 {"type":"succeeded","time":"2026-11-02T08:00:00Z","system":"celery","task_id":"a1"}`}},
		{"an export that breaks off", "tasks.json", `{"a1": {"uuid":"a1","state":"SUCCESS","succeeded":1793606400}, "a2`, Table{},
			[]string{`1 {"type":"succeeded","time":"2026-11-02T08:00:00Z","system":"celery","task_id":"a1"}`, "2 the export breaks off: unexpected EOF"}},
		{"packed", "a.csv.gz", packed.String(), Table{}, []string{succeeded}},
		{"badly packed", "a.gz", "\x1f\x8bxxxxxxxxxxxxxxxxx", Table{}, []string{"ends: unpack: gzip: invalid header"}},
		{"columns of their own", "a.csv", "\ufeffuuid;status;finished;note\na1;SUCCESS;2026-11-02 09:00:00;x\na2;GONE;2026-11-02 09:00:00;x\na3;FAILURE;;x\na4;FAILURE\n" +
			"a5;RETRY;1793606400000;\"two\nlines\"\n",
			Table{Columns: map[string]string{"task_id": "uuid", "state": "status", "time": "finished"}, Values: map[string]string{"task": "mail", "error.type": "E", "max_retries": "3"},
				Delimiter: ';', Zone: time.FixedZone("CET", 3600)},
			[]string{`1 {"type":"succeeded","time":"2026-11-02T08:00:00Z","task":"mail","task_id":"a1","max_retries":3,"error":{"type":"E"}}`,
				`2 state: "GONE" is no state that is known; map the column to type or outcome, if it tells those`, "3 no_time: the event tells no time",
				"4 record on line 5: wrong number of fields", `5 {"type":"retried","time":"2026-11-02T08:00:00Z","task":"mail","task_id":"a5","max_retries":3,"error":{"type":"E"}}`}},
		{"tabs", "a.tsv", "task_id\ttime\toutcome\na1\t2026-11-02T08:00:00Z\tsucceeded\n", Table{}, []string{succeeded}},
		{"no such column", "a.csv", "a,b\n1,2\n", Table{Columns: map[string]string{"task_id": "uuid"}}, []string{`ends: there is no column "uuid" for task_id; there are a, b`}},
		{"no column at all", "a.csv", "a,b\n1,2\n", Table{}, []string{"ends: no column is called like a field of events: say which is which"}},
		{"two of a name", "a.csv", "a,a\n1,2\n", Table{}, []string{`ends: two columns are called "a"`}},
		{"nothing", "a.csv", "", Table{}, nil},
		{"bad cells", "a.csv", "task_id,time,outcome,retries,redelivered\na1,soon,failed,,\na1,1793606400,failed,0x1,\na1,1793606400,failed,1,maybe\n", Table{},
			[]string{`1 time: must be a time such as 2026-03-04T05:06:07Z, 2026-03-04 05:06:07 or Unix seconds, not "soon"`, `2 retries: must be a number, not "0x1"`,
				`3 redelivered: must be true or false, not "maybe"`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.table.Validate(); err != nil {
				t.Fatal(err)
			}
			got := read(t, c.text, c.file, Auto, c.table)
			for i := range got {
				got[i] = digest.ReplaceAllString(got[i], "sha256:DIGEST")
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// The export is one of Flower 2.2 and Celery 5.7; the golden file is what it is read as.
func TestFlowerExport(t *testing.T) {
	text, err := os.ReadFile("testdata/flower.json")
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Join(read(t, string(text), "flower.json", Auto, Table{}), "\n") + "\n"
	if *update {
		if err := os.WriteFile("testdata/flower.golden", []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/flower.golden")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What a later export tells of a task beside what it told before must not make other events of what both tell.
func TestExportsOfOneTaskShareTheirEvents(t *testing.T) {
	ids := func(text string) map[string]bool {
		decoder, err := event.NewDecoder(event.DecoderConfig{})
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]bool{}
		for rec, err := range Read(strings.NewReader(text), "a", Auto, Table{}) {
			if err != nil {
				t.Fatal(err)
			}
			events, _ := decoder.Decode(event.Record{Value: rec.Value})
			for _, e := range events {
				out[e.ID] = true
			}
		}
		return out
	}
	before := ids(`{"a1":{"uuid":"a1","state":"STARTED","received":1793606401,"started":1793606402,"clock":3,"timestamp":1793606402}}`)
	after := ids(`{"a1":{"uuid":"a1","state":"SUCCESS","received":1793606401,"started":1793606402,"succeeded":1793606403,"clock":5,"timestamp":1793606403,"result":"1"}}`)
	for id := range before {
		if !after[id] {
			t.Errorf("%s is of the first export alone", id)
		}
	}
	if len(before) != 2 || len(after) != 3 {
		t.Errorf("%d and %d events", len(before), len(after))
	}
}

// Every field that a column can fill is one of events, and every one of events can be filled.
func TestColumnsFillEveryField(t *testing.T) {
	text, err := os.ReadFile(filepath.FromSlash("../../../docs/events.md"))
	if err != nil {
		t.Fatal(err)
	}
	outer := map[string]bool{"state": true}
	for field := range tableFields {
		name, _, _ := strings.Cut(field, ".")
		outer[name] = true
	}
	_, rest, _ := strings.Cut(string(text), "## Fields")
	rest, _, _ = strings.Cut(rest, "\n- ")
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(rest, -1) {
		if !outer[m[1]] && m[1] != "attributes" {
			t.Errorf("no column fills %s", m[1])
		}
		delete(outer, m[1])
	}
	if delete(outer, "state"); len(outer) > 0 {
		t.Errorf("there are no such fields: %v", outer)
	}
	cells := map[kind]string{isText: "1", isNumber: "2", isTime: "1793606400", isFlag: "true", isState: "SUCCESS"}
	for field, k := range tableFields {
		table := Table{Values: map[string]string{"task_id": "a1", "time": "1793606400", "type": "succeeded", "effect.name": "x"}}
		delete(table.Values, field)
		switch field {
		case "outcome", "type", "state":
			delete(table.Values, "type")
			cells[isText] = "succeeded"
		default:
			cells[isText] = "1"
		}
		got := read(t, field+"\n"+cells[k]+"\n", "a.csv", CSV, table)
		if len(got) != 1 || !strings.HasPrefix(got[0], "1 {") || strings.Contains(got[0], "attributes") {
			t.Errorf("%s: %q", field, got)
		}
	}
}

func TestTablesAreChecked(t *testing.T) {
	err := Table{Columns: map[string]string{"colour": "c", "task": "t"}, Values: map[string]string{"task": "x", "time": "soon"}, Delimiter: '"'}.Validate()
	for _, want := range []string{"colour: no such field; known are acks_late, ", "task: has a column and a value", "time: must be a time", "the delimiter must be one letter"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

func TestQuotesThatNeverEndAreRefused(t *testing.T) {
	got := read(t, "task_id\n\""+strings.Repeat("x", MaxLine+1<<20), "a.csv", CSV, Table{})
	if len(got) != 1 || got[0] != "ends: "+errLongLine.Error() {
		t.Errorf("%.300q", got)
	}
}

// Whatever a file holds, its records come in order, each with a value or a reason, and reading ends.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{"", flowerDump, "task_id,time\n1,2\n\"", "\x1f\x8b", `{"a":{"uuid":`, "[{\"uuid\":1,\"state\":{}}]", "a\tb\n", "{}\n{}"} {
		for _, name := range []string{"a", "a.csv", "a.tsv"} {
			f.Add([]byte(seed), name)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		last := int64(0)
		for rec, err := range Read(bytes.NewReader(data), name, Auto, Table{Values: map[string]string{"type": "sent"}}) {
			if err != nil {
				continue
			}
			if rec.Number < last || (rec.Bad == "") == (len(rec.Value) == 0) {
				t.Fatalf("record %d after %d: %q %q", rec.Number, last, rec.Value, rec.Bad)
			}
			last = rec.Number
		}
	})
}
