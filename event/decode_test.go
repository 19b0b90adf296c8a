package event_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"auditor/event"
)

func newDecoder(t testing.TB, c event.DecoderConfig) *event.Decoder {
	t.Helper()
	d, err := event.NewDecoder(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// decodeOne decodes a value that must hold one event.
func decodeOne(t testing.TB, d *event.Decoder, value string, headers ...event.Header) event.Event {
	t.Helper()
	events, rejects := d.Decode(event.Record{Value: []byte(value), Headers: headers})
	if len(rejects) > 0 {
		t.Fatalf("rejected as %s: %s\n%s", rejects[0].Reason, rejects[0].Detail, value)
	}
	if len(events) != 1 {
		t.Fatalf("got %d events, want 1", len(events))
	}
	return events[0]
}

// rejectOne decodes a value that must hold one reject.
func rejectOne(t testing.TB, d *event.Decoder, value string, headers ...event.Header) event.Reject {
	t.Helper()
	events, rejects := d.Decode(event.Record{Value: []byte(value), Headers: headers})
	if len(events) != 0 || len(rejects) != 1 {
		t.Fatalf("got %d events and %d rejects, want 1 reject\n%s", len(events), len(rejects), value)
	}
	if got := string(rejects[0].Raw); got != value {
		t.Errorf("raw bytes are %q, want %q", got, value)
	}
	return rejects[0]
}

// untold is an event that tells nothing.
func untold() event.Event {
	return event.Event{Retries: event.Unknown, MaxRetries: event.Unknown, RetryIn: event.Unknown, Active: event.Unknown, Seq: event.Unknown}
}

func ptr[T any](v T) *T { return &v }

const everyField = `{
	"event_id": "e1", "type": "effect", "time": "2026-11-02T09:00:00.1234567+01:00", "namespace": "prod", "system": "river",
	"task": "shop.settle_order", "task_id": "a1", "business_key": "order:7", "execution_id": "x1", "retries": 1,
	"max_retries": 5, "retry_in": 30, "queue": "settlement", "worker": "w1@host-a", "pid": 4711, "redelivered": true,
	"acks_late": false,
	"effect": {"name": "payment.charge", "target": "acct", "idempotency_key": "k", "deduplicated": true, "amount": 49.00, "currency": "EUR"},
	"error": {"type": "ConnectionError", "message": "upstream 503", "permanent": true},
	"skip": {"reason": "locked", "holder": "a0"},
	"eta": 1796065070.7023592, "expires": "2026-11-02T08:01:00Z", "deadline": "2026-11-02T08:02:00Z", "first_sent": 1796065070,
	"runtime": 0.25, "requeue": true, "terminated": true, "expired": true, "active": 3,
	"request_id": "r1", "root_id": "root", "parent_id": "parent", "traceparent": "00-1-2-01", "args_digest": "d",
	"emitter": "w1-4711", "seq": 12, "attributes": {"region": "eu"}
}`

func TestEveryField(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	want := event.Event{
		ID: "e1", Type: event.Effected, Time: at("2026-11-02T08:00:00.123456Z"), Namespace: "prod", System: "river",
		Task: "shop.settle_order", TaskID: "a1", BusinessKey: "order:7", ExecutionID: "x1", Retries: 1,
		MaxRetries: 5, RetryIn: 30, Queue: "settlement", Worker: "w1@host-a", PID: 4711, Redelivered: ptr(true),
		AcksLate: ptr(false),
		Effect:   &event.Effect{Name: "payment.charge", Target: "acct", IdempotencyKey: "k", Deduplicated: true, Amount: "49.00", Currency: "EUR"},
		Error:    &event.Error{Type: "ConnectionError", Message: "upstream 503", Permanent: true},
		Skip:     &event.Skip{Reason: "locked", Holder: "a0"},
		ETA:      at("2026-11-30T18:57:50.702359Z"), Expires: at("2026-11-02T08:01:00Z"), Deadline: at("2026-11-02T08:02:00Z"),
		FirstSent: at("2026-11-30T18:57:50Z"), Runtime: 0.25, Requeue: true, Terminated: true, Expired: true, Active: 3,
		RequestID: "r1", RootID: "root", ParentID: "parent", Traceparent: "00-1-2-01", ArgsDigest: "d",
		Emitter: "w1-4711", Seq: 12, Attributes: `{"region":"eu"}`,
	}
	got := decodeOne(t, newDecoder(t, event.DecoderConfig{}), everyField)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsNotToldIsUnknown(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{Namespace: "staging"})
	want := untold()
	want.ID = "e1"
	want.Type = event.Started
	want.Time = time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)
	want.TaskID = "a1"
	want.Namespace = "staging"
	for name, value := range map[string]string{
		"absent": `{"event_id":"e1","type":"started","time":"2026-11-02T08:00:00Z","task_id":"a1"}`,
		"null": `{"event_id":"e1","type":"started","time":"2026-11-02T08:00:00Z","task_id":"a1","retries":null,"redelivered":null,"effect":null,
			"error":null,"seq":null,"eta":null,"attributes":null,"namespace":null}`,
		"empty": `{"event_id":"e1","type":"started","outcome":"","time":"2026-11-02T08:00:00Z","task_id":"a1","effect":{},"skip":{"reason":"","holder":null},
			"error":{"type":"","message":""},"eta":"","expires":"0001-01-01T00:00:00Z","deadline":0,"attributes":{ },"namespace":""}`,
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, decodeOne(t, d, value)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheLeastThatAWorkerCanSay(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{})
	got := decodeOne(t, d, `{"task_id":"a1","business_key":"order:7","retries":0,"outcome":"succeeded","time":1796065070}`)
	want := untold()
	want.ID = got.ID
	want.TaskID, want.BusinessKey, want.Retries, want.Type = "a1", "order:7", 0, event.Succeeded
	want.Time = time.Unix(1796065070, 0).UTC()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got.ID == "" {
		t.Error("the event has no id")
	}
}

func TestTimes(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{})
	for _, c := range []struct{ time, want string }{
		{`"2026-11-02T08:00:00Z"`, "2026-11-02T08:00:00Z"},
		{`"2026-11-02T08:00:00.9999999+05:30"`, "2026-11-02T02:30:00.999999Z"},
		{`1796065070`, "2026-11-30T18:57:50Z"},
		{`1796065070.7023592`, "2026-11-30T18:57:50.702359Z"},
		{`1796065070.000001`, "2026-11-30T18:57:50.000001Z"},
		{`1.7960650707023592e9`, "2026-11-30T18:57:50.702359Z"},
		{`17960650707023592E-7`, "2026-11-30T18:57:50.702359Z"},
		{`0.0000019`, "1970-01-01T00:00:00.000001Z"},
		{`"2261-12-31T23:59:59Z"`, "2261-12-31T23:59:59Z"},
	} {
		got := decodeOne(t, d, `{"type":"started","task_id":"a1","time":`+c.time+`}`)
		if s := got.Time.Format(time.RFC3339Nano); s != c.want || got.Time.Location() != time.UTC {
			t.Errorf("time %s is %s in %s, want %s", c.time, s, got.Time.Location(), c.want)
		}
	}
}

func TestNumbersAreNotGuessed(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{})
	got := decodeOne(t, d, `{"type":"effect","task_id":"a1","time":1796065070,"retries":2.0,"retry_in":0.5,"seq":9223372036854775807,
		"effect":{"name":"payment.charge","amount":"12345678901234567890.10"}}`)
	if got.Retries != 2 || got.RetryIn != 1 || got.Seq != 9223372036854775807 {
		t.Errorf("retries %d, retry_in %d, seq %d", got.Retries, got.RetryIn, got.Seq)
	}
	for amount, want := range map[string]string{`49.00`: "49.00", `"49.00"`: "49.00", `-1e2`: "-1e2", `"0.1E-7"`: "0.1E-7", `""`: "", `1234567890123456789.01`: "1234567890123456789.01"} {
		got := decodeOne(t, d, `{"type":"effect","task_id":"a1","time":1796065070,"effect":{"name":"n","amount":`+amount+`}}`)
		if got.Effect.Amount != want {
			t.Errorf("amount %s is %q, want %q", amount, got.Effect.Amount, want)
		}
	}
}

