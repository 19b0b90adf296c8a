package event_test

import (
	"strings"
	"testing"

	"auditor/event"
)

func BenchmarkDecode(b *testing.B) {
	d := newDecoder(b, event.DecoderConfig{Keys: map[string]string{"tasks.slow": "order:{{ arg 0 }}"}})
	const plain = `{"event_id":"0192f0c1-5c8e-7a6f-9a7a-0d7f4b1c9e21","type":"succeeded","time":"2026-11-02T08:00:00.123456Z","namespace":"prod","system":"river",` +
		`"task":"shop.settle_order","task_id":"3b9b1d2c-5c8e-4a6f-9a7a-0d7f4b1c9e21","business_key":"settle_order:42","retries":0,"queue":"settlement",` +
		`"worker":"w1@host-a","pid":4711,"runtime":0.25}`
	const effect = `{"event_id":"0192f0c1-5c8e-7a6f-9a7a-0d7f4b1c9e21","type":"effect","time":"2026-11-02T08:00:00.123456Z","task":"shop.settle_order",` +
		`"task_id":"3b9b1d2c-5c8e-4a6f-9a7a-0d7f4b1c9e21","business_key":"settle_order:42","retries":0,"queue":"settlement","worker":"w1@host-a",` +
		`"effect":{"name":"payment.charge","amount":"49.00","currency":"EUR"}}`
	captured := lines(b, "testdata/celery/events_vt.jsonl")
	for _, c := range []struct{ name, value string }{
		{"plain", plain},
		{"effect", effect},
		{"no_id", strings.Replace(plain, `"event_id":"0192f0c1-5c8e-7a6f-9a7a-0d7f4b1c9e21",`, "", 1)},
		{"celery_sent", captured[2]},
		{"celery_started", captured[4]},
		{"array_of_100", "[" + strings.Repeat(plain+",", 99) + plain + "]"},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := event.Record{Value: []byte(c.value)}
			b.SetBytes(int64(len(c.value)))
			b.ReportAllocs()
			for b.Loop() {
				if _, rejects := d.Decode(r); len(rejects) > 0 {
					b.Fatal(rejects[0].Detail)
				}
			}
		})
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	e := decodeOne(b, newDecoder(b, event.DecoderConfig{}), everyField)
	var buf []byte
	for b.Loop() {
		buf = e.AppendJSON(buf[:0])
	}
}
