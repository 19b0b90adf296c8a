package event_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"auditor/event"
)

// envelope makes a structured CloudEvent around data; members replace or, with "", remove its own.
func envelope(t testing.TB, data string, members map[string]string) string {
	t.Helper()
	m := map[string]json.RawMessage{
		"specversion": json.RawMessage(`"1.0"`), "id": json.RawMessage(`"42"`), "source": json.RawMessage(`"/shop"`),
		"type": json.RawMessage(`"com.example.task.started"`),
	}
	if data != "" {
		m["data"] = json.RawMessage(data)
	}
	for k, v := range members {
		if m[k] = json.RawMessage(v); v == "" {
			delete(m, k)
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// cloudHeaders are the headers of the same envelope in binary mode.
func cloudHeaders(more ...string) []event.Header {
	pairs := append([]string{"content-type", "application/json", "ce_specversion", "1.0", "ce_id", "42", "ce_source", "/shop", "ce_type", "com.example.task.started"}, more...)
	var headers []event.Header
	for i := 0; i < len(pairs); i += 2 {
		headers = append(headers, event.Header{Key: pairs[i], Value: []byte(pairs[i+1])})
	}
	return headers
}

func TestCloudEventFillsWhatTheDataLeavesOpen(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{})
	want := untold()
	want.ID, want.Type, want.TaskID, want.BusinessKey, want.Traceparent = "/shop 42", event.Started, "a1", "order:7", "00-1-2-01"
	want.Time = time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)
	want.Attributes = `{"cloudevent":{"id":"42","partitionkey":"order:7","source":"/shop","subject":"s","time":"2026-11-02T08:00:00Z","traceparent":"00-1-2-01","type":"com.example.task.started"}}`
	context := map[string]string{"time": `"2026-11-02T08:00:00Z"`, "partitionkey": `"order:7"`, "subject": `"s"`, "traceparent": `"00-1-2-01"`}
	const data = `{"task_id":"a1"}`
	structured := envelope(t, data, context)
	context["data_base64"] = `"` + base64.StdEncoding.EncodeToString([]byte(data)) + `"`
	context["datacontenttype"] = `"application/json"`
	encoded := envelope(t, "", context)
	inBinary := cloudHeaders("ce_time", "2026-11-02T08:00:00Z", "ce_partitionkey", "order:7", "ce_subject", "s", "ce_traceparent", "00-1-2-01")
	contentType := event.Header{Key: "Content-Type", Value: []byte("Application/CloudEvents+json; charset=UTF-8")}
	for name, got := range map[string]event.Event{
		"structured":                    decodeOne(t, d, structured),
		"structured, told":              decodeOne(t, d, structured, contentType),
		"structured, with all headers":  decodeOne(t, d, structured, append(inBinary[1:], contentType)...),
		"structured, untold in headers": decodeOne(t, d, structured, inBinary[1:]...),
		"base64":                        decodeOne(t, d, encoded),
		"batch":                         decodeOne(t, d, "["+structured+"]", event.Header{Key: "content-type", Value: []byte("application/cloudevents-batch+json")}),
		"binary":                        decodeOne(t, d, data, inBinary...),
		"binary without a type of data": decodeOne(t, d, data, inBinary[1:]...),
	} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestDataGoesBeforeTheEnvelope(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{})
	got := decodeOne(t, d, envelope(t, `{"event_id":"e1","task_id":"a1","business_key":"own","outcome":"failed","time":1796065070,"traceparent":"tp"}`,
		map[string]string{"time": `"2026-11-02T08:00:00Z"`, "subject": `"s"`, "traceparent": `"other"`}))
	if got.ID != "e1" || got.BusinessKey != "own" || got.Type != event.Failed || got.Time.Unix() != 1796065070 || got.Traceparent != "tp" {
		t.Errorf("got %+v", got)
	}
}

func TestCloudEventKeys(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{})
	for _, c := range []struct {
		members map[string]string
		want    string
	}{
		{map[string]string{"subject": `"s"`}, "s"},
		{map[string]string{"subject": `"s"`, "partitionkey": `null`}, "s"},
		{map[string]string{"subject": `"s"`, "partitionkey": `"p"`}, "p"},
		{nil, ""},
	} {
		if got := decodeOne(t, d, envelope(t, `{"task_id":"a1","time":1796065070}`, c.members)); got.BusinessKey != c.want {
			t.Errorf("%v: the key is %q, want %q", c.members, got.BusinessKey, c.want)
		}
	}
	worker := decodeOne(t, d, envelope(t, `{"type":"heartbeat","worker":"w1","time":1796065070}`, map[string]string{"subject": `"s"`}))
	if worker.BusinessKey != "" {
		t.Errorf("a worker's event has the business key %q", worker.BusinessKey)
	}
}

func TestCloudEventTypes(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{})
	for kind, want := range map[string]event.Type{
		"succeeded": event.Succeeded, "task.succeeded": event.Succeeded, "com.example.shop.succeeded.v1": event.Succeeded,
		"com.example.worker_lost.v12": event.WorkerLost,
	} {
		if got := decodeOne(t, d, envelope(t, `{"task_id":"a1","time":1796065070}`, map[string]string{"type": `"` + kind + `"`})); got.Type != want {
			t.Errorf("%s is %s, want %s", kind, got.Type, want)
		}
	}
	for _, kind := range []string{"task.done", "succeeded.task", ".", "v1", "task.v1", "succeeded.v1.v2"} {
		r := rejectOne(t, d, envelope(t, `{"task_id":"a1","time":1796065070}`, map[string]string{"type": `"` + kind + `"`}))
		if r.Reason != event.ReasonUnknownType {
			t.Errorf("%s is rejected as %s", kind, r.Reason)
		}
	}
}