func TestRejects(t *testing.T) {
	const ok = `"type":"started","task_id":"a1","time":1796065070`
	long := strings.Repeat("x", 1025)
	d := newDecoder(t, event.DecoderConfig{MaxBytes: 4096})
	for _, c := range []struct {
		name, value string
		reason      event.Reason
		detail      string // part of it
	}{
		{"tombstone", "", event.ReasonEmpty, "no value"},
		{"blank", " \n", event.ReasonEmpty, "no value"},
		{"no elements", "[ ]", event.ReasonEmpty, "no elements"},
		{"text", "hello", event.ReasonNotJSON, "invalid character"},
		{"cut short", `{"type":"started"`, event.ReasonNotJSON, "too early"},
		{"array cut short", `[{` + ok + `},{"type"`, event.ReasonNotJSON, "too early"},
		{"lax JSON", `{type:"started"}`, event.ReasonNotJSON, "invalid character"},
		{"byte order mark", "\ufeff{}", event.ReasonNotJSON, ""},
		{"a name twice", `{` + ok + `,"business_key":"a","business_key":"b"}`, event.ReasonDuplicateName, "business_key"},
		{"a name twice in other letters", `{` + ok + `,"business_key":"a","business\u005fkey":"b"}`, event.ReasonDuplicateName, "business_key"},
		{"a name twice, deep down", `{` + ok + `,"attributes":{"a":[{"b":1,"b":1}]}}`, event.ReasonDuplicateName, "/attributes/a/0"},
		{"beside and in the attributes", `{` + ok + `,"color":1,"attributes":{"color":2}}`, event.ReasonDuplicateName, "color"},
		{"bad UTF-8", "{" + ok + ",\"worker\":\"\xff\"}", event.ReasonBadUTF8, ""},
		{"half a surrogate pair", `{` + ok + `,"worker":"\ud800"}`, event.ReasonBadUTF8, ""},
		{"trailing data", `{` + ok + `} {}`, event.ReasonTrailingData, ""},
		{"trailing data after an array", `[{` + ok + `}],`, event.ReasonTrailingData, ""},
		{"null", `null`, event.ReasonWrongType, "null"},
		{"number", ` 17 `, event.ReasonWrongType, "number"},
		{"array in array", `[[{` + ok + `}]]`, event.ReasonWrongType, "array"},
		{"id is a number", `{"type":"started","time":1796065070,"task_id":42}`, event.ReasonWrongType, "task_id: a JSON number, must be a string"},
		{"retries is text", `{` + ok + `,"retries":"1"}`, event.ReasonWrongType, "retries"},
		{"retries is a fraction", `{` + ok + `,"retries":1.5}`, event.ReasonWrongType, "retries"},
		{"redelivered is text", `{` + ok + `,"redelivered":"yes"}`, event.ReasonWrongType, "redelivered"},
		{"effect is text", `{` + ok + `,"effect":"payment.charge"}`, event.ReasonWrongType, "effect"},
		{"effect's name is a number", `{` + ok + `,"effect":{"name":1}}`, event.ReasonWrongType, "effect: name: "},
		{"amount is no number", `{` + ok + `,"effect":{"amount":"EUR 49"}}`, event.ReasonWrongType, "effect: amount: "},
		{"attributes is an array", `{` + ok + `,"attributes":[]}`, event.ReasonWrongType, "attributes"},
		{"time is no time", `{"type":"started","task_id":"a1","time":"yesterday"}`, event.ReasonWrongType, "time"},
		{"time without a zone", `{"type":"started","task_id":"a1","time":"2026-11-02T08:00:00"}`, event.ReasonWrongType, "zone"},
		{"retries below zero", `{` + ok + `,"retries":-1}`, event.ReasonOutOfRange, "retries"},
		{"retries too large", `{` + ok + `,"retries":2147483648}`, event.ReasonOutOfRange, "retries"},
		{"seq too large", `{` + ok + `,"seq":9223372036854775808}`, event.ReasonOutOfRange, "seq"},
		{"runtime below zero", `{` + ok + `,"runtime":-0.1}`, event.ReasonOutOfRange, "runtime"},
		{"runtime too large", `{` + ok + `,"runtime":1e999}`, event.ReasonOutOfRange, "runtime"},
		{"id too long", `{"type":"started","time":1796065070,"task_id":"` + long + `"}`, event.ReasonTooLong, "task_id"},
		{"key too long", `{` + ok + `,"business_key":"` + long + `"}`, event.ReasonTooLong, "business_key"},
		{"too large", `{` + ok + `,"attributes":{"a":"` + strings.Repeat("x", 4096) + `"}}`, event.ReasonTooLarge, "4096"},
		{"neither type nor outcome", `{"task_id":"a1","time":1796065070}`, event.ReasonUnknownType, "neither"},
		{"unknown type", `{"type":"Started","task_id":"a1","time":1796065070}`, event.ReasonUnknownType, "Started"},
		{"unknown outcome", `{"outcome":"started","task_id":"a1","time":1796065070}`, event.ReasonUnknownType, "started"},
		{"type and outcome", `{"type":"succeeded","outcome":"failed","task_id":"a1","time":1796065070}`, event.ReasonContradiction, "failed"},
		{"no task id", `{"type":"started","time":1796065070,"worker":"w1"}`, event.ReasonNoTaskID, "no task id"},
		{"empty task id", `{"type":"started","time":1796065070,"task_id":""}`, event.ReasonNoTaskID, "no task id"},
		{"no task id nor worker", `{"type":"heartbeat","time":1796065070}`, event.ReasonNoTaskID, "nor a worker"},
		{"no time", `{"type":"started","task_id":"a1"}`, event.ReasonNoTime, ""},
		{"time before 1970", `{"type":"started","task_id":"a1","time":-1}`, event.ReasonImpossibleTime, "time"},
		{"time in milliseconds", `{"type":"started","task_id":"a1","time":1796065070702}`, event.ReasonImpossibleTime, "2262"},
		{"time beyond all", `{"type":"started","task_id":"a1","time":1e400}`, event.ReasonImpossibleTime, "time"},
		{"expires beyond all", `{` + ok + `,"expires":"9999-12-31T23:59:59Z"}`, event.ReasonImpossibleTime, "expires"},
		{"effect without a name", `{"type":"effect","task_id":"a1","time":1796065070,"effect":{"target":"x"}}`, event.ReasonNoEffect, ""},
		{"no effect", `{"type":"effect","task_id":"a1","time":1796065070}`, event.ReasonNoEffect, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			events, rejects := d.Decode(event.Record{Value: []byte(c.value)})
			if len(events) != 0 || len(rejects) != 1 {
				t.Fatalf("got %d events and %d rejects, want 1 reject", len(events), len(rejects))
			}
			got := rejects[0]
			if got.Reason != c.reason || !strings.Contains(got.Detail, c.detail) || got.Detail == "" {
				t.Errorf("rejected as %s (%s), want %s (...%s...)", got.Reason, got.Detail, c.reason, c.detail)
			}
			if c.name != "array in array" && string(got.Raw) != c.value {
				t.Errorf("raw bytes are %q, want %q", got.Raw, c.value)
			}
		})
	}
}

