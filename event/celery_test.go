package event_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"auditor/event"
)

var update = flag.Bool("update", false, "write the golden files anew")

func splitLines(s string) []string { return strings.Split(strings.TrimSpace(s), "\n") }

// The captures are of real workers; each golden file is what they decode to, as auditor JSON.
func TestCeleryCaptures(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{Keys: map[string]string{"tasks.slow": "order:{{ arg 0 }}"}})
	files, err := filepath.Glob("testdata/celery/events_*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no captures", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			var got []byte
			captured := lines(t, name)
			for _, line := range captured {
				e := decodeOne(t, d, line)
				got = append(e.AppendJSON(got), '\n')
			}
			golden := strings.TrimSuffix(name, ".jsonl") + ".golden"
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want := lines(t, golden)
			for i, line := range splitLines(string(got)) {
				if i >= len(want) || line != want[i] {
					t.Fatalf("line %d:\n%s\ngives\n%s", i+1, captured[i], line)
				}
			}
			list, rejects := d.Decode(event.Record{Value: []byte("[" + strings.Join(captured, ",") + "]")})
			if len(list) != len(want) || len(rejects) != 0 {
				t.Errorf("as a list: %d events, %d rejects, want %d events", len(list), len(rejects), len(want))
			}
			for i := range list {
				if line := string(list[i].AppendJSON(nil)); line != want[i] {
					t.Errorf("as a list, element %d:\n%s\nwant\n%s", i, line, want[i])
				}
			}
		})
	}
}

// celery makes a raw Celery event.
func celery(t testing.TB, kind string, members map[string]any) string {
	t.Helper()
	m := map[string]any{"type": kind, "uuid": "u1", "hostname": "w1@h", "timestamp": 1796065075.25, "utcoffset": -5, "pid": 17, "clock": 3}
	for k, v := range members {
		if v == nil {
			delete(m, k)
		} else {
			m[k] = v
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestCeleryTypes(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{})
	for kind, want := range map[string]event.Type{
		"task-sent": event.Sent, "task-received": event.Received, "task-started": event.Started, "task-succeeded": event.Succeeded,
		"task-failed": event.Failed, "task-retried": event.Retried, "task-rejected": event.Rejected, "task-revoked": event.Revoked,
	} {
		e := decodeOne(t, d, celery(t, kind, nil))
		if e.Type != want || e.System != "celery" || e.TaskID != "u1" || e.Worker != "w1@h" || e.PID != 17 || e.Active != event.Unknown {
			t.Errorf("%s gives %+v", kind, e)
		}
		if want := time.Date(2026, 11, 30, 18, 57, 55, 250e6, time.UTC); !e.Time.Equal(want) {
			t.Errorf("%s is at %s, want %s: utcoffset shifts nothing", kind, e.Time, want)
		}
	}
	for _, kind := range []string{"worker-online", "worker-heartbeat", "worker-offline"} {
		e := decodeOne(t, d, celery(t, kind, map[string]any{"uuid": nil, "active": 2}))
		if e.Type != event.Heartbeat || e.Active != 2 || !strings.Contains(e.Attributes, `"celery_type":"`+kind+`"`) {
			t.Errorf("%s gives %+v", kind, e)
		}
	}
	for value, want := range map[string]event.Reason{
		celery(t, "task-progress", nil):                                    event.ReasonUnknownType,
		celery(t, "worker-dancing", nil):                                   event.ReasonUnknownType,
		celery(t, "task-started", map[string]any{"uuid": nil}):             event.ReasonNoTaskID,
		celery(t, "worker-heartbeat", map[string]any{"hostname": ""}):      event.ReasonNoTaskID,
		celery(t, "task-started", map[string]any{"timestamp": nil}):        event.ReasonNoTime,
		celery(t, "task-started", map[string]any{"timestamp": "now"}):      event.ReasonWrongType,
		celery(t, "task-failed", map[string]any{"traceback": 5}):           event.ReasonWrongType,
		celery(t, "task-received", map[string]any{"retries": -3}):          event.ReasonOutOfRange,
		celery(t, "worker-online", map[string]any{"celery_type": "trick"}): event.ReasonDuplicateName,
	} {
		// A worker's event may carry a task id, so the one without a hostname must lose that as well.
		value = strings.Replace(value, `"hostname":"","pid":17,"timestamp":1796065075.25,"type":"worker-heartbeat","utcoffset":-5,"uuid":"u1"`,
			`"timestamp":1796065075.25,"type":"worker-heartbeat"`, 1)
		if got := rejectOne(t, d, value); got.Reason != want {
			t.Errorf("%s is rejected as %s, want %s", value, got.Reason, want)
		}
	}
}

func TestCeleryFields(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{})
	e := decodeOne(t, d, celery(t, "task-sent", map[string]any{
		"name": "shop.settle", "retries": 2, "eta": "2026-11-30T18:57:56.801589+00:00", "expires": "2026-11-30T19:57:56.5",
		"routing_key": "rk", "root_id": "r", "parent_id": "p", "local_received": 1796065076.0,
	}))
	if e.Task != "shop.settle" || e.Retries != 2 || e.Queue != "rk" || e.RootID != "r" || e.ParentID != "p" || e.MaxRetries != event.Unknown {
		t.Errorf("got %+v", e)
	}
	if got, want := e.ETA, time.Date(2026, 11, 30, 18, 57, 56, 801589e3, time.UTC); !got.Equal(want) {
		t.Errorf("eta is %s, want %s", got, want)
	}
	if got, want := e.Expires, time.Date(2026, 11, 30, 19, 57, 56, 5e8, time.UTC); !got.Equal(want) {
		t.Errorf("expires is %s, want %s: Celery's bare times are UTC", got, want)
	}
	if want := `{"clock":3,"routing_key":"rk"}`; e.Attributes != want {
		t.Errorf("attributes are %s, want %s", e.Attributes, want)
	}
	e = decodeOne(t, d, celery(t, "task-sent", map[string]any{"queue": "q", "routing_key": "rk"}))
	if e.Queue != "q" {
		t.Errorf("queue is %q, want q", e.Queue)
	}
}

// Two monitors see the same event at different moments; it is one event.
func TestCeleryContentID(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{})
	id := func(members map[string]any) string { return decodeOne(t, d, celery(t, "task-started", members)).ID }
	base := id(nil)
	if id(map[string]any{"local_received": 1796065099.5}) != base {
		t.Error("the id depends on when a monitor received the event")
	}
	for name, v := range map[string]any{"clock": 4, "hostname": "w2@h", "timestamp": 1796065075.5, "uuid": "u2"} {
		if id(map[string]any{name: v}) == base {
			t.Errorf("another %s gives the same id", name)
		}
	}
}

