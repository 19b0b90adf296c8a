package queries

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"auditor/event"
)

// readEvents gives all events, by offset, as they are stored.
func readEvents(t testing.TB, s *Store) []event.Event {
	t.Helper()
	rows, err := s.conn.Query(t.Context(), "SELECT * FROM events FINAL ORDER BY kafka_topic, kafka_partition, kafka_offset, kafka_index")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	dest, apply, err := receivers(rows.Columns(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var all []event.Event
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		var e event.Event
		for _, set := range apply {
			set(&e)
		}
		all = append(all, e)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

var yes, no = true, false

// hostile texts: what breaks quoting, framing, encoding or size.
var hostile = []string{
	"", "plain", "\x00", "a\x00b", "'", `"`, "`", `\`, `\'`, `\\'; DROP TABLE events; --`, "\n", "a\nb\r\n\t", "{x:String}", "{{ arg 0 }}",
	"%s%d%", "$1 ?", "\xff\xfe broken", "日本語 \U0001F600", "<script>alert(1)</script>", "NULL", `\N`, "[1,2]", "-- comment", "/* x */",
	strings.Repeat("x", 1<<20), strings.Repeat("'\\\n\x00", 1<<14),
}

func fullEvent() event.Event {
	e := anEvent(7)
	e.Type, e.Namespace, e.System, e.Task, e.TaskID = event.Failed, "prod", "celery", "shop.settle", "t-1"
	e.BusinessKey, e.ExecutionID, e.Retries, e.MaxRetries, e.RetryIn = "settle:1", "x-1", 3, 5, 60
	e.Queue, e.Worker, e.PID, e.Redelivered, e.AcksLate = "default", "w1@host", 4711, &yes, &no
	e.Effect = &event.Effect{Name: "payment.charge", Target: "card:1", IdempotencyKey: "k", Deduplicated: true, Amount: "49.00", Currency: "EUR"}
	e.Error = &event.Error{Type: "Timeout", Message: "took\ntoo long", Permanent: true}
	e.Skip = &event.Skip{Reason: "locked", Holder: "t-0"}
	e.ETA, e.Expires = noon.Add(time.Hour), noon.Add(2*time.Hour+time.Microsecond)
	e.Deadline, e.FirstSent = noon.Add(3*time.Hour), noon.Add(-time.Hour)
	e.Runtime, e.Requeue, e.Terminated, e.Expired, e.Active = 1.25, true, true, true, 2
	e.RequestID, e.RootID, e.ParentID, e.Traceparent = "r", "root", "parent", "00-01-02-03"
	e.ArgsDigest, e.Emitter, e.Seq, e.Attributes = "digest", "w1", 99, `{"a":1}`
	e.Position = event.Position{Topic: "task-events", Partition: 3, Offset: 12, Index: 4}
	return e
}

func TestEventsReadBackAsTheyWereWritten(t *testing.T) {
	events := []event.Event{anEvent(1), fullEvent()}
	only := anEvent(2)
	only.Effect, only.Error, only.Skip = &event.Effect{Target: "t"}, &event.Error{Permanent: true}, &event.Skip{Holder: "h"}
	events = append(events, only)
	for i, h := range hostile {
		e := anEvent(int64(100 + i))
		e.ID, e.Namespace, e.Task, e.TaskID, e.BusinessKey = h+"id", h, h, h, h
		e.Worker, e.Attributes, e.Queue, e.Emitter = h, h, h, h
		if h != "" {
			e.Effect = &event.Effect{Name: h, IdempotencyKey: h, Amount: h}
			e.Error = &event.Error{Type: h, Message: h}
		}
		events = append(events, e)
	}
	s := newStore(t)
	for _, e := range events { // one block each, for the sake of messages of bearable size
		b := aBatch(e)
		b.Partition = e.Partition
		if err := s.InsertBatch(t.Context(), b); err != nil {
			t.Fatalf("event at offset %d: %v", e.Offset, err)
		}
	}
	slices.SortFunc(events, func(a, b event.Event) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.Offset, b.Offset))
	})
	if diff := gocmp.Diff(events, readEvents(t, s)); diff != "" {
		t.Errorf("written (-), read (+):\n%.2000s", diff)
	}
}

func TestColumnListIsTheTables(t *testing.T) {
	s := newStore(t)
	var names []string
	if err := s.conn.QueryRow(t.Context(), "SELECT groupArray(name) FROM system.columns WHERE database = currentDatabase() AND table = 'events' AND default_kind = ''").Scan(&names); err != nil {
		t.Fatal(err)
	}
	want := pluck(eventColumns, func(c *column) string { return c.name })
	if diff := gocmp.Diff(want, names); diff != "" {
		t.Errorf("eventColumns (-), table (+):\n%s", diff)
	}
}

func TestNumbersAndTimesOutOfRange(t *testing.T) {
	e := anEvent(1)
	e.PID, e.Retries, e.MaxRetries, e.Active = -5, math.MaxInt, math.MinInt, 1<<40
	e.ETA = time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)
	e.Expires = time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC)
	e.Deadline = time.Date(292277026, 1, 1, 0, 0, 0, 0, time.UTC)
	e.Runtime = math.Inf(1)
	s := newStore(t)
	if err := s.InsertBatch(t.Context(), aBatch(e)); err != nil {
		t.Fatal(err)
	}
	want := e
	want.PID, want.Retries, want.MaxRetries, want.Active = 0, math.MaxInt32, math.MinInt32, math.MaxInt32
	want.ETA, want.Expires, want.Deadline = latest, earliest, latest
	if diff := gocmp.Diff([]event.Event{want}, readEvents(t, s)); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	if n := number(t, s, "SELECT count() FROM events WHERE eta > '2261-01-01' AND expires < '1900-01-02' AND first_sent = toDateTime64(0, 6)"); n != 1 {
		t.Error("times do not compare in SQL as they should")
	}
}

func TestEventsWithoutKafkaTimeGoByTheirOwn(t *testing.T) {
	e := anEvent(1)
	e.KafkaTime = time.Time{}
	s := newStore(t)
	if err := s.InsertBatch(t.Context(), aBatch(e)); err != nil {
		t.Fatal(err)
	}
	if got := readEvents(t, s)[0].KafkaTime; !got.Equal(e.Time) {
		t.Errorf("kafka time %s, want the event's own %s", got, e.Time)
	}
}