// Every reason must be reachable, or a metric has a label that is never seen.
func TestReasonsAreListed(t *testing.T) {
	seen := map[event.Reason]bool{}
	for _, r := range event.Reasons {
		if seen[r] || strings.Trim(string(r), "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			t.Errorf("reason %q is there twice, or no metric label", r)
		}
		seen[r] = true
	}
}

func TestImpossibleBesideKafka(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{MaxSkew: time.Hour})
	now := time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		kafka  time.Time
		skew   time.Duration
		reject bool
	}{
		{now, time.Hour, false},
		{now, -time.Hour, false},
		{now, time.Hour + time.Second, true},
		{now, -time.Hour - time.Second, true},
		{time.Time{}, 24 * time.Hour, false},          // a file has no such time
		{time.UnixMilli(-1), 24 * time.Hour, false},   // nor has a record of the oldest format
		{now.Local(), time.Hour - time.Second, false}, //
	} {
		value := fmt.Sprintf(`{"type":"started","task_id":"a1","time":%q}`, now.Add(c.skew).Format(time.RFC3339))
		events, rejects := d.Decode(event.Record{Time: c.kafka, Value: []byte(value)})
		if rejected := len(rejects) == 1; rejected != c.reject || len(events)+len(rejects) != 1 {
			t.Errorf("skew %s beside %s: rejected %t, want %t", c.skew, c.kafka, rejected, c.reject)
		}
		for _, r := range rejects {
			if r.Reason != event.ReasonImpossibleTime {
				t.Errorf("rejected as %s", r.Reason)
			}
		}
		for _, e := range events {
			if !e.KafkaTime.Equal(c.kafka) || e.KafkaTime.Location() != time.UTC {
				t.Errorf("Kafka time is %s, want %s in UTC", e.KafkaTime, c.kafka)
			}
		}
	}
}

