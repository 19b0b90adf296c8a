package reject_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"auditor/event"
	"auditor/event/reject"
)

var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

const (
	good    = `{"task_id":"t1","business_key":"k","outcome":"succeeded","time":"2026-11-02T11:00:00Z"}`
	other   = `{"task_id":"t1","business_key":"k","outcome":"succeeded","time":"2026-11-02T11:00:01Z"}`
	named   = `{"event_id":"e1","task_id":"t1","outcome":"succeeded","time":"2026-11-02T11:00:00Z"}`
	renamed = `{"event_id":"e1","task_id":"t2","outcome":"succeeded","time":"2026-11-02T11:00:00Z"}`
	bad     = `{"task_id":"t1"`
)

func decoder(t *testing.T) *event.Decoder {
	t.Helper()
	d, err := event.NewDecoder(event.DecoderConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// rejected is a reject with a log of entries.
func rejected(raw string, log ...reject.Entry) reject.Reject {
	at := event.Position{Topic: "task-events", Partition: 2, Offset: 41, Index: 3}
	r := reject.Reject{Size: len(raw), Log: log, Reject: event.Reject{Position: at, KafkaTime: noon.Add(-time.Hour), Reason: event.ReasonNotJSON, Key: []byte("k"), Raw: []byte(raw),
		Headers: []event.Header{{Key: "x", Value: []byte("1")}, {Key: reject.OriginHeader, Value: []byte("an earlier one")}}}}
	r.State = reject.StateOf(false, log)
	return r
}

func entry(action reject.Action, attempt string, ids ...string) reject.Entry {
	return reject.Entry{Action: action, Attempt: attempt, Time: noon, By: "ada", To: event.Position{Topic: "task-events", Partition: 2, Offset: 99}, EventIDs: ids}
}

func TestPlanSendsTheRecordAgain(t *testing.T) {
	p, err := reject.Order{Value: []byte(named)}.Plan(rejected(bad), decoder(t), noon)
	if err != nil {
		t.Fatal(err)
	}
	want := reject.Plan{Mended: true, EventIDs: []string{"e1"}, Digest: p.Digest, Record: event.Record{
		Position: event.Position{Topic: "task-events", Partition: 2}, Time: noon, Key: []byte("k"), Value: []byte(named),
		Headers: []event.Header{{Key: "x", Value: []byte("1")}, {Key: "auditor-reject", Value: []byte("task-events:2:41:3")}}}}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
	if !strings.HasPrefix(p.Digest, "sha256:") || len(p.Digest) != 7+64 {
		t.Errorf("digest %q", p.Digest)
	}
	elsewhere, err := reject.Order{Topic: "other"}.Plan(rejected(good), decoder(t), noon)
	if err != nil || elsewhere.Mended || elsewhere.Record.Position != (event.Position{Topic: "other", Partition: reject.AnyPartition}) {
		t.Errorf("%+v, %v", elsewhere, err)
	}
}

// What is sent decodes to the same event ids as the plan says, with the headers that were added.
func TestPlannedEventsAreThoseOfTheRecord(t *testing.T) {
	d := decoder(t)
	p, err := reject.Order{Value: []byte("[" + good + "," + named + "]")}.Plan(rejected(bad), d, noon)
	if err != nil {
		t.Fatal(err)
	}
	record := p.Record
	record.Time, record.Offset = noon.Add(time.Hour), 12345
	events, rejects := d.Decode(record)
	var ids []string
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	if diff := cmp.Diff(ids, p.EventIDs); diff != "" || len(rejects) > 0 {
		t.Error(diff, rejects)
	}
}

func TestPlanRefuses(t *testing.T) {
	d := decoder(t)
	idOf := func(text string) string {
		events, _ := d.Decode(event.Record{Value: []byte(text), Time: noon})
		return events[0].ID
	}
	purged, batch := rejected(good), rejected(good)
	purged.State = reject.Purged
	batch.Reason = event.ReasonBadBatch
	unknown := entry(reject.Intended, "1", idOf(good))
	for _, c := range []struct {
		name   string
		reject reject.Reject
		order  reject.Order
		want   reject.Cause // empty: sent
		says   string
	}{
		{"accepted by now", rejected(good), reject.Order{}, "", ""},
		{"still bad", rejected(bad), reject.Order{}, reject.CauseNoEvent, "not_json: the JSON ends too early"},
		{"still bad, by force", rejected(bad), reject.Order{Force: true}, "", ""},
		{"mended badly", rejected(bad), reject.Order{Value: []byte("[" + good + ",{}]")}, reject.CauseNoEvent, "1 of its 2 elements would be rejected again, first element 1: "},
		{"mended to nothing", rejected(bad), reject.Order{Value: []byte{}}, reject.CauseNoEvent, "empty"},
		{"purged", purged, reject.Order{Again: true, Force: true, Value: []byte(good)}, reject.CausePurged, "purged"},
		{"replayed", rejected(good, entry(reject.Intended, "1"), entry(reject.Sent, "1")), reject.Order{}, reject.CauseReplayed, "task-events:2:99 already, at 2026-11-02 12:00:00 by ada"},
		{"replayed, again", rejected(good, entry(reject.Intended, "1"), entry(reject.Sent, "1")), reject.Order{Again: true}, "", ""},
		{"outcome unknown", rejected(good, unknown), reject.Order{}, reject.CauseUnknown, "task-events:2 at 2026-11-02 12:00:00 by ada"},
		{"outcome unknown, the same again", rejected(good, unknown), reject.Order{Again: true}, "", ""},
		{"outcome unknown, another event", rejected(good, unknown), reject.Order{Again: true, Value: []byte(other)}, reject.CauseOtherEvent, idOf(good)},
		{"outcome unknown, another event by force", rejected(good, unknown), reject.Order{Again: true, Force: true, Value: []byte(other)}, "", ""},
		{"outcome unknown, mended otherwise under the same id", rejected(bad, entry(reject.Intended, "1", "e1")), reject.Order{Again: true, Value: []byte(renamed)}, "", ""},
		{"it failed before", rejected(good, unknown, entry(reject.NotSent, "1")), reject.Order{Value: []byte(other)}, "", ""},
		{"a whole batch", batch, reject.Order{Force: true}, reject.CauseBadBatch, "JSON array"},
		{"the events of a whole batch", batch, reject.Order{Value: []byte("[" + good + "]")}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.order.Plan(c.reject, d, noon)
			var refusal *reject.Refusal
			switch {
			case c.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.want != "" && (!errors.As(err, &refusal) || refusal.Cause != c.want || !strings.Contains(refusal.Why, c.says)):
				t.Errorf("%v (%T), want %s: %s", err, err, c.want, c.says)
			}
		})
	}
}

// brokenDecoder fails on whatever it reads.
type brokenDecoder struct{}

func (brokenDecoder) Decode(event.Record) ([]event.Event, []event.Reject) {
	panic("index out of range")
}

func TestDecoderThatFailsIsARefusal(t *testing.T) {
	_, err := reject.Order{Force: true}.Plan(rejected(good), brokenDecoder{}, noon)
	var refusal *reject.Refusal
	if !errors.As(err, &refusal) || refusal.Cause != reject.CauseNoEvent || !strings.Contains(refusal.Why, "decoder_failed: the decoder failed: index out of range") {
		t.Error(err)
	}
}

func TestRejectAsJSON(t *testing.T) {
	r := rejected("\xff<", entry(reject.Intended, "1", "e1"))
	r.State = reject.Unknown
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"position":"task-events:2:41:3","topic":"task-events","partition":2,"offset":41,"index":3,"time":"2026-11-02T11:00:00Z",` +
		`"reason":"not_json","detail":"","state":"unknown","key":"aw==","headers":[{"name":"x","value":"MQ=="},{"name":"auditor-reject","value":"YW4gZWFybGllciBvbmU="}],` +
		`"raw":"/zw=","size":2,"log":[{"time":"2026-11-02T12:00:00Z","action":"intended","attempt":"1","by":"ada","note":"",` +
		`"to":{"topic":"task-events","partition":2,"offset":99},"event_ids":["e1"]}]}`
	if string(text) != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
}
