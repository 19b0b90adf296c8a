package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"auditor/event"
	"auditor/event/proof"
)

// everything is all offsets that there can be.
var everything = proof.Span{Last: 1 << 40}

// verify compares the first partition of the topic, whole or a span of it.
func verify(t testing.TB, c *kfake.Cluster, e Evidence, spans ...proof.Span) proof.Verdict {
	t.Helper()
	return verifyWith(t, testConfig(c), e, spans...)
}

func verifyWith(t testing.TB, cfg Config, e Evidence, spans ...proof.Span) proof.Verdict {
	t.Helper()
	v, err := NewVerifier(cfg, e, letters{}, testLogger(t))
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	v.pace.firstRetry = time.Millisecond
	verdict, err := v.Verify(t.Context(), event.PartitionID{Topic: topic}, append(spans, everything)[0])
	if err != nil {
		t.Fatal(err)
	}
	return verdict
}

// said writes troubles as a test tells them: "missing 3-5; doubled 7 (2); 4 of missing 8-20 among 8-10 12-20".
func said(v proof.Verdict) string {
	var all []string
	span := func(s proof.Span) string {
		if s.First == s.Last {
			return fmt.Sprint(s.First)
		}
		return fmt.Sprintf("%d-%d", s.First, s.Last)
	}
	for _, t := range v.Troubles {
		text := fmt.Sprintf("%s %s", t.Kind, span(t.Span))
		if t.Count != t.Len() {
			text += fmt.Sprintf(" (%d)", t.Count)
		}
		if !t.Exact {
			text += " about"
		}
		for _, s := range t.Among {
			text += " " + span(s)
		}
		all = append(all, text)
	}
	if v.Expired > 0 {
		all = append(all, fmt.Sprintf("%d expired", v.Expired))
	}
	return strings.Join(all, "; ")
}

// stored reads what a topic of one partition holds into a store, in ranges of at most rows rows.
func stored(t testing.TB, c *kfake.Cluster, rows int, end int64) *memoryStore {
	t.Helper()
	s, cfg := newMemoryStore(), testConfig(c)
	cfg.MaxRows = rows
	p := start(t, cfg, s)
	p.reaches(end)
	p.stop()
	return s
}

// marked gives a topic of 11 offsets: records at 0, 1, 6 and 9, and else markers and what was rolled back.
func marked(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c := newCluster(t, 1, opts...)
	producer := newProducer(t, c, kgo.TransactionalID("shop"))
	transact := func(commit kgo.TransactionEndTry, values ...string) {
		t.Helper()
		if err := producer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		produce(t, producer, 0, values...)
		if err := producer.EndTransaction(t.Context(), commit); err != nil {
			t.Fatal(err)
		}
	}
	transact(kgo.TryCommit, "e", "x") // 0, 1, marker at 2
	transact(kgo.TryAbort, "x", "x")  // 3, 4, marker at 5
	produce(t, newProducer(t, c), 0, "exe")
	transact(kgo.TryAbort, "x")   // 7, marker at 8
	transact(kgo.TryCommit, "ee") // 9, marker at 10
	return c
}

func TestVerifyFindsNothingWrong(t *testing.T) {
	for _, rows := range []int{1, 3, 1000} {
		t.Run(fmt.Sprint(rows, " rows a batch"), func(t *testing.T) {
			c := marked(t)
			v := verify(t, c, stored(t, c, rows, 11))
			if got := said(v); got != "" || v.First != 0 || v.Last != 10 || v.Records != 4 || v.Events != 5 || v.Rejects != 2 || v.Newest.IsZero() || v.Unread != "" {
				t.Errorf("%q %+v", got, v)
			}
		})
	}
	t.Run("an empty ledger", func(t *testing.T) {
		v := verify(t, marked(t), newMemoryStore())
		if got := said(v); got != "" || v.Ranges != 0 || v.Len() != 0 {
			t.Errorf("%q %+v", got, v)
		}
	})
	t.Run("a topic that had lost its beginning", func(t *testing.T) {
		c := newCluster(t, 1)
		produce(t, newProducer(t, c), 0, repeat("e", 10)...)
		if err := c.DeleteRecords(topic, 0, 4); err != nil {
			t.Fatal(err)
		}
		if v := verify(t, c, stored(t, c, 3, 10)); said(v) != "" || v.First != 4 || v.Last != 9 {
			t.Errorf("%q %+v", said(v), v)
		}
	})
}