func TestOneBadElementRejectsItselfOnly(t *testing.T) {
	const good = `{"type":"started","task_id":"a1","time":1796065070}`
	elements := []string{good, `{"a":1,"a":2}`, ` 17`, `{"type":"received" , "task_id":"a2", "time":1796065071}`, "{\"type\":\"\xff\"}", `[]`, good}
	r := event.Record{
		Position: event.Position{Topic: "task-events", Partition: 3, Offset: 99},
		Time:     time.Date(2026, 11, 30, 19, 0, 0, 0, time.UTC),
		Key:      []byte("k"),
		Value:    []byte(" [" + strings.Join(elements, ",\n") + "] "),
	}
	events, rejects := newDecoder(t, event.DecoderConfig{}).Decode(r)
	var got []string
	for _, e := range events {
		got = append(got, fmt.Sprintf("%s/%d/%d/%d %s", e.Topic, e.Partition, e.Offset, e.Index, e.TaskID))
		if !e.KafkaTime.Equal(r.Time) {
			t.Errorf("Kafka time of event %d is %s", e.Index, e.KafkaTime)
		}
	}
	for _, j := range rejects {
		got = append(got, fmt.Sprintf("%s/%d/%d/%d %s %s", j.Topic, j.Partition, j.Offset, j.Index, j.Reason, j.Key))
		if want := strings.TrimSpace(elements[j.Index]); string(j.Raw) != want || !j.KafkaTime.Equal(r.Time) {
			t.Errorf("reject %d holds %q, want %q", j.Index, j.Raw, want)
		}
	}
	want := []string{
		"task-events/3/99/0 a1", "task-events/3/99/3 a2", "task-events/3/99/6 a1",
		"task-events/3/99/1 duplicate_name k", "task-events/3/99/2 wrong_type k", "task-events/3/99/4 bad_utf8 k", "task-events/3/99/5 wrong_type k",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestArraysAreBounded(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{MaxBytes: 100})
	const one = `{"type":"started","task_id":"a1","time":1796065070}`
	events, rejects := d.Decode(event.Record{Value: []byte("[" + strings.Repeat(one+",", 9_999) + one + "]")})
	if len(events) != 10_000 || len(rejects) != 0 {
		t.Errorf("10,000 elements gave %d events, %d rejects", len(events), len(rejects))
	}
	r := rejectOne(t, d, "["+strings.Repeat(one+",", 10_000)+one+"]")
	if r.Reason != event.ReasonTooMany {
		t.Errorf("10,001 elements are rejected as %s", r.Reason)
	}
	large := `{"a":"` + strings.Repeat("x", 100) + `"}`
	events, rejects = d.Decode(event.Record{Value: []byte("[" + one + "," + large + "]")})
	if len(events) != 1 || len(rejects) != 1 || rejects[0].Reason != event.ReasonTooLarge || rejects[0].Index != 1 {
		t.Errorf("got %d events, rejects %+v", len(events), rejects)
	}
}

// A few bytes in an array would otherwise take gigabytes: every element repeats what stands beside the array.
func TestKeyAndHeadersAreNotRepeatedWithoutEnd(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{})
	const one = `{"type":"started","task_id":"a1","time":1796065070}`
	long := []byte(strings.Repeat("x", 64<<10))
	value := []byte("[1" + strings.Repeat(","+one, 100) + strings.Repeat(",1", 200) + "]")
	plain, cloud := event.Header{Key: "h", Value: long}, cloudHeaders("ce_h", string(long))
	for name, r := range map[string]event.Record{
		"key":         {Key: long, Value: value},
		"header":      {Headers: []event.Header{plain}, Value: value},
		"headers":     {Headers: make([]event.Header, 4096), Value: value},
		"cloud event": {Headers: cloud, Value: []byte("[" + strings.Repeat(one+",", 200) + one + "]")},
	} {
		events, rejects := d.Decode(r)
		if len(events) != 0 || len(rejects) != 1 || rejects[0].Reason != event.ReasonTooMany || rejects[0].Index != 0 || !bytes.Equal(rejects[0].Raw, r.Value) {
			t.Errorf("%s: %d events and %d rejects, want the one reject of the whole array", name, len(events), len(rejects))
		}
	}
	few := []byte("[1" + strings.Repeat(","+one, 300) + strings.Repeat(",1", 50) + "]")
	events, rejects := d.Decode(event.Record{Key: long, Headers: []event.Header{plain}, Value: few})
	if len(events) != 300 || len(rejects) != 51 || &rejects[0].Key[0] != &rejects[50].Key[0] {
		t.Errorf("%d events and %d rejects, want 300 and 51 that share their key", len(events), len(rejects))
	}
	if _, rejects = d.Decode(event.Record{Key: make([]byte, 16<<20), Value: []byte("1")}); len(rejects) != 1 || rejects[0].Reason != event.ReasonWrongType {
		t.Errorf("a key that is not repeated counts: %v", rejects[0].Reason)
	}
}

