package queries

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"auditor/event"
)

var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

// anEvent gives an event with nothing but what each has.
func anEvent(offset int64) event.Event {
	return event.Event{
		ID: fmt.Sprintf("e%d", offset), Type: event.Started, Time: noon.Add(time.Duration(offset) * time.Millisecond),
		Retries: event.Unknown, MaxRetries: event.Unknown, RetryIn: event.Unknown, Active: event.Unknown, Seq: event.Unknown,
		Position:  event.Position{Topic: "task-events", Offset: offset},
		KafkaTime: noon.Add(time.Duration(offset) * time.Millisecond),
	}
}

func aBatch(events ...event.Event) event.Batch {
	b := event.Batch{Topic: "task-events", First: events[0].Offset, Last: events[len(events)-1].Offset, Events: events}
	b.Records = int(b.Last - b.First + 1)
	b.Time = events[len(events)-1].KafkaTime
	return b
}

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

// number runs a query of one number.
func number(t testing.TB, s *Store, query string) uint64 {
	t.Helper()
	var n uint64
	if err := s.conn.QueryRow(t.Context(), "SELECT assumeNotNull(toUInt64(("+query+")))").Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
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

// everyTable holds the tables that a batch reaches.
var everyTable = []string{"events", "rejects", "ingest_ledger", "changed_keys", "task_keys", "worker_signals", "attempts", "task_minutes"}

// mixedBatch reaches every table.
func mixedBatch(n int) event.Batch {
	var events []event.Event
	for i := range n {
		e := anEvent(int64(i))
		e.TaskID, e.Task, e.Worker = fmt.Sprintf("t%d", i%7), "shop.settle", fmt.Sprintf("w%d", i%3)
		e.Type = []event.Type{event.Received, event.Started, event.Retried, event.Succeeded, event.Heartbeat}[i%5]
		e.Retries = i % 3
		if i%2 == 0 {
			e.BusinessKey = fmt.Sprintf("k%d", i%7)
		}
		events = append(events, e)
	}
	b := aBatch(events...)
	b.Rejects = []event.Reject{
		{Position: event.Position{Topic: "task-events", Offset: 1, Index: 1}, KafkaTime: noon, Reason: "json", Detail: "no", Raw: []byte("\x00'\n")},
		{Position: event.Position{Topic: "task-events", Offset: 2, Index: 1}, KafkaTime: noon, Reason: "json", Key: []byte{0xff}},
	}
	return b
}

func counts(t testing.TB, s *Store, final bool) map[string]uint64 {
	t.Helper()
	n := map[string]uint64{}
	for _, table := range everyTable {
		query := "SELECT count() FROM " + table
		if final {
			query += " FINAL"
		}
		if n[table] = number(t, s, query); n[table] == 0 {
			t.Errorf("nothing reached %s", table)
		}
	}
	return n
}

// contents gives a digest of what each table says, merged.
func contents(t testing.TB, s *Store) map[string]uint64 {
	t.Helper()
	n := map[string]uint64{}
	for _, table := range everyTable {
		query := "SELECT sum(cityHash64(toString(tuple(*)))) FROM " + table + " FINAL"
		if table == "task_minutes" {
			query = "SELECT sum(cityHash64(minute, namespace, task, type, n)) FROM (SELECT minute, namespace, task, type, " +
				"uniqCombined64Merge(13)(events) AS n FROM task_minutes GROUP BY ALL)"
		}
		n[table] = number(t, s, query)
	}
	return n
}

func TestSameBatchTwiceIsStoredOnce(t *testing.T) {
	s, b := newStore(t), mixedBatch(200)
	if err := s.InsertBatch(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	rows, said := counts(t, s, true), contents(t, s)
	for range 3 {
		if err := s.InsertBatch(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if diff := gocmp.Diff(rows, counts(t, s, true)); diff != "" {
		t.Errorf("rows, merged, after one call (-) and after four (+):\n%s", diff)
	}
	if diff := gocmp.Diff(said, contents(t, s)); diff != "" {
		t.Errorf("contents changed:\n%s", diff)
	}
	unmerged := counts(t, s, false)
	if unmerged["events"] != 200 || unmerged["rejects"] != 2 {
		t.Errorf("rows before merging: %v; the token must have kept the copies out", unmerged)
	}
}

// The blocks of a batch that nobody doubts are known again in the derived tables too, by the token alone.
func TestTokenReachesTheDerivedTables(t *testing.T) {
	s, b := newStore(t), mixedBatch(200)
	for range 2 {
		s.doubts.stored(&event.Batch{Topic: b.Topic, Last: b.First - 1})
		if err := s.InsertBatch(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		if merged, unmerged := counts(t, s, true), counts(t, s, false); merged["events"] != 200 {
			t.Error(merged)
		} else {
			delete(merged, "ingest_ledger") // has no token
			delete(unmerged, "ingest_ledger")
			if diff := gocmp.Diff(merged, unmerged); diff != "" {
				t.Errorf("rows merged (-), unmerged (+):\n%s", diff)
			}
		}
	}
}

// A batch that comes again when its token is long forgotten, as another block, must not change an answer either.
func TestSameRowsUnderAnotherTokenChangeNoAnswer(t *testing.T) {
	s, b := newStore(t), mixedBatch(200)
	if err := s.InsertBatch(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	rows, said := counts(t, s, true), contents(t, s)
	b.Supplement = true
	if err := s.InsertBatch(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if n := number(t, s, "SELECT count() FROM events"); n != 400 {
		t.Fatalf("%d rows before merging: the second block was dropped, and this test proves nothing", n)
	}
	if diff := gocmp.Diff(rows, counts(t, s, true)); diff != "" {
		t.Errorf("rows, merged, after one call (-) and after two (+):\n%s", diff)
	}
	if diff := gocmp.Diff(said, contents(t, s)); diff != "" {
		t.Errorf("contents changed:\n%s", diff)
	}
}

// The derived tables lack what a crash kept from them, whatever the events have.
func TestRangeThatIsSentAgainIsDerivedAnew(t *testing.T) {
	s, b := newStore(t), mixedBatch(200)
	if err := s.InsertBatch(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	rows, said := counts(t, s, true), contents(t, s)
	derived := everyTable[3:]
	for _, table := range derived {
		if err := s.conn.Exec(t.Context(), "TRUNCATE TABLE "+table); err != nil {
			t.Fatal(err)
		}
	}
	again := b
	again.Events, again.StoredEvents, again.Rejects, again.StoredRejects = nil, len(b.Events), nil, len(b.Rejects)
	again.Unconfirmed = true
	if err := s.InsertBatch(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if n := number(t, s, "SELECT count() FROM changed_keys"); n != 0 {
		t.Errorf("an unconfirmed batch was derived: %d changed keys", n)
	}
	again.Unconfirmed = false
	for range 2 {
		if err := s.InsertBatch(t.Context(), again); err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(rows, counts(t, s, true)); diff != "" {
			t.Errorf("rows, merged, before (-) and after (+):\n%s", diff)
		}
		if diff := gocmp.Diff(said, contents(t, s)); diff != "" {
			t.Errorf("contents changed:\n%s", diff)
		}
	}
}

func TestUnconfirmedBatchIsNotInTheLedger(t *testing.T) {
	s, b := newStore(t), mixedBatch(10)
	b.Unconfirmed = true
	if err := s.InsertBatch(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	stored, err := s.Present(t.Context(), b.Topic, 0, b.First, b.Last)
	if err != nil || stored.Complete || len(stored.Events) != 10 {
		t.Errorf("%+v, %v", stored, err)
	}
}

func TestPresentTellsWhatIsMissing(t *testing.T) {
	s, b := newStore(t), mixedBatch(10)
	stored, err := s.Present(t.Context(), b.Topic, 0, b.First, b.Last)
	if err != nil || stored.Complete || len(stored.Events)+len(stored.Rejects) > 0 {
		t.Fatalf("before: %+v, %v", stored, err)
	}
	half := b
	half.Events, half.Rejects, half.Last = b.Events[:5], b.Rejects[:1], 4
	if err := s.InsertBatch(t.Context(), half); err != nil {
		t.Fatal(err)
	}
	stored, err = s.Present(t.Context(), b.Topic, 0, b.First, b.Last)
	if err != nil || stored.Complete || len(stored.Events) != 5 || len(stored.Rejects) != 1 {
		t.Fatalf("half: %+v, %v", stored, err)
	}
	rest := b
	rest.Events, rest.Rejects, rest.Supplement, rest.StoredEvents, rest.StoredRejects = b.Events[5:], b.Rejects[1:], true, 5, 1
	if err := s.InsertBatch(t.Context(), rest); err != nil {
		t.Fatal(err)
	}
	stored, err = s.Present(t.Context(), b.Topic, 0, b.First, b.Last)
	if err != nil || !stored.Complete || len(stored.Events) != 10 || len(stored.Rejects) != 2 {
		t.Fatalf("whole: %+v, %v", stored, err)
	}
	other, err := s.Present(t.Context(), b.Topic, 1, b.First, b.Last)
	if err != nil || other.Complete || len(other.Events) > 0 {
		t.Errorf("another partition: %+v, %v", other, err)
	}
	if n := number(t, s, "SELECT events FROM ingest_ledger FINAL WHERE last = 9"); n != 10 {
		t.Errorf("the ledger counts %d events, want 10", n)
	}
}

func TestNewestIsTheLedgersFurthestRow(t *testing.T) {
	s := newStore(t)
	if _, ok, err := s.Newest(t.Context(), "task-events", 0); ok || err != nil {
		t.Fatalf("empty ledger: %t, %v", ok, err)
	}
	for _, b := range []event.Batch{
		{Topic: "task-events", First: 10, Last: 19, Records: 3, Lost: 7, Time: noon},
		{Topic: "task-events", First: 0, Last: 9, Records: 10, Time: noon.Add(-time.Hour)},
		{Topic: "task-events", Partition: 1, First: 0, Last: 99},
	} {
		if err := s.InsertBatch(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	got, ok, err := s.Newest(t.Context(), "task-events", 0)
	want := event.Covered{First: 10, Last: 19, Records: 3, Lost: 7, Time: noon}
	if err != nil || !ok || got != want {
		t.Errorf("got %+v, %t, %v; want %+v", got, ok, err, want)
	}
}

func TestBatchOfManyWeeks(t *testing.T) {
	const weeks = 110 // more than ClickHouse takes of itself
	var events []event.Event
	for i := range weeks {
		e := anEvent(int64(i))
		e.KafkaTime = noon.AddDate(0, 0, -7*i)
		events = append(events, e)
	}
	s, b := newStore(t), aBatch(events...)
	for range 2 {
		s.doubts.stored(&event.Batch{Topic: b.Topic, Last: b.First - 1})
		if err := s.InsertBatch(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if n := number(t, s, "SELECT count() FROM events"); n != weeks {
		t.Errorf("%d rows, want %d", n, weeks)
	}
}

func TestErrorsSayWhetherTryingAgainHelps(t *testing.T) {
	s := emptyStore(t)
	permanent := func(err error) bool {
		var e interface{ Permanent() bool }
		return errors.As(err, &e) && e.Permanent()
	}
	if err := s.InsertBatch(t.Context(), mixedBatch(1)); !permanent(err) {
		t.Errorf("no tables: %v is not permanent", err)
	}
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.InsertBatch(canceled, mixedBatch(1)); err == nil || permanent(err) || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	away, err := Open(DefaultConfig(), Options{DialContext: func(context.Context, string) (net.Conn, error) {
		return nil, errors.New("nobody is there")
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer away.Close()
	if err := away.InsertBatch(t.Context(), mixedBatch(1)); err == nil || permanent(err) {
		t.Errorf("away: %v", err)
	}
	if _, err := s.Present(t.Context(), strings.Repeat("'", 300), 0, 0, 1); err != nil {
		t.Errorf("hostile topic: %v", err)
	}
}