func TestCeleryExceptions(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{})
	trace := func(last string) string {
		return "Traceback (most recent call last):\n  File \"/srv/app/tasks.py\", line 3, in f\n    raise X\n    ^^^^^^^\n" + last
	}
	for _, c := range []struct{ name, exception, traceback, kind, message string }{
		{"ordinary", `ConnectionError('upstream 503')`, trace("ConnectionError: upstream 503\n"), "ConnectionError", "upstream 503"},
		{"double quotes", `ValueError("it's wrong")`, "", "ValueError", "it's wrong"},
		{"old comma", `ValueError('x',)`, "", "ValueError", "x"},
		{"several arguments", `SMTPRecipientsRefused(550, 'no such user')`, "", "SMTPRecipientsRefused", "550, 'no such user'"},
		{"escaped", `KeyError('a\'b')`, "", "KeyError", `'a\'b'`},
		{"dotted", `kombu.exceptions.OperationalError('x')`, "", "OperationalError", "x"},
		{"no message", `Timeout()`, "", "Timeout", ""},
		{"pool child killed", `ExceptionWithTraceback()`, trace("billiard.exceptions.WorkerLostError: Worker exited prematurely: signal 9 (SIGKILL) Job: 2.\n"),
			"WorkerLostError", "Worker exited prematurely: signal 9 (SIGKILL) Job: 2."},
		{"hard time limit", `ExceptionWithTraceback()`, trace("billiard.exceptions.TimeLimitExceeded: TimeLimitExceeded(2,)\n"), "TimeLimitExceeded", "2"},
		{"message of several lines", `ExceptionWithTraceback()`, trace("app.Broken: one\nJob: 2\n"), "Broken", "one\nJob: 2"},
		{"class without a message", `ExceptionWithTraceback()`, trace("app.Broken"), "Broken", ""},
		{"a cause before it", `ExceptionWithTraceback()`, trace("KeyError: 1\n") + "\nThe above exception was the direct cause:\n\n" + trace("app.Broken: two\n"), "Broken", "two"},
		{"wrapper without a traceback", `ExceptionWithTraceback()`, "", "ExceptionWithTraceback", ""},
		{"repr of another form", `<HttpError 404 when requesting x returned "y">`, trace("googleapiclient.errors.HttpError: <HttpError 404>\n"), "HttpError", "<HttpError 404>"},
		{"repr of another form alone", `<HttpError 404>`, "", "", "<HttpError 404>"},
		{"traceback of another form", `<HttpError 404>`, "no traceback", "", "<HttpError 404>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := decodeOne(t, d, celery(t, "task-failed", map[string]any{"exception": c.exception, "traceback": c.traceback}))
			if e.Error == nil || e.Error.Type != c.kind || e.Error.Message != c.message {
				t.Errorf("error is %+v, want %q %q", e.Error, c.kind, c.message)
			}
		})
	}
	if e := decodeOne(t, d, celery(t, "task-failed", map[string]any{"exception": "", "traceback": ""})); e.Error != nil {
		t.Errorf("error is %+v, want none", e.Error)
	}
	long := decodeOne(t, d, celery(t, "task-failed", map[string]any{"exception": "E('" + strings.Repeat("x", 9000) + "')"}))
	if len(long.Error.Message) != 8<<10 {
		t.Errorf("the message has %d bytes, want 8 KiB", len(long.Error.Message))
	}
}

