package ingest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"auditor/event"
)

// quick makes a process that waits little between attempts.
func quick(t *testing.T, cfg Config, s Store) *process {
	t.Helper()
	i, err := New(cfg, s, letters{}, testLogger(t), newRegistry())
	if err != nil {
		t.Fatal(err)
	}
	i.pace.firstRetry, i.pace.lastRetry, i.pace.stopped = time.Millisecond, 2*time.Millisecond, 5*time.Millisecond
	return run(t, i)
}

// calls notes the batches that a store was asked to insert.
type calls struct {
	mu      sync.Mutex
	batches []event.Batch
}

func (c *calls) note(b event.Batch) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.batches = append(c.batches, b)
	return len(c.batches)
}

func (c *calls) all() []event.Batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.batches)
}

func TestRefusedRecordBecomesAReject(t *testing.T) {
	const records = 1024
	c := newCluster(t, 1)
	values := repeat("e", records)
	poisoned := []int{0, 700, 701, records - 1}
	for at := 10; len(poisoned) <= mostRefused; at += 30 { // more than may follow one another
		poisoned = append(poisoned, at)
	}
	for _, at := range poisoned {
		values[at] = "eq"
	}
	produce(t, newProducer(t, c), 0, values...)
	s := newMemoryStore()
	s.refusing = true
	var sent calls
	h := &hooked{Store: s, insert: func(ctx context.Context, b event.Batch) error {
		sent.note(b)
		return s.InsertBatch(ctx, b)
	}}
	p := quick(t, testConfig(c), h)
	p.reaches(records)
	p.stop()
	checkExact(t, s, map[int32]map[int64]string{0: numbered(0, values...)})
	checkLedger(t, s, 0, records)
	r := s.reject(event.Position{Topic: topic, Offset: 700, Index: event.WholeRecord})
	if r.Reason != event.ReasonStoreRefused || string(r.Raw) != "eq" || !strings.Contains(r.Detail, "no_poison") {
		t.Errorf("the record became %+v", r)
	}
	if n, most := len(sent.all()), len(poisoned)*2*11; n > most {
		t.Errorf("it took %d inserts to find %d records among %d, want %d at most", n, len(poisoned), records, most)
	}
	if n := testutil.ToFloat64(p.metrics.rejects.WithLabelValues(topic, string(event.ReasonStoreRefused))); n != float64(len(poisoned)) {
		t.Errorf("the metric counts %v refused records", n)
	}
	if n := testutil.ToFloat64(p.metrics.divided.WithLabelValues(dividedByContent)); n < 11 {
		t.Errorf("the metric counts %v divided batches", n)
	}
}

// A materialized view that refuses leaves the events in their table. They are events then, and nothing is divided.
func TestRefusingViewTurnsNoEventIntoAReject(t *testing.T) {
	c := newCluster(t, 1)
	values := []string{"e", "q", "eq", "x", "q"}
	produce(t, newProducer(t, c), 0, values...)
	s := newMemoryStore()
	s.refusing, s.leaky = true, true
	p := quick(t, testConfig(c), s)
	p.reaches(5)
	p.stop()
	checkExact(t, s, map[int32]map[int64]string{0: numbered(0, values...)})
	checkLedger(t, s, 0, 5)
	if len(s.events) != 5 || len(s.rejects) != 1 {
		t.Errorf("%d events and %d rejects", len(s.events), len(s.rejects))
	}
}

// Where one record after the other is refused it is not the records: the partition stops, and goes on when the table is
// mended.
func TestRefusingTableStopsThePartition(t *testing.T) {
	c := newCluster(t, 1)
	produce(t, newProducer(t, c), 0, repeat("e", 100)...)
	s := newMemoryStore()
	var sent calls
	var mended bool
	var mu sync.Mutex
	h := &hooked{Store: s, insert: func(ctx context.Context, b event.Batch) error {
		mu.Lock()
		defer mu.Unlock()
		if !mended && len(b.Events) > 0 {
			sent.note(b)
			return contentError{errInjected}
		}
		return s.InsertBatch(ctx, b)
	}}
	p := quick(t, testConfig(c), h)
	eventually(t, "the partition stands still", func() bool { return p.only().Stopped == StoreRefuses })
	if detail := p.only().Detail; !strings.Contains(detail, "16 records in a row") {
		t.Errorf("the detail is %q", detail)
	}
	looked := len(sent.all())
	eventually(t, "it is looked at again", func() bool { return len(sent.all()) > looked+5 })
	mu.Lock()
	if len(s.rejects) != mostRefused || len(s.events) != 0 {
		t.Errorf("%d rejects and %d events, want %d and 0", len(s.rejects), len(s.events), mostRefused)
	}
	mended = true
	mu.Unlock()
	p.reaches(100)
	p.stop()
	if len(s.rejects) != mostRefused || len(s.events) != 100-mostRefused {
		t.Errorf("%d rejects and %d events in the end", len(s.rejects), len(s.events))
	}
	checkLedger(t, s, 0, 100)
}

// What cannot be kept as a reject either stops the partition at once: there is nowhere to put it.
func TestRejectThatIsRefusedStopsThePartition(t *testing.T) {
	for name, value := range map[string]string{"a record that is none": "x", "a refused record": "e", "nothing but the ledger": ""} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 1)
			produce(t, newProducer(t, c), 0, value)
			s := newMemoryStore()
			h := &hooked{Store: s, insert: func(context.Context, event.Batch) error { return contentError{errInjected} }}
			p := quick(t, testConfig(c), h)
			eventually(t, "the partition stands still", func() bool { return p.only().Stopped == StoreRefuses })
			p.stop()
			if s.count() != 0 {
				t.Errorf("%d rows", s.count())
			}
		})
	}
}

