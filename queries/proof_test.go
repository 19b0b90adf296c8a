package queries

import (
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"auditor/event"
	"auditor/event/proof"
)

var shop = event.PartitionID{Topic: "task-events"}

// Counts are exact, whatever lies there twice, in which table, and of whichever element of an array.
func TestTallyAndHeld(t *testing.T) {
	s := newStore(t)
	b := mixedBatch(200)
	for i := range 50 { // offset 150 holds an array of 51, one element of which was rejected
		e := anEvent(150)
		e.Index = int32(i) + 1
		if i == 20 {
			b.Rejects = append(b.Rejects, event.Reject{Position: e.Position, KafkaTime: noon, Reason: "json"})
		} else {
			b.Events = append(b.Events, e)
		}
	}
	other := anEvent(3)
	other.Partition = 1
	for _, b := range []event.Batch{b, {Topic: "task-events", Partition: 1, First: 3, Last: 3, Records: 1, Events: []event.Event{other}}} {
		if err := s.InsertBatch(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	for _, block := range [][]values{eventBlock(b.Events[10:12]), eventBlock(b.Events[10:11])} {
		if err := s.insert(t.Context(), "events", "", block); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.insert(t.Context(), "rejects", "", rejectBlock([]event.Reject{{Position: b.Events[100].Position, KafkaTime: noon}})); err != nil {
		t.Fatal(err)
	}
	got, err := s.Tally(t.Context(), shop, []int64{0, 10, 11, 12, 100, 101, 150, 151, 1000}, 2000)
	want := []event.Tally{
		{First: 0, Rows: 12, Positions: 12, Offsets: 10}, // two offsets have a reject beside their event
		{First: 10, Rows: 3, Positions: 1, Offsets: 1},
		{First: 11, Rows: 2, Positions: 1, Offsets: 1},
		{First: 12, Rows: 88, Positions: 88, Offsets: 88},
		{First: 100, Rows: 2, Positions: 1, Offsets: 1},
		{First: 101, Rows: 49, Positions: 49, Offsets: 49},
		{First: 150, Rows: 51, Positions: 51, Offsets: 1},
		{First: 151, Rows: 49, Positions: 49, Offsets: 49},
		{First: 1000},
	}
	if diff := gocmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	// A stretch that begins in the middle, far from zero.
	got, err = s.Tally(t.Context(), shop, []int64{140, 150}, 150)
	if diff := gocmp.Diff([]event.Tally{{First: 140, Rows: 10, Positions: 10, Offsets: 10}, want[6]}, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	held, err := s.Held(t.Context(), shop, 149, 150)
	if diff := gocmp.Diff([]event.Held{{Offset: 149, Rows: 1, Positions: 1}, {Offset: 150, Rows: 51, Positions: 51, Top: 50}}, held); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	held, err = s.Held(t.Context(), shop, 1000, 2000)
	if len(held) > 0 || err != nil {
		t.Errorf("%v, %v", held, err)
	}
}

func TestLedgerIsReadInPages(t *testing.T) {
	s := newStore(t)
	if x, err := s.LedgerExtent(t.Context(), shop); err != nil || x != (event.Extent{}) {
		t.Errorf("of nothing: %+v, %v", x, err)
	}
	if _, _, any, err := s.LedgerAt(t.Context(), shop, time.Time{}, latest); any || err != nil {
		t.Errorf("of nothing: %t, %v", any, err)
	}
	var want []event.Covered
	for i := range int64(5) {
		b := event.Batch{Topic: shop.Topic, First: 10 * i, Last: 10*i + 9, Records: 10, Time: noon.Add(time.Duration(i) * time.Hour), Oldest: noon}
		if i == 2 {
			b.Records, b.Lost, b.Time, b.Oldest = 0, 10, time.Time{}, time.Time{}
		}
		if err := s.InsertBatch(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		want = append(want, event.Covered{First: b.First, Last: b.Last, Records: b.Records, Lost: b.Lost, Time: b.Time, Oldest: b.Oldest})
	}
	page := func(from, after int64, limit int, want ...event.Covered) {
		t.Helper()
		got, err := s.Ledger(t.Context(), shop, from, after, limit)
		if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	}
	page(0, -1, 100, want...)
	page(0, -1, 2, want[:2]...)
	page(0, 19, 2, want[2:4]...)
	page(25, 19, 100, want[3:]...)
	page(0, 49, 100)
	if x, err := s.LedgerExtent(t.Context(), shop); err != nil || x != (event.Extent{Ranges: 5, Start: 0, Next: 50, Longest: 10}) {
		t.Errorf("%+v, %v", x, err)
	}
	first, last, any, err := s.LedgerAt(t.Context(), shop, noon.Add(time.Hour), noon.Add(3*time.Hour))
	if first != 10 || last != 39 || !any || err != nil {
		t.Errorf("from 13 to 15 h: %d to %d, %t, %v", first, last, any, err)
	}
	ends, err := s.LedgerEnds(t.Context())
	if diff := gocmp.Diff(event.Cursor{shop: 50}, ends); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// Rows that were deleted while they were kept for a shorter time do not come back when they are kept for longer.
func TestKeptFrom(t *testing.T) {
	s := emptyStore(t)
	keep := func(days int) time.Time {
		t.Helper()
		s.config.RetentionDays = days
		if _, err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		from, err := s.KeptFrom(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return from
	}
	age := func(from time.Time) int { return int((time.Since(from) + 2*expirySlack).Hours() / 24) }
	if from := keep(90); age(from) != 90 {
		t.Errorf("kept for 90 days: from %s", from)
	}
	if from := keep(0); !from.IsZero() {
		t.Errorf("kept for ever, and nothing was there to delete: from %s", from)
	}
	keep(30)
	if err := s.InsertBatch(t.Context(), event.Batch{Topic: shop.Topic, First: 1, Last: 1, Records: 1, Events: []event.Event{anEvent(1)}}); err != nil {
		t.Fatal(err)
	}
	for _, days := range []int{90, 0, 400} {
		if from := keep(days); age(from) != 30 {
			t.Errorf("kept for 30 days, and then for %d: from %s", days, from)
		}
	}
	if from := keep(7); age(from) != 7 {
		t.Errorf("kept for 7 days: from %s", from)
	}
}

func TestProofsReadBackAsTheyWereSaved(t *testing.T) {
	s := newStore(t)
	if _, ok, err := s.Proof(t.Context(), shop); ok || err != nil {
		t.Errorf("of nothing: %t, %v", ok, err)
	}
	want := proof.Proof{PartitionID: shop, First: 3, Next: 500, Again: 100, Passed: noon.Add(-time.Hour), Newest: noon, Checked: noon.Add(time.Second),
		Troubles: []proof.Trouble{
			{Kind: proof.Missing, Span: proof.Span{First: 5, Last: 9}, Count: 2, Among: []proof.Span{{First: 5, Last: 5}, {First: 8, Last: 9}}, Time: noon},
			{Kind: proof.Hole, Span: proof.Span{First: 7, Last: 7}, Count: 1, Exact: true},
		}}
	other := proof.Proof{PartitionID: event.PartitionID{Topic: "a", Partition: 2}, Next: 1}
	older := want
	older.Next, older.Troubles = 4, nil
	for _, block := range [][]proof.Proof{{older}, {want, other}} {
		if err := s.SaveProofs(t.Context(), block); err != nil {
			t.Fatal(err)
		}
	}
	got, ok, err := s.Proof(t.Context(), shop)
	if diff := gocmp.Diff(want, got); err != nil || !ok || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	all, err := s.Proofs(t.Context())
	if diff := gocmp.Diff([]proof.Proof{other, want}, all); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if n := number(t, s, "SELECT 100 * missing + 10 * doubled + holes FROM ingest_proofs FINAL WHERE kafka_topic = 'task-events'"); n != 201 {
		t.Errorf("the counts are %d", n)
	}
}

func TestLedgerRowsAreJoined(t *testing.T) { ledgerRowsAreJoined(t, newStore(t)) }

func TestLedgerRowsAreJoinedOnACluster(t *testing.T) { ledgerRowsAreJoined(t, newShards(t).Store) }

func ledgerRowsAreJoined(t *testing.T, s *Store) {
	for i := range int64(30) {
		b := event.Batch{Topic: shop.Topic, First: 10 * i, Last: 10*i + 9, Records: 10, StoredEvents: 9, StoredRejects: 1, Time: noon, Oldest: noon}
		if i == 12 {
			b.Lost = 4
		}
		if err := s.InsertBatch(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		b.Partition = 1
		if err := s.InsertBatch(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	joined := []event.Covered{
		{First: 0, Last: 99, Records: 100, Events: 90, Rejects: 10, Time: noon, Oldest: noon},
		{First: 200, Last: 249, Records: 50, Events: 45, Rejects: 5, Time: noon},
		{First: 100, Last: 149, Records: 50, Events: 45, Rejects: 5, Time: noon}, // over one that tells of a loss
	}
	for range 2 {
		if err := s.JoinLedger(t.Context(), shop, joined); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := s.Ledger(t.Context(), shop, 0, -1, 100)
	if err != nil {
		t.Fatal(err)
	}
	var firsts []int64
	for _, r := range rows {
		firsts = append(firsts, r.First)
	}
	if diff := gocmp.Diff([]int64{0, 100, 120, 150, 160, 170, 180, 190, 200, 250, 260, 270, 280, 290}, firsts); diff != "" {
		t.Error(diff)
	}
	if diff := gocmp.Diff(joined[0], rows[0]); diff != "" {
		t.Error(diff)
	}
	if n := number(t, s, "SELECT count() FROM ingest_ledger FINAL WHERE kafka_partition = 1"); n != 30 {
		t.Errorf("%d rows of the other partition are left", n)
	}
	if newest, _, err := s.Newest(t.Context(), shop.Topic, 0); err != nil || newest.Last != 299 {
		t.Errorf("%+v, %v", newest, err)
	}
}
