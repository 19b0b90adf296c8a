package main

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"auditor/event"
)

// all gives every record of a stream.
func all(s *stream) []record {
	var records []record
	for r, ok := s.next(); ok; r, ok = s.next() {
		records = append(records, r)
	}
	return records
}

// What the stream says of its records is what the decoder makes of them.
func TestStreamKnowsWhatItsRecordsBecome(t *testing.T) {
	start := time.Now()
	s := newStream(7, start, 20*time.Second, 60_000)
	decoder, err := event.NewDecoder(event.DecoderConfig{})
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]int{}
	seen := map[print]int{}
	events, rejects, repeats, wrong := 0, 0, 0, 0
	for i, r := range all(s) {
		if seen[printOf(r.value)]++; seen[printOf(r.value)] > 1 && len(r.value) > 0 {
			repeats++
		}
		good, bad := decoder.Decode(event.Record{Position: event.Position{Topic: "t", Offset: int64(i)}, Key: []byte(r.key), Value: r.value, Time: start.Add(r.at)})
		got := make([]row, len(good)+len(bad))
		for _, e := range good {
			got[e.Index] = row{id: e.ID}
			if r.rows[e.Index].id == "" {
				got[e.Index].id = ""
			}
		}
		for _, b := range bad {
			got[b.Index] = row{reason: string(b.Reason), raw: string(b.Raw)}
			reasons[string(b.Reason)]++
		}
		if fmt.Sprint(got) != fmt.Sprint(r.rows) && wrong < 10 {
			wrong++
			t.Errorf("%s\nbecame   %q\nexpected %q", r.value, got, r.rows)
		}
		events, rejects = events+len(good), rejects+len(bad)
	}
	t.Logf("%d events, %d repeats, rejects %v", events, repeats, reasons)
	if events+rejects < 60_000 || len(reasons) < 11 {
		t.Error("too little is told")
	}
	if share := float64(rejects) / float64(events+rejects); share < 0.008 || share > 0.02 {
		t.Errorf("%.3f of it is rejected", share)
	}
	if share := float64(repeats) / float64(len(seen)); share < 0.005 || share > 0.02 {
		t.Errorf("%.3f of it is told again", share)
	}
}

func TestStreamFollowsFromItsSeed(t *testing.T) {
	start := time.Now()
	tell := func(seed uint64) (string, []expected) {
		s := newStream(seed, start, 5*time.Second, 5_000)
		var text bytes.Buffer
		for _, r := range all(s) {
			fmt.Fprintln(&text, r.at, r.key, string(r.value))
		}
		return text.String(), s.expected
	}
	one, expected := tell(1)
	again, _ := tell(1)
	other, _ := tell(2)
	if one != again {
		t.Error("the same seed told something else")
	}
	if one == other {
		t.Error("another seed told the same")
	}
	if len(expected) != 7 { // six troubles, one of which shows by two rules
		t.Errorf("planted are %v", expected)
	}
}

func TestStreamIsSpreadOverItsLength(t *testing.T) {
	const length = 10 * time.Second
	perSecond := make([]int, 20)
	for _, r := range all(newStream(3, time.Now(), length, 20_000)) {
		perSecond[int(r.at/time.Second)]++
	}
	for second, n := range perSecond[1:10] {
		if n < 1000 || n > 3000 {
			t.Errorf("%d records in second %d: %v", n, second, perSecond)
		}
	}
}