// A store that has not memory enough for a whole batch gets smaller ones, and larger ones again later.
func TestTooMuchAtOnceIsSentInParts(t *testing.T) {
	const records = 2000
	c := newCluster(t, 1)
	producer := newProducer(t, c)
	produce(t, producer, 0, repeat("e", records)...)
	s := newMemoryStore()
	var sent calls
	var busy bool
	var mu sync.Mutex
	h := &hooked{Store: s, insert: func(ctx context.Context, b event.Batch) error {
		sent.note(b)
		mu.Lock()
		defer mu.Unlock()
		if busy && rowsOf(b) > 100 {
			return sizeError{errInjected}
		}
		return s.InsertBatch(ctx, b)
	}}
	busy = true
	p := quick(t, testConfig(c), h)
	p.reaches(records)
	mu.Lock()
	busy = false
	mu.Unlock()
	before := len(sent.all())
	for n := int64(records); ; n += records { // until it has forgotten
		produce(t, producer, 0, repeat("e", records)...)
		p.reaches(n + records)
		all := sent.all()
		if slices.ContainsFunc(all[before:], func(b event.Batch) bool { return rowsOf(b) == records }) {
			break
		}
		if n > 50*records {
			t.Fatal("the batches never grow again")
		}
	}
	p.stop()
	if len(s.rejects) != 0 {
		t.Errorf("%d rejects", len(s.rejects))
	}
	refused := 0
	for _, b := range sent.all()[:before] {
		if rowsOf(b) > 100 {
			refused++
		}
	}
	if refused < enoughTries || refused > before {
		t.Errorf("%d of %d inserts were refused", refused, before)
	}
	for at, n := range s.events {
		if n != 1 {
			t.Errorf("row %v is stored %d times", at, n)
		}
	}
}

// One record that asks too much is kept as a reject once the store has taken much else meanwhile, and not before: without
// that, it is the store that has no memory.
func TestRecordThatAloneIsTooMuch(t *testing.T) {
	c := newCluster(t, 2)
	producer := newProducer(t, c)
	produce(t, producer, 0, "e", "eeee", "e")
	s := newMemoryStore()
	var refused calls
	h := &hooked{Store: s, insert: func(ctx context.Context, b event.Batch) error {
		if rowsOf(b) >= 4 || len(b.Events) >= 4 {
			refused.note(b)
			return sizeError{errInjected}
		}
		return s.InsertBatch(ctx, b)
	}}
	p := quick(t, testConfig(c), h)
	eventually(t, "it is tried often", func() bool { return len(refused.all()) > 3*enoughAlone })
	next := func(partition int) int64 {
		if st := p.Status(); len(st.Partitions) == 2 {
			return st.Partitions[partition].Next
		}
		return -1
	}
	if n := next(0); n != 1 {
		t.Fatalf("next is %d while nothing shows that it is the record", n)
	}
	for n := int64(1); next(0) < 3; n++ {
		produce(t, producer, 1, "e")
		eventually(t, "the other partition goes on", func() bool { return next(1) == n })
		if n > 1000 {
			t.Fatal("the record is never given up")
		}
	}
	p.stop()
	if r := s.reject(event.Position{Topic: topic, Offset: 1, Index: event.WholeRecord}); r.Reason != event.ReasonStoreRefused || string(r.Raw) != "eeee" {
		t.Errorf("the record became %+v", r)
	}
	checkLedger(t, s, 0, 3)
}

// A batch that had no answer is refused when it comes again, and divided; then it arrives after all, between its parts, in
// the same process or after a kill.
func TestBatchThatArrivesAfterItWasDivided(t *testing.T) {
	for _, killed := range []bool{false, true} {
		for part := 1; part <= 3; part++ {
			t.Run(fmt.Sprintf("before part %d, killed %t", part, killed), func(t *testing.T) {
				c := newCluster(t, 1)
				producer := newProducer(t, c)
				values := repeat("e", 64)
				produce(t, producer, 0, values...)
				s := newMemoryStore()
				var late []func()
				var seen []string
				stopped := make(chan struct{})
				n, parts := 0, 0
				s2 := &hooked{Store: s}
				s2.insert = func(ctx context.Context, b event.Batch) error {
					n++
					switch {
					case n == 1: // has no answer
						s.mu.Lock()
						late = s.parts(b)[:1]
						s.mu.Unlock()
						return context.DeadlineExceeded
					case n <= 1+enoughTries:
						return sizeError{errInjected}
					}
					if !b.Unconfirmed || b.Within == nil {
						parts++
					}
					if _, metadata := groupOffset(t, producer, 0); !slices.Contains(seen, metadata) {
						seen = append(seen, metadata)
					}
					if parts == part && late != nil {
						s.mu.Lock()
						for _, write := range late {
							write()
						}
						s.mu.Unlock()
						late = nil
					}
					if killed && n == 2+enoughTries {
						close(stopped)
						<-ctx.Done()
						return ctx.Err()
					}
					return s.InsertBatch(ctx, b)
				}
				cfg := testConfig(c)
				cfg.InsertTimeout = time.Second
				p := quick(t, cfg, s2)
				if killed {
					<-stopped
					p.kill()
					leave(t, c, "auditor")
					p = quick(t, cfg, s2)
				}
				p.reaches(64)
				p.stop()
				checkExact(t, s, map[int32]map[int64]string{0: numbered(0, values...)})
				checkLedger(t, s, 0, 64)
				if !slices.ContainsFunc(seen, func(m string) bool { return strings.HasSuffix(m, ";until=64;of=0-63") }) {
					t.Errorf("the intents %q tell nothing of the range that was divided", seen)
				}
			})
		}
	}
}
