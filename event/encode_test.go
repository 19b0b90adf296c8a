package event_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"auditor/event"
)

// roundTrip encodes an event and decodes it again; nothing but its place in Kafka may be lost.
func roundTrip(t *testing.T, d *event.Decoder, e event.Event) {
	t.Helper()
	text := e.AppendJSON([]byte("prefix"))[len("prefix"):]
	e.Position, e.KafkaTime = event.Position{}, event.Event{}.KafkaTime
	if diff := cmp.Diff(e, decodeOne(t, d, string(text))); diff != "" {
		t.Errorf("%s\n%s", text, diff)
	}
}

func TestRoundTrip(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{})
	roundTrip(t, d, decodeOne(t, d, everyField))
	roundTrip(t, d, decodeOne(t, d, `{"type":"started","task_id":"a\u0000\"\\é","time":1796065070,"retries":0,"runtime":1e-9,"seq":0,"pid":0,"x":[1.0,"\u2028"]}`))
	files, err := filepath.Glob("testdata/celery/events_*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no captures", err)
	}
	for _, name := range files {
		for _, line := range lines(t, name) {
			roundTrip(t, d, decodeOne(t, d, line))
		}
	}
}

func TestMarshalJSON(t *testing.T) {
	d := newDecoder(t, event.DecoderConfig{})
	e := decodeOne(t, d, `{"event_id":"1","type":"started","task_id":"<a1>","time":1796065070.5,"retries":0}`)
	got, err := json.Marshal(map[string]any{"event": &e})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"event":{"event_id":"1","type":"started","time":"2026-11-30T18:57:50.5Z","task_id":"\u003ca1\u003e","retries":0}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// An event that was made by hand may hold what no sender can say; it must still be written as JSON.
func TestMarshalWhatCannotBeSaid(t *testing.T) {
	e := event.Event{Task: "\xff", Runtime: math.Inf(1)}
	if text := e.AppendJSON(nil); !json.Valid(text) {
		t.Errorf("%s is no JSON", text)
	}
}

func lines(t testing.TB, name string) []string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return splitLines(string(data))
}
