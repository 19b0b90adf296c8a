package event_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"auditor/event"
)

// FuzzDecode holds for any bytes: nothing panics; each element becomes one event or one reject, under its own index;
// decoding again gives the same; a reject keeps its bytes; an event survives being written and read.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"", "[]", "null", everyField, `[{"type":"started","task_id":"a","time":1},{"a":1,"a":2},[]]`,
		`{"specversion":"1.0","id":"1","source":"s","type":"task.started.v1","subject":"k","data":{"task_id":"a","time":1}}`,
		`{"specversion":"1.0","id":"1","source":"s","type":"failed","data_base64":"eyJ0YXNrX2lkIjoiYSIsInRpbWUiOjF9"}`,
		`{"type":"started","task_id":"a","time":1.5e9,"task":"settle","args":["x"],"kwargs":"{'k': 'v', 'k': ...}","é\u0000":"\ud83d\ude00"}`,
		`{"type":"task-failed","uuid":"a","timestamp":1.5,"exception":"E('x')","traceback":"T\n  File \"f\"\n x\na.B: c"}`,
	} {
		f.Add([]byte(seed), "", "")
	}
	f.Add([]byte(`{"task_id":"a","time":1}`), "ce_specversion", "1.0")
	f.Add([]byte(`{"task_id":"a","time":1}`), "content-type", "application/cloudevents+json")
	files, err := filepath.Glob("testdata/celery/events_*.jsonl")
	if err != nil || len(files) == 0 {
		f.Fatal("no captures", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, line := range splitLines(string(data)) {
			f.Add([]byte(line), "", "")
		}
	}
	keys := map[string]string{"settle": `x:{{ arg 0 or kwarg "k" }}`, "tasks.slow": `{{ task }}:{{ arg 0 }}`}
	d := newDecoder(f, event.DecoderConfig{MaxBytes: 64 << 10, Namespace: "n", Keys: keys})
	f.Fuzz(func(t *testing.T, value []byte, header, content string) {
		r := event.Record{Position: event.Position{Topic: "t", Partition: 1, Offset: 2}, Value: value, Key: []byte("k")}
		if header != "" {
			r.Headers = []event.Header{{Key: header, Value: []byte(content)}, {Key: "ce_id", Value: []byte("1")}, {Key: "ce_source", Value: []byte("s")},
				{Key: "ce_type", Value: []byte("task.started")}}
		}
		before := bytes.Clone(value)
		events, rejects := d.Decode(r)
		if !bytes.Equal(before, value) {
			t.Fatal("the record was changed")
		}
		again, againRejects := d.Decode(r)
		if diff := cmp.Diff(events, again); diff != "" {
			t.Fatal(diff)
		}
		if diff := cmp.Diff(rejects, againRejects); diff != "" {
			t.Fatal(diff)
		}
		checkIndexes(t, events, rejects)
		for _, j := range rejects {
			checkReject(t, j, value, len(events)+len(rejects) == 1)
		}
		for _, e := range events {
			checkEvent(t, d, e)
		}
	})
}

func checkIndexes(t *testing.T, events []event.Event, rejects []event.Reject) {
	t.Helper()
	seen := make([]bool, len(events)+len(rejects))
	if len(seen) == 0 {
		t.Fatal("neither an event nor a reject")
	}
	mark := func(p event.Position) {
		if p.Topic != "t" || p.Partition != 1 || p.Offset != 2 || int(p.Index) >= len(seen) || seen[p.Index] {
			t.Fatalf("position %+v of %d", p, len(seen))
		}
		seen[p.Index] = true
	}
	for _, e := range events {
		mark(e.Position)
	}
	for _, j := range rejects {
		mark(j.Position)
	}
}

func checkReject(t *testing.T, j event.Reject, value []byte, alone bool) {
	t.Helper()
	known := false
	for _, r := range event.Reasons {
		known = known || r == j.Reason
	}
	if !known || j.Detail == "" || !utf8.ValidString(j.Detail) || len(j.Detail) > 512 || string(j.Key) != "k" {
		t.Fatalf("reject %+v", j)
	}
	if !bytes.Contains(value, j.Raw) || alone && !bytes.HasPrefix(bytes.TrimLeft(value, " \t\r\n"), []byte("[")) && !bytes.Equal(value, j.Raw) {
		t.Fatalf("raw bytes are %q, the record is %q", j.Raw, value)
	}
}

func checkEvent(t *testing.T, d *event.Decoder, e event.Event) {
	t.Helper()
	switch {
	case e.ID == "" || e.Type.Rank() < 0 || e.Time.IsZero() || e.TaskID == "" && (e.Worker == "" || !e.Type.OfWorker()):
		t.Fatalf("an event lacks what it must have: %+v", e)
	case e.Time.Location() != time.UTC || e.Time.Nanosecond()%1000 != 0:
		t.Fatalf("time %s", e.Time)
	}
	for _, s := range []string{e.ID, e.Task, e.TaskID, e.BusinessKey, e.Worker, e.Queue, e.Attributes, e.Namespace} {
		if !utf8.ValidString(s) {
			t.Fatalf("bad UTF-8 in %q", s)
		}
	}
	text := string(e.AppendJSON(nil))
	if len(text) > 64<<10 {
		return // an envelope can grow beyond what one event may have
	}
	e.Position = event.Position{}
	events, rejects := d.Decode(event.Record{Value: []byte(text)})
	if len(events) != 1 || len(rejects) != 0 {
		t.Fatalf("%s does not decode: %+v", text, rejects)
	}
	if diff := cmp.Diff(e, events[0]); diff != "" {
		t.Fatalf("%s\n%s", text, diff)
	}
}