func TestCloudEventAroundCelery(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{Keys: map[string]string{"shop.settle": "order:{{ arg 0 }}"}})
	raw := celery(t, "task-received", map[string]any{"name": "shop.settle", "args": "('7',)", "kwargs": "{}"})
	got := decodeOne(t, d, raw, cloudHeaders()...)
	if got.ID != "/shop 42" || got.Type != event.Received || got.BusinessKey != "order:7" || got.System != "celery" {
		t.Errorf("got %+v", got)
	}
}

func TestBadCloudEvents(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{})
	const data = `{"task_id":"a1","time":1796065070}`
	contentType := event.Header{Key: "content-type", Value: []byte("application/cloudevents+json")}
	for _, c := range []struct {
		name, value string
		headers     []event.Header
		want        event.Reason
	}{
		{"no id", envelope(t, data, map[string]string{"id": ""}), nil, event.ReasonBadCloudEvent},
		{"empty source", envelope(t, data, map[string]string{"source": `""`}), nil, event.ReasonBadCloudEvent},
		{"null type", envelope(t, data, map[string]string{"type": `null`}), nil, event.ReasonBadCloudEvent},
		{"version", envelope(t, data, map[string]string{"specversion": `"0.3"`}), nil, event.ReasonBadCloudEvent},
		{"no version though told", data, []event.Header{contentType}, event.ReasonBadCloudEvent},
		{"blank in source", envelope(t, data, map[string]string{"source": `"/a b"`}), nil, event.ReasonBadCloudEvent},
		{"id is a number", envelope(t, data, map[string]string{"id": `42`}), nil, event.ReasonWrongType},
		{"time is no time", envelope(t, data, map[string]string{"time": `"now"`}), nil, event.ReasonWrongType},
		{"data twice", envelope(t, data, map[string]string{"data_base64": `"e30="`}), nil, event.ReasonBadCloudEvent},
		{"bad base64", envelope(t, "", map[string]string{"data_base64": `"{"`}), nil, event.ReasonBadCloudEvent},
		{"base64 of no JSON", envelope(t, "", map[string]string{"data_base64": `"YQ=="`}), nil, event.ReasonNotJSON},
		{"data is text", envelope(t, `"<xml/>"`, map[string]string{"datacontenttype": `"application/xml"`}), nil, event.ReasonWrongType},
		{"data is a list", envelope(t, `[`+data+`]`, nil), nil, event.ReasonWrongType},
		{"no data", envelope(t, "", nil), nil, event.ReasonNoTaskID},
		{"long id", envelope(t, data, map[string]string{"id": `"` + strings.Repeat("x", 1020) + `"`}), nil, event.ReasonTooLong},
		{"header twice", data, cloudHeaders("ce_id", "43"), event.ReasonDuplicateName},
		{"empty header twice", data, cloudHeaders("ce_subject", "", "ce_subject", "s"), event.ReasonDuplicateName},
		{"header without UTF-8", data, cloudHeaders("ce_subject", "\xff"), event.ReasonBadUTF8},
		{"header without a name in UTF-8", data, cloudHeaders("ce_\xff", "x"), event.ReasonBadUTF8},
		{"binary version", data, []event.Header{{Key: "ce_specversion", Value: []byte("2.0")}}, event.ReasonBadCloudEvent},
		{"own attribute of that name", envelope(t, `{"task_id":"a1","time":1796065070,"cloudevent":1}`, nil), nil, event.ReasonDuplicateName},
		{"tombstone", "", cloudHeaders(), event.ReasonEmpty},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := rejectOne(t, d, c.value, c.headers...)
			if got.Reason != c.want {
				t.Errorf("rejected as %s (%s), want %s", got.Reason, got.Detail, c.want)
			}
			if diff := cmp.Diff(c.headers, got.Headers, cmpopts.EquateEmpty()); diff != "" {
				t.Error("the reject lost headers", diff)
			}
		})
	}
}

// Headers that only look like the binding's do not make a CloudEvent.
func TestOtherHeadersSayNothing(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{})
	got := decodeOne(t, d, `{"task_id":"a1","type":"started","time":1796065070}`,
		event.Header{Key: "ce_foo", Value: []byte("x")}, event.Header{Key: "trace", Value: []byte("\xff")}, event.Header{Key: "content-type", Value: nil})
	if got.Attributes != "" || got.TaskID != "a1" {
		t.Errorf("got %+v", got)
	}
}

// What the official SDK writes can be read.
func TestCloudEventOfTheSDK(t *testing.T) {
	ce := cloudevents.New()
	ce.SetID("42")
	ce.SetSource("https://shop.example/workers")
	ce.SetType("task.succeeded")
	ce.SetSubject("order:7")
	ce.SetTime(time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC))
	ce.SetExtension("attempt", 3)
	if err := ce.SetData(cloudevents.ApplicationJSON, map[string]any{"task_id": "a1", "retries": 0}); err != nil {
		t.Fatal(err)
	}
	if err := ce.Validate(); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(ce)
	if err != nil {
		t.Fatal(err)
	}
	got := decodeOne(t, newDecoder(t, event.DecoderConfig{}), string(text))
	if got.ID != "https://shop.example/workers 42" || got.Type != event.Succeeded || got.BusinessKey != "order:7" || got.Retries != 0 ||
		!got.Time.Equal(ce.Time()) || !strings.Contains(got.Attributes, `"attempt":3`) {
		t.Errorf("got %+v from %s", got, text)
	}
}
