package ingest

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"auditor/event"
)

// faulty breaks a decoder's promises at some records: it panics at a p, also after it has read a part, and says nothing of
// an n.
type faulty struct{ letters }

func (f faulty) Decode(r event.Record) ([]event.Event, []event.Reject) {
	events, rejects := f.letters.Decode(r)
	switch {
	case strings.Contains(string(r.Value), "p"):
		var none []int
		_ = none[len(events)]
	case strings.Contains(string(r.Value), "n"):
		return nil, nil
	}
	return events, rejects
}

func TestDecoderThatFailsCostsOneRecord(t *testing.T) {
	c := newCluster(t, 1)
	produce(t, newProducer(t, c), 0, "e", "eep", "e", "n", "x", "p")
	s := newMemoryStore()
	log, lines := recordingLogger()
	p := startWith(t, testConfig(c), s, faulty{}, log)
	p.reaches(6)
	p.stop()
	for offset, want := range map[int64]string{1: "eep", 3: "n", 5: "p"} {
		r := s.reject(event.Position{Topic: topic, Offset: offset})
		if r.Reason != event.ReasonDecoderFailed || string(r.Raw) != want || r.Detail == "" {
			t.Errorf("offset %d became %+v", offset, r)
		}
	}
	if len(s.events) != 2 || len(s.rejects) != 4 {
		t.Errorf("%d events and %d rejects, want 2 and 4", len(s.events), len(s.rejects))
	}
	checkLedger(t, s, 0, 6)
	if n := lines("the decoder failed on a record, which is kept as a reject; further ones are only counted"); n != 1 {
		t.Errorf("%d lines say so, want 1", n)
	}
}

// Whoever sends too many headers must not take the batch's other records along.
func TestTooManyHeadersCostOneRecord(t *testing.T) {
	c := newCluster(t, 1)
	producer := newProducer(t, c)
	for i, n := range []int{maxHeaders, maxHeaders + 1, 0} {
		headers := make([]kgo.RecordHeader, n)
		for j := range headers {
			headers[j] = kgo.RecordHeader{Key: "h", Value: []byte{byte(i)}}
		}
		producer.Produce(t.Context(), &kgo.Record{Value: []byte("e"), Headers: headers}, nil)
	}
	if err := producer.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := newMemoryStore()
	p := start(t, testConfig(c), s)
	p.reaches(3)
	p.stop()
	r := s.reject(event.Position{Topic: topic, Offset: 1})
	if len(s.events) != 2 || len(s.rejects) != 1 || r.Reason != event.ReasonTooMany || string(r.Raw) != "e" || len(r.Headers) != maxHeaders {
		t.Errorf("%d events and %d rejects, the one of them %s with %d headers", len(s.events), len(s.rejects), r.Reason, len(r.Headers))
	}
	checkLedger(t, s, 0, 3)
}
