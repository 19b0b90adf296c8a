package queries

import (
	"context"
	"errors"
	"fmt"
	"net"
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

// number runs a query of one number.
func number(t testing.TB, s *Store, query string) uint64 {
	t.Helper()
	var n uint64
	if err := s.conn.QueryRow(t.Context(), "SELECT assumeNotNull(toUInt64(("+query+")))").Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// everyTable holds the tables that a batch reaches.
var everyTable = []string{"events", "rejects", "ingest_ledger", "changed_keys", "task_keys", "worker_signals", "attempts", "task_minutes", "keyless", "emitter_numbers", "failures"}

// mixedBatch reaches every table.
func mixedBatch(n int) event.Batch {
	var events []event.Event
	for i := range n {
		e := anEvent(int64(i))
		e.TaskID, e.Task, e.Worker = fmt.Sprintf("t%d", i%7), "shop.settle", fmt.Sprintf("w%d", i%3)
		e.Type = []event.Type{event.Received, event.Started, event.Retried, event.Succeeded, event.Heartbeat}[i%5]
		e.Retries = i % 3
		e.Emitter, e.Seq = e.Worker, int64(i/3)
		if e.Type == event.Retried {
			e.Error = &event.Error{Type: "ConnectionError"}
		}
		if i%2 == 0 {
			e.BusinessKey = fmt.Sprintf("k%d", i%7)
		}
		events = append(events, e)
	}
	b := aBatch(events...)
	b.Rejects = []event.Reject{
		{Position: event.Position{Topic: "task-events", Offset: 1, Index: 1}, KafkaTime: noon, Reason: "json", Detail: "no", Raw: []byte("\x00'\n")},
		{Position: event.Position{Topic: "task-events", Offset: 2, Index: 1}, KafkaTime: noon, Reason: "json", Key: []byte{0xff},
			Headers: []event.Header{{Key: "ce_id", Value: []byte{0xff}}, {Key: "ce_id"}}},
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
		if table == "emitter_numbers" {
			query = "SELECT sum(cityHash64(namespace, emitter, block, n, first, last)) FROM (SELECT namespace, emitter, block, " +
				"groupBitmapMerge(numbers) AS n, min(first) AS first, max(last) AS last FROM emitter_numbers GROUP BY ALL)"
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
	if n := number(t, s, "SELECT count() FROM rejects FINAL WHERE header_names = ['ce_id', 'ce_id'] AND header_values = [unhex('FF'), '']"); n != 1 {
		t.Errorf("%d rejects with their headers", n)
	}
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
	for range 2 { // its answer may be lost
		if err := s.InsertBatch(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	switch n := number(t, s, "SELECT count() FROM events"); {
	case n < 400:
		t.Fatalf("%d rows before merging: the second block was dropped, and this test proves nothing", n)
	case n > 400:
		t.Errorf("%d rows before merging: a supplement that was sent again is there twice", n)
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

// Of the parts of a range that was divided the first takes the range's token. The others must wait for their own: what is
// written without a token has no protection when it has no answer, and arrives after it was sent again.
func TestPartThatTheTokenOfItsRangeKeepsOut(t *testing.T) {
	s, b := newStore(t), mixedBatch(20)
	b.Rejects = nil
	part := func(from, to int) event.Batch {
		p := b
		p.Events, p.First, p.Last, p.Records = b.Events[from:to], b.Events[from].Offset, b.Events[to-1].Offset, to-from
		return p
	}
	for _, step := range []struct {
		name   string
		part   event.Batch
		within bool
		want   uint64
	}{
		{"the first, as the range", part(0, 10), true, 10},
		{"the second, as the range", part(10, 20), true, 10},
		{"the second", part(10, 20), false, 20},
		{"the second, late", part(10, 20), false, 20},
		{"all, late", b, false, 20},
	} {
		if step.within {
			step.part.Within, step.part.Unconfirmed = &event.Range{First: b.First, Last: b.Last}, true
		}
		if err := s.InsertBatch(t.Context(), step.part); err != nil {
			t.Fatal(err)
		}
		if n := number(t, s, "SELECT count() FROM events"); n != step.want {
			t.Errorf("%s: %d rows, want %d", step.name, n, step.want)
		}
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