func TestAttributes(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{})
	for _, c := range []struct{ name, members, want string }{
		{"none", ``, ``},
		{"given", `"attributes":{"b": 1, "a": [ {"d":1,"c":2} ]}`, `{"a":[{"c":2,"d":1}],"b":1}`},
		{"unknown fields", `"color":"red","Type":null`, `{"Type":null,"color":"red"}`},
		{"both", `"color":"red","attributes":{"size":{}}`, `{"color":"red","size":{}}`},
		{"digits are kept", `"n":12345678901234567890.10`, `{"n":12345678901234567890.10}`},
		{"in an object", `"skip":{"reason":"locked","by":"x"},"error":{"code":503}`, `{"error":{"code":503},"skip":{"by":"x"}}`},
		{"escapes", `"\u0061\/":"\u00e9\u0000"`, `{"a/":"é\u0000"}`},
	} {
		value := `{"type":"started","task_id":"a1","time":1796065070}`
		if c.members != "" {
			value = strings.TrimSuffix(value, "}") + "," + c.members + "}"
		}
		if got := decodeOne(t, d, value).Attributes; got != c.want {
			t.Errorf("%s: attributes are %s, want %s", c.name, got, c.want)
		}
	}
}

func TestContentID(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{})
	const base = `{"type":"started","task_id":"a1","time":1796065070,"effect":{"name":"n","target":"t"},"attributes":{"a":1,"b":[1,2]}}`
	id := func(value string) string { return decodeOne(t, d, value).ID }
	want := id(base)
	for name, value := range map[string]string{
		"other order and white space": `{ "attributes" : { "b":[ 1, 2 ], "a":1 }, "effect":{"target":"t","name":"n"}, "time":1796065070, "task_id":"a1", "type":"started" }`,
		"other escapes":               strings.Replace(base, `"a1"`, `"\u0061\u0031"`, 1),
		"a null":                      strings.Replace(base, `{"type"`, `{"eta":null,"type"`, 1),
		"an array":                    "[" + base + "]",
	} {
		if got := id(value); got != want {
			t.Errorf("%s: the id is %s, want %s", name, got, want)
		}
	}
	for name, value := range map[string]string{
		"another value":          strings.Replace(base, `"a1"`, `"a2"`, 1),
		"another deep value":     strings.Replace(base, `[1,2]`, `[2,1]`, 1),
		"a further field":        strings.Replace(base, `{"type"`, `{"x":1,"type"`, 1),
		"a value moved one over": strings.Replace(base, `"a":1,"b":[1,2]`, `"a":[1,2],"b":1`, 1),
	} {
		if id(value) == want {
			t.Errorf("%s: the id is the same", name)
		}
	}
	configured := newDecoder(t, event.DecoderConfig{Namespace: "prod", Keys: map[string]string{"": "x:{{ task }}"}})
	events, _ := configured.Decode(event.Record{Position: event.Position{Topic: "t", Offset: 7}, Value: []byte(base)})
	if events[0].ID != want {
		t.Error("the id depends on the configuration or the place in Kafka")
	}
}

