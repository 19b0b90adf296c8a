package queries

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"auditor/event"
)

// TestColumnsHaveTheTypesOfTheTable holds what blocks are encoded as to what ClickHouse has: it would convert another type, at
// the price of an insert.
func TestColumnsHaveTheTypesOfTheTable(t *testing.T) {
	s := newStore(t)
	rows, err := s.conn.Query(t.Context(), "SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table = 'events' AND default_kind = ''")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	want := map[string]string{}
	for rows.Next() {
		var name, kind string
		if err := rows.Scan(&name, &kind); err != nil {
			t.Fatal(err)
		}
		want[name] = kind
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	have := map[string]string{}
	for _, c := range eventColumns {
		have[c.name] = c.kind
	}
	if diff := gocmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
}

// TestEncodedIsWhatTheClientEncodes compares the two ways in which events reach ClickHouse, with dictionaries of each width.
func TestEncodedIsWhatTheClientEncodes(t *testing.T) {
	for _, rows := range []int{1, 256, 257, 65536, 65537} {
		t.Run(fmt.Sprint(rows), func(t *testing.T) {
			events := make([]event.Event, rows)
			for i := range events {
				events[i] = anEvent(int64(i))
				if i%3 == 0 {
					events[i] = fullEvent()
				}
				events[i].Offset, events[i].Worker = int64(i), fmt.Sprint("w", i)
				events[i].Task = hostile[i%20]
			}
			encoded, gathered := newStore(t), newStore(t)
			if err := encoded.insertEvents(t.Context(), "", events); err != nil {
				t.Fatal(err)
			}
			if err := gathered.insert(t.Context(), "events", "", eventBlock(events)); err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(readEvents(t, gathered), readEvents(t, encoded)); diff != "" {
				t.Errorf("%.4000s", diff)
			}
		})
	}
}

// TestEncodedRejectsAreWhatTheClientEncodes does so for rejects.
func TestEncodedRejectsAreWhatTheClientEncodes(t *testing.T) {
	rejects := mixedBatch(10).Rejects
	rejects = append(rejects, event.Reject{Position: event.Position{Topic: "t", Partition: 3, Offset: 1 << 40, Index: event.WholeRecord}, KafkaTime: noon,
		Reason: event.ReasonStoreRefused, Detail: "too \x00 bad", Key: []byte("k"), Raw: bytes.Repeat([]byte{0xff, 0}, 1<<20)})
	for _, times := range []int{1, 300} { // one block, and one whose lists end far apart
		many := slices.Clone(rejects)
		for i := range times {
			for _, r := range rejects[:2] {
				r.Offset += int64(100 * (i + 1))
				many = append(many, r)
			}
		}
		encoded, gathered := newStore(t), newStore(t)
		if err := encoded.insertRejects(t.Context(), "", many); err != nil {
			t.Fatal(err)
		}
		if err := gathered.insert(t.Context(), "rejects", "", rejectBlock(many)); err != nil {
			t.Fatal(err)
		}
		const digest = "SELECT sum(cityHash64(toString(tuple(*)))) FROM rejects"
		if a, b := number(t, encoded, digest), number(t, gathered, digest); a != b || number(t, encoded, "SELECT count() FROM rejects") != uint64(len(many)) {
			t.Errorf("%d rejects are stored differently", len(many))
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestBlockThatIsStillBeingSent: the request has failed, and its memory serves another block, while the connection still reads.
func TestBlockThatIsStillBeingSent(t *testing.T) {
	written := 0
	block := &blockBody{x: new(encoder), parts: slices.Repeat([]piece{func(x *encoder) { x.text("a part"); written++ }}, 3)}
	var sent io.Reader
	transport := blockTransport{RoundTripper: roundTrip(func(r *http.Request) (*http.Response, error) {
		sent = r.Body
		_, _ = io.ReadFull(sent, make([]byte, 9))
		return nil, io.ErrUnexpectedEOF
	})}
	request, err := http.NewRequestWithContext(context.WithValue(t.Context(), blockKey{}, block), http.MethodPost, "http://engine/?query="+url.QueryEscape(insertEventsText), bytes.NewReader([]byte("stand-in")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transport.RoundTrip(request); err == nil {
		t.Fatal("no error")
	}
	block.end()
	if rest, err := io.ReadAll(sent); err == nil || len(rest) > 0 || written != 2 {
		t.Errorf("%q was read after the end, %v; %d parts were encoded", rest, err, written)
	}
}

// TestStandInIsReadFirst: as long as it is not, the client still writes it, in memory that serves the next request too.
func TestStandInIsReadFirst(t *testing.T) {
	standIn := bytes.NewReader([]byte("stand-in"))
	transport := blockTransport{RoundTripper: roundTrip(func(*http.Request) (*http.Response, error) {
		if n := standIn.Len(); n > 0 {
			t.Errorf("%d bytes of the stand-in are left", n)
		}
		return nil, io.ErrUnexpectedEOF
	})}
	ctx := context.WithValue(t.Context(), blockKey{}, &blockBody{x: new(encoder)})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://engine/?query="+url.QueryEscape(insertEventsText), standIn)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transport.RoundTrip(request); err == nil {
		t.Fatal("no error")
	}
}