func TestVerifyNames(t *testing.T) {
	remove := func(offsets ...int64) func(*memoryStore) {
		return func(s *memoryStore) {
			for _, o := range offsets {
				for i := range int32(3) {
					s.remove(o, i)
				}
			}
		}
	}
	cover := func(s *memoryStore, first, last int64) *event.Batch {
		b := s.ledger[place{topic, 0}][span{first, last}]
		return &b
	}
	for _, test := range []struct {
		name string
		harm func(*memoryStore)
		rows int
		kept int64 // Kafka has deleted what is before
		want string
	}{
		{"one record", remove(6), 1000, 0, "missing 6"},
		{"records side by side, and one apart", remove(0, 1, 9), 1000, 0, "missing 0-1; missing 9"},
		{"all of a batch, of which nothing needs to be asked", remove(0), 1, 0, "missing 0"},
		{"everything", remove(0, 1, 6, 9), 1000, 0, "missing 0-1; missing 6; missing 9"},
		{"an element in the middle", func(s *memoryStore) { s.remove(6, 1) }, 1000, 0, "missing 6"},
		{"the last element", func(s *memoryStore) { s.remove(9, 1) }, 1000, 0, "missing 9"},
		{"an array that was refused as a whole is one row, and one in the same range is missing", func(s *memoryStore) {
			b := cover(s, 0, 10)
			b.Events, b.Rejects, b.StoredEvents, b.StoredRejects = nil, nil, 3, 2
			s.ledger[place{topic, 0}][span{0, 10}] = *b
			s.remove(6, 1)
			s.remove(6, 2)
			remove(1)(s)
		}, 1000, 0, "missing 1"},
		{"an element of what Kafka has deleted", func(s *memoryStore) { s.remove(6, 1) }, 1000, 9, "missing 6"},
		{"the last element of what Kafka has deleted", func(s *memoryStore) { s.remove(6, 2) }, 1000, 9, "missing 0-8 (1) about"},
		{"a record that Kafka has deleted, among markers", remove(6), 1000, 9, "missing 2-8 (1) about 2-8"},
		{"two of those", remove(1, 6), 1000, 9, "missing 1-8 (2) about 1-8"},
		{"and one that Kafka has", remove(1, 9), 1000, 6, "missing 1-5 (1) about 1-5; missing 9"},
		{"a batch that Kafka has deleted, without markers", remove(1), 1, 9, "missing 1"},
		{"a row that lies there twice", func(s *memoryStore) { s.events[event.Position{Topic: topic, Offset: 6}]++ }, 1000, 0, "doubled 6"},
		{"one that lies there four times, and Kafka has deleted it", func(s *memoryStore) { s.events[event.Position{Topic: topic, Offset: 6}] = 4 }, 1000, 9, "doubled 6 (3)"},
		{"one that is an event and a reject", func(s *memoryStore) { s.rejects[event.Position{Topic: topic, Offset: 6}]++ }, 1000, 0, "doubled 6"},
		{"one too many hides none too few", func(s *memoryStore) { s.events[event.Position{Topic: topic, Offset: 1}]++; s.remove(6, 0) }, 1000, 0, "missing 6; doubled 1"},
		{"a hole in the ledger alone", func(s *memoryStore) { delete(s.ledger[place{topic, 0}], span{1, 1}) }, 1, 0, "hole 1"},
		{"a hole in both", func(s *memoryStore) { delete(s.ledger[place{topic, 0}], span{1, 1}); s.remove(1, 0) }, 1, 0, "missing 1; hole 1"},
		{"a hole in both of which Kafka tells no more", func(s *memoryStore) { delete(s.ledger[place{topic, 0}], span{1, 1}); s.remove(1, 0) }, 1, 9, "hole 1"},
		{"the beginning of the ledger", func(s *memoryStore) { delete(s.ledger[place{topic, 0}], span{0, 0}) }, 1, 0, "hole 0"},
		{"the beginning, which Kafka has deleted", func(s *memoryStore) { delete(s.ledger[place{topic, 0}], span{0, 0}) }, 1, 6, ""},
		{"the end of the ledger is lag", func(s *memoryStore) {
			for r := range s.ledger[place{topic, 0}] {
				if r.first > 5 {
					delete(s.ledger[place{topic, 0}], r)
				}
			}
		}, 1, 0, ""},
		{"lost records", func(s *memoryStore) {
			b := cover(s, 1, 1)
			b.Lost, b.Records, b.Events, b.Rejects = 1, 0, nil, nil
			s.ledger[place{topic, 0}][span{1, 1}] = *b
			s.remove(1, 0)
		}, 1, 6, "lost 1"},
		{"the same records in ranges of another cut", func(s *memoryStore) {
			s.ledger[place{topic, 0}][span{0, 5}] = event.Batch{First: 0, Last: 5, Records: 2, StoredEvents: 1, StoredRejects: 1}
			s.ledger[place{topic, 0}][span{1, 8}] = event.Batch{First: 1, Last: 8, Records: 2, StoredEvents: 2, StoredRejects: 2}
		}, 1, 0, ""},
		{"a record that is missing in one of those", func(s *memoryStore) {
			s.ledger[place{topic, 0}][span{3, 8}] = event.Batch{First: 3, Last: 8, Records: 1, StoredEvents: 2, StoredRejects: 1}
			remove(6)(s)
		}, 1, 0, "missing 6"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := marked(t)
			s := stored(t, c, test.rows, 11)
			test.harm(s)
			if test.kept > 0 {
				if err := c.DeleteRecords(topic, 0, test.kept); err != nil {
					t.Fatal(err)
				}
			}
			v := verify(t, c, s)
			if got := said(v); got != test.want || v.Unread != "" {
				t.Errorf("got %q %s, want %q; the ledger has %v", got, v.Unread, test.want, s.ledger[place{topic, 0}])
			}
		})
	}
}