func TestCeleryRetryIn(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{})
	for last, want := range map[string]int{
		"celery.exceptions.Retry: Retry in 180s: ConnectionError('x')": 180,
		"celery.exceptions.Retry: Retry in 1.5s":                       2,
		"celery.exceptions.Retry: Retry in -1s":                        event.Unknown,
		"celery.exceptions.Retry: Retry in 1e99s":                      event.Unknown,
		"celery.exceptions.Retry: Retry at 2026-11-30 19:00:00":        event.Unknown,
		"app.Other: Retry in 180s":                                     event.Unknown,
	} {
		e := decodeOne(t, d, celery(t, "task-retried", map[string]any{"exception": "ConnectionError('x')",
			"traceback": "Traceback (most recent call last):\n  File \"/a.py\", line 3, in f\n" + last}))
		if e.RetryIn != want {
			t.Errorf("%s: retry in %d, want %d", last, e.RetryIn, want)
		}
		if e.Error.Type != "ConnectionError" {
			t.Errorf("%s: error is %+v", last, e.Error)
		}
	}
}

func TestArgsDigest(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{})
	digest := func(args, kwargs any) string {
		return decodeOne(t, d, celery(t, "task-received", map[string]any{"args": args, "kwargs": kwargs})).ArgsDigest
	}
	base := digest("('a',)", "{}")
	if base == "" || digest("('a',)", "{}") != base {
		t.Error("the same arguments have different digests, or none")
	}
	seen := map[string]string{}
	for _, c := range []struct{ args, kwargs any }{{"('b',)", "{}"}, {"('a',)", "{'x': 1}"}, {[]any{"a"}, nil}, {nil, "('a',){}"}} {
		got := digest(c.args, c.kwargs)
		if got == base || seen[got] != "" {
			t.Errorf("%v has the digest of %s", c, seen[got])
		}
		seen[got] = fmt.Sprint(c)
	}
	if got := digest(nil, nil); got != "" {
		t.Errorf("no arguments have the digest %s", got)
	}
}

// The bridge that carried an event numbers it, and is no part of what the event says.
func TestCeleryEventsNumberedByABridge(t *testing.T) {
	const text = `"type":"task-started","uuid":"a","hostname":"w1","timestamp":1796065075.5,"clock":4}`
	decoder, err := event.NewDecoder(event.DecoderConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ids := make(map[string]bool)
	for _, number := range []string{`{`, `{"emitter":"b1","seq":7,`, `{"emitter":"b2","seq":0,`} {
		events, rejects := decoder.Decode(event.Record{Value: []byte(number + text)})
		if len(rejects) > 0 {
			t.Fatal(rejects[0].Detail)
		}
		ids[events[0].ID] = true
		if e := events[0]; number != `{` && (e.Emitter == "" || e.Seq < 0) || e.Attributes != `{"clock":4}` {
			t.Errorf("%s: %s %d %s", number, e.Emitter, e.Seq, e.Attributes)
		}
	}
	if len(ids) != 1 {
		t.Errorf("ids %v", ids)
	}
}