func TestLongMessageIsCut(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{})
	message := strings.Repeat("x", 8<<10-1) + "é" + "tail"
	got := decodeOne(t, d, `{"type":"failed","task_id":"a1","time":1796065070,"error":{"type":"E","message":"`+message+`"}}`)
	if want := strings.Repeat("x", 8<<10-1); got.Error.Message != want {
		t.Errorf("the message has %d bytes, want %d", len(got.Error.Message), len(want))
	}
}

func TestControlCharactersInIDsAreKept(t *testing.T) {
	got := decodeOne(t, newDecoder(t, event.DecoderConfig{}), `{"type":"started","task_id":"a\u0000\n\u001b[31m","time":1796065070}`)
	if got.TaskID != "a\x00\n\x1b[31m" {
		t.Errorf("task id is %q", got.TaskID)
	}
}

func TestResultDoesNotAliasTheRecord(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{})
	value := []byte(`[{"type":"started","task_id":"a1","time":1796065070,"color":"red"},{"bad":1}]`)
	key := []byte("key")
	r := event.Record{Key: key, Value: value}
	events, rejects := d.Decode(r)
	before := fmt.Sprintf("%+v %+v", events, rejects)
	copy(value, bytes.Repeat([]byte("#"), len(value)))
	copy(key, "###")
	for range 10 {
		d.Decode(event.Record{Value: []byte(`{"type":"failed","task_id":"zz","time":1796065099,"colour":"blue"}`)})
	}
	if after := fmt.Sprintf("%+v %+v", events, rejects); after != before {
		t.Errorf("the result changed with the record\nbefore %s\nafter  %s", before, after)
	}
}

func TestConcurrentUse(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 200 {
				id := fmt.Sprintf("%d-%d", i, j)
				events, rejects := d.Decode(event.Record{Value: fmt.Appendf(nil, `[{"type":"started","task_id":%q,"time":1796065070,"x":[%q]},{}]`, id, id)})
				if len(events) != 1 || len(rejects) != 1 || events[0].TaskID != id || events[0].Attributes != `{"x":["`+id+`"]}` {
					t.Errorf("%s: got %+v", id, events)
				}
			}
		})
	}
	wg.Wait()
}

func TestConfigurationIsChecked(t *testing.T) {
	_, err := event.NewDecoder(event.DecoderConfig{MaxBytes: -1, MaxSkew: -1, Namespace: strings.Repeat("n", 2000),
		Keys: map[string]string{"a": "x:{{ arg }}", "b": "fixed"}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"maximum size", "maximum skew", "namespace", `task "a"`, `task "b"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
}
