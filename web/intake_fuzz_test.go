package web

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"auditor/event"
)

// Whatever is sent, each event is told of once, in order, and what was taken is read by ingest as the same event.
func FuzzIntake(f *testing.F) {
	const one = `{"type":"started","task_id":"a1","time":1793620740,"attributes":{"type":"task-x"},"error":{"message":"\ud83d"}}`
	for _, seed := range []string{one, "[" + one + ",{}]", one + "\n{\n[" + one + ",7]\n", "", "[]", "\n", "[[1]]", `{"specversion":"1.0","id":"7","source":"/s","type":"x.started","data":` + one + `}`,
		`{"type":"task-received","uuid":"r1","timestamp":1793620740.5,"name":"t","args":"('\\ud83d',)","kwargs":"{}"}`} {
		for form := range byte(4) {
			f.Add(form, []byte(seed), "/s", "k:1")
		}
	}
	decoder, err := event.NewDecoder(event.DecoderConfig{MaxBytes: 1 << 12, Keys: map[string]string{"t": "k:{{ arg 0 }}"}})
	if err != nil {
		f.Fatal(err)
	}
	now := time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)
	in := newIntake(&Intake{Config: DefaultIntakeConfig(), Decoder: decoder}, newIntakeMetrics(nil), slog.New(slog.DiscardHandler), func() time.Time { return now })
	f.Fuzz(func(t *testing.T, form byte, body []byte, source, subject string) {
		h := http.Header{"Content-Type": {[]string{"application/json", "application/x-ndjson", "application/cloudevents+json", "application/json"}[form%4]}}
		if form%4 == 3 {
			h["Ce-Specversion"], h["Ce-Id"], h["Ce-Source"], h["Ce-Type"], h["Ce-Subject"] = []string{"1.0"}, []string{"7"}, []string{source}, []string{"x.started"}, []string{subject}
		}
		k, err := kindOf(h)
		if err != nil {
			return
		}
		p, err := in.split(k, body)
		if err != nil {
			return
		}
		if len(p.records)+len(p.bad) != p.elements || len(p.places) != len(p.records) || p.elements == 0 {
			t.Fatalf("%d taken, %d places and %d bad of %d", len(p.records), len(p.places), len(p.bad), p.elements)
		}
		seen := make([]bool, p.elements)
		for _, list := range [][]badEvent{p.places, p.bad} {
			last := -1
			for _, one := range list {
				if one.Index <= last || one.Index >= p.elements || seen[one.Index] {
					t.Fatalf("event %d comes after %d of %d", one.Index, last, p.elements)
				}
				last, seen[one.Index] = one.Index, true
			}
		}
		for _, r := range p.records {
			events, rejects := decoder.Decode(event.Record{Time: now, Value: r.Value})
			if len(rejects) != 0 || len(events) != 1 {
				t.Fatalf("ingest rejects what was taken: %v\n%s", rejects, r.Value)
			}
			again := event.RecordOf(&events[0])
			again.Time = now
			if diff := cmp.Diff(r, again); diff != "" {
				t.Fatalf("ingest reads another event: %s", diff)
			}
		}
	})
}