// Rows that the tables keep no longer are not missing.
func TestVerifyKnowsWhatExpired(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 3, n, 0, 0, 0, 0, time.UTC) }
	c := newCluster(t, 1)
	producer := newProducer(t, c)
	// One batch of days 1 to 5, then a record of each of the days 3, 8 and 6: clocks of producers differ.
	for _, days := range [][]int{{1, 2, 3, 4, 5}, {3}, {8}, {6}} {
		var records []*kgo.Record
		for _, d := range days {
			records = append(records, &kgo.Record{Value: []byte("e"), Timestamp: day(d)})
		}
		if err := producer.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	s := newMemoryStore()
	for _, r := range []span{{0, 4}, {5, 5}, {6, 6}, {7, 7}} {
		b := event.Batch{Topic: topic, First: r.first, Last: r.last, Records: int(r.last - r.first + 1)}
		b.Oldest, b.Time = map[int64]time.Time{0: day(1), 5: day(3), 6: day(8), 7: day(6)}[r.first], map[int64]time.Time{0: day(5), 5: day(3), 6: day(8), 7: day(6)}[r.first]
		for o := r.first; o <= r.last; o++ {
			b.Events = append(b.Events, event.Event{Position: event.Position{Topic: topic, Offset: o}})
		}
		if err := s.InsertBatch(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what, want string) {
		t.Helper()
		if got := said(verify(t, c, s)); got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	check("all there", "")
	for _, o := range []int64{0, 1, 5} {
		s.remove(o, 0)
	}
	check("kept for ever", "missing 0-1; missing 5")
	s.kept = day(3).Add(12 * time.Hour)
	check("kept from the middle of the third day on", "3 expired")
	s.remove(6, 0)
	check("one of the eighth day is missing all the same", "missing 6; 3 expired")
	s.remove(3, 0)
	check("and one of the fourth, in the same batch as some that expired", "missing 3; missing 6; 3 expired")
	if err := c.DeleteRecords(topic, 0, 6); err != nil {
		t.Fatal(err)
	}
	check("what Kafka does not tell any more may have expired", "missing 6; 4 expired")
	s.kept = day(30)
	check("nothing has to be there", "8 expired")
}

func TestVerifyOneSpan(t *testing.T) {
	c := newCluster(t, 1)
	produce(t, newProducer(t, c), 0, repeat("e", 100)...)
	s := stored(t, c, 10, 100)
	for _, o := range []int64{5, 45, 46, 95} {
		s.remove(o, 0)
	}
	for _, test := range []struct {
		span, compared proof.Span
		want           string
	}{
		{proof.Span{First: 40, Last: 49}, proof.Span{First: 40, Last: 49}, "missing 45-46"},
		{proof.Span{First: 41, Last: 41}, proof.Span{First: 40, Last: 49}, "missing 45-46"}, // whole ranges
		{proof.Span{First: 10, Last: 39}, proof.Span{First: 10, Last: 39}, ""},
		{proof.Span{First: 90, Last: 1 << 40}, proof.Span{First: 90, Last: 99}, "missing 95"},
		{proof.Span{First: 200, Last: 300}, proof.Span{First: 200, Last: 199}, ""},
	} {
		if v := verify(t, c, s, test.span); v.Span != test.compared || said(v) != test.want {
			t.Errorf("%v: %v %q, want %v %q", test.span, v.Span, said(v), test.compared, test.want)
		}
	}
	delete(s.ledger[place{topic, 0}], span{50, 59})
	if v := verify(t, c, s, proof.Span{First: 50, Last: 69}); said(v) != "hole 50-59" {
		t.Errorf("a span that begins with a hole: %q", said(v))
	}
}

// However much is wrong, what is told stays short, its number right, and the questions few.
func TestVerifyOfAStoreInRuins(t *testing.T) {
	const n = 3000
	c := newCluster(t, 1)
	producer := newProducer(t, c)
	for range n / 100 {
		produce(t, producer, 0, repeat("ee", 100)...)
	}
	s := stored(t, c, 1, n)
	if ranges := len(s.ledger[place{topic, 0}]); ranges != n {
		t.Fatalf("%d ranges", ranges)
	}
	healthy := s.calls
	if v := verify(t, c, s); said(v) != "" || s.calls-healthy > 3 {
		t.Errorf("%q, %d questions for a sound store", said(v), s.calls-healthy)
	}
	for o := range int64(n) {
		switch {
		case o%3 == 0:
			s.remove(o, 0)
			s.remove(o, 1)
		case o%3 == 1:
			s.events[event.Position{Topic: topic, Offset: o}]++
		}
	}
	before := s.calls
	v := verify(t, c, s)
	if missing, doubled := proof.Count(v.Troubles, proof.Missing), proof.Count(v.Troubles, proof.Doubled); missing != n/3 || doubled != n/3 {
		t.Errorf("%d missing and %d doubled, want %d of each", missing, doubled, n/3)
	}
	if len(v.Troubles) > 2*namedTroubles || v.Troubles[0].Span != (proof.Span{First: 0, Last: 0}) || !v.Troubles[0].Exact {
		t.Errorf("%d troubles, the first %+v", len(v.Troubles), v.Troubles[0])
	}
	if questions := s.calls - before; questions > 4*closeLooks {
		t.Errorf("%d questions", questions)
	}
}

// Where Kafka can't help, the comparison of ledger and tables still holds, and says what it could not know.
func TestVerifyWithoutKafka(t *testing.T) {
	t.Run("away", func(t *testing.T) {
		c := marked(t)
		s := stored(t, c, 1000, 11)
		s.remove(6, 0)
		s.remove(6, 1)
		s.remove(6, 2)
		cfg := testConfig(c)
		c.Close()
		if v := verifyWith(t, cfg, s); said(v) != "missing 2-10 (1) about 2-8 10" || v.Unread == "" {
			t.Errorf("%q, unread because of %q", said(v), v.Unread)
		}
	})
	t.Run("made anew", func(t *testing.T) {
		c := marked(t)
		s := stored(t, c, 1000, 11)
		s.remove(6, 2)
		other := newCluster(t, 1)
		produce(t, newProducer(t, other), 0, repeat("e", 20)...)
		if v := verify(t, other, s); said(v) != "missing 0-10 (1) about" || !strings.Contains(v.Unread, "made anew") {
			t.Errorf("%q, unread because of %q", said(v), v.Unread)
		}
	})
	t.Run("shorter", func(t *testing.T) {
		c := marked(t)
		s := stored(t, c, 1000, 11)
		s.remove(6, 2)
		other := newCluster(t, 1)
		produce(t, newProducer(t, other), 0, "e")
		if v := verify(t, other, s); said(v) != "missing 0-10 (1) about" || v.Unread == "" {
			t.Errorf("%q, unread because of %q", said(v), v.Unread)
		}
	})
}

// A store that fails is an error, and never a verdict.
func TestVerifyOfAStoreThatFails(t *testing.T) {
	c := marked(t)
	s := stored(t, c, 1, 11)
	s.remove(6, 0)
	for n := range 10 {
		v, err := NewVerifier(testConfig(c), &failing{memoryStore: s, left: n}, letters{}, testLogger(t))
		if err != nil {
			t.Fatal(err)
		}
		verdict, err := v.Verify(t.Context(), event.PartitionID{Topic: topic}, everything)
		v.Close()
		if err == nil {
			if n < 4 || said(verdict) != "missing 6" {
				t.Errorf("after %d answers: %q", n, said(verdict))
			}
			return
		}
	}
	t.Error("it never came to a verdict")
}

// failing answers a few questions.
type failing struct {
	*memoryStore
	left int
}

func (f *failing) answer() error {
	if f.left--; f.left < 0 {
		return errInjected
	}
	return nil
}

func (f *failing) KeptFrom(ctx context.Context) (time.Time, error) {
	if err := f.answer(); err != nil {
		return time.Time{}, err
	}
	return f.memoryStore.KeptFrom(ctx)
}

func (f *failing) LedgerExtent(ctx context.Context, of event.PartitionID) (event.Extent, error) {
	if err := f.answer(); err != nil {
		return event.Extent{}, err
	}
	return f.memoryStore.LedgerExtent(ctx, of)
}

func (f *failing) Ledger(ctx context.Context, of event.PartitionID, from, after int64, limit int) ([]event.Covered, error) {
	if err := f.answer(); err != nil {
		return nil, err
	}
	return f.memoryStore.Ledger(ctx, of, from, after, limit)
}

func (f *failing) Tally(ctx context.Context, of event.PartitionID, firsts []int64, last int64) ([]event.Tally, error) {
	if err := f.answer(); err != nil {
		return nil, err
	}
	return f.memoryStore.Tally(ctx, of, firsts, last)
}

func (f *failing) Held(ctx context.Context, of event.PartitionID, first, last int64) ([]event.Held, error) {
	if err := f.answer(); err != nil {
		return nil, err
	}
	return f.memoryStore.Held(ctx, of, first, last)
}

// verifyAlways compares all partitions again and again while others write, until it is told to stop; then once more.
// Nothing may ever be found wrong.
func verifyAlways(t *testing.T, cfg Config, e Evidence, d Decoder, partitions int32) (stop func()) {
	t.Helper()
	v, err := NewVerifier(cfg, e, d, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	verdicts, records := 0, int64(0)
	round := func(ctx context.Context) error {
		records = 0
		for n := range partitions {
			verdict, err := v.Verify(ctx, event.PartitionID{Topic: topic, Partition: n}, everything)
			if err != nil {
				return err
			}
			if got := said(verdict); got != "" {
				return fmt.Errorf("a false alarm in partition %d: %s (%+v)", n, got, verdict)
			}
			verdicts++
			records += verdict.Records
		}
		return nil
	}
	go func() {
		for {
			err := round(ctx)
			if ctx.Err() != nil {
				err = nil
			}
			if err != nil && errors.As(err, new(interface{ Permanent() bool })) { // the store is away for a moment
				err = nil
			}
			if err != nil || !pause(ctx, 5*time.Millisecond) {
				done <- err
				return
			}
		}
	}()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		before := verdicts
		if err := round(t.Context()); err != nil {
			t.Error(err)
		}
		v.Close()
		t.Logf("%d verdicts while it went on; in the end %d records", before, records)
		if before < 5 {
			t.Errorf("only %d verdicts while it went on", before)
		}
	}
}

// What is missing is named on every server: by what it holds, and once that was deleted, as closely as the ledger tells.
func TestServersVerify(t *testing.T) {
	onEach(t, 1, func(r *trial) {
		shop := r.newClient(kgo.TransactionalID(r.topic))
		for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} { // 0-2 and a marker at 3, and so on
			r.must(shop.BeginTransaction())
			for range 3 {
				r.send(shop, &kgo.Record{Value: []byte("exe")})
			}
			r.must(shop.EndTransaction(r.bounded(), end))
		}
		r.produce(0, "e", "x") // 12, 13
		p := r.start()
		p.reaches(14)
		p.stop()
		v, err := NewVerifier(r.config, r.store, letters{}, testLogger(r))
		r.must(err)
		defer v.Close()
		check := func(what, want string) {
			r.Helper()
			verdict, err := v.Verify(r.bounded(), event.PartitionID{Topic: r.topic}, everything)
			r.must(err)
			if got := said(verdict); got != want || verdict.Unread != "" || verdict.Records != 8 {
				r.Errorf("%s: %q %s of %d records, want %q", what, got, verdict.Unread, verdict.Records, want)
			}
		}
		check("all there", "")
		for _, at := range []event.Position{{Offset: 1}, {Offset: 1, Index: 1}, {Offset: 1, Index: 2}, {Offset: 9, Index: 2}, {Offset: 12}} {
			at.Topic = r.topic
			delete(r.store.events, at)
			delete(r.store.rejects, at)
		}
		check("three records lack rows", "missing 1; missing 9; missing 12")
		s, err := v.Standing(r.bounded(), event.PartitionID{Topic: r.topic})
		if err != nil || s.Start != 0 || s.End != 14 || s.Committed != 14 || s.Intent.Len() > 0 {
			r.Errorf("%+v, %v", s, err)
		}
		r.deleteBefore(0, 14)
		verdict, err := v.Verify(r.bounded(), event.PartitionID{Topic: r.topic}, everything)
		r.must(err)
		if n := proof.Count(verdict.Troubles, proof.Missing); n < 2 || n > 3 || verdict.Unread != "" {
			r.Errorf("once all was deleted: %q %s", said(verdict), verdict.Unread)
		}
	})
}

// TestVerifySharesTheBudget verifies what unpacks to many times the part of the budget that a fetch takes, while half of the
// budget is held: it waits for that, and leaves nothing taken.
func TestVerifySharesTheBudget(t *testing.T) {
	const records = 60
	c := newCluster(t, 1)
	producer := newProducer(t, c, kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerBatchMaxBytes(40<<20), kgo.ProducerLinger(20*time.Millisecond))
	produce(t, producer, 0, repeat("e"+strings.Repeat(" ", 200_000), records)...)
	cfg := testConfig(c)
	cfg.MaxBytes = 64 << 10
	cfg.Memory = 2 * costOfFetch * cfg.MaxBytes
	s := newMemoryStore()
	p := startWith(t, cfg, s, spaced{}, testLogger(t))
	eventually(t, "all is stored", func() bool { return s.covers() == records })
	p.stop()
	s.remove(7, 0)

	v, err := NewVerifier(cfg, s, spaced{}, testLogger(t))
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	held := cfg.Memory / 2
	if err := v.budget.take(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	done := make(chan proof.Verdict)
	go func() {
		verdict, err := v.Verify(t.Context(), event.PartitionID{Topic: topic}, everything)
		if err != nil {
			t.Error(err)
		}
		done <- verdict
	}()
	eventually(t, "it waits for all of the budget", func() bool { _, waiting := v.budget.state(); return waiting == 1 })
	v.budget.give(held)
	if verdict := <-done; said(verdict) != "missing 7" || verdict.Unread != "" {
		t.Errorf("%q %s", said(verdict), verdict.Unread)
	}
	if taken, waiting := v.budget.state(); taken != 0 || waiting != 0 {
		t.Errorf("in the end %d bytes are taken and %d wait", taken, waiting)
	}
}
