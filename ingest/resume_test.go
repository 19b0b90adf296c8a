package ingest

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"auditor/event"
)

func TestPlan(t *testing.T) {
	ledger := func(last int64) event.Covered { return event.Covered{First: last - 9, Last: last, Records: 10} }
	open := func(last int64) intent { return intent{last: last, records: 10, open: true} }
	const rows = 25 // so that an unknown range may reach 100 offsets
	for _, test := range []struct {
		name string
		facts
		want course
	}{
		{"a new group begins at the first offset", facts{committed: -1, end: 500}, course{}},
		{"a new group begins where the log does", facts{committed: -1, start: 30, end: 500}, course{next: 30}},
		{"clean end", facts{committed: 100, newest: ledger(99), known: true, end: 500},
			course{next: 100, careful: 200}},
		{"clean end, and nothing more to read", facts{committed: 100, newest: ledger(99), known: true, end: 100},
			course{next: 100, careful: 100}},
		{"killed before the first batch was stored", facts{committed: 0, intent: open(9), end: 500},
			course{next: 0, careful: 10, exact: &exact{span{0, 9}, 10}}},
		{"killed with a batch in flight", facts{committed: 100, intent: open(119), newest: ledger(99), known: true, end: 500},
			course{next: 100, careful: 120, exact: &exact{span{100, 119}, 10}}},
		{"killed between the ledger and the confirmation", facts{committed: 100, intent: open(119), newest: ledger(119), known: true, end: 500},
			course{next: 120, careful: 220}},
		{"the same close to the end of the log", facts{committed: 100, intent: open(119), newest: ledger(119), known: true, end: 130},
			course{next: 120, careful: 130}},
		{"the group's offsets have expired", facts{committed: -1, newest: ledger(99), known: true, end: 500},
			course{next: 100, careful: 200}},
		{"the group was reset to the first offset", facts{committed: 0, newest: ledger(99), known: true, end: 500},
			course{next: 100, careful: 200}},
		{"the group was reset forward", facts{committed: 300, newest: ledger(99), known: true, end: 500},
			course{next: 100, careful: 300}},
		{"the store was restored from an older backup", facts{committed: 300, intent: open(319), newest: ledger(99), known: true, end: 500},
			course{next: 100, careful: 320, exact: &exact{span{300, 319}, 10}}},
		{"the same, and killed again on the way", facts{committed: 120, intent: intent{last: 139, records: 10, until: 320, open: true}, newest: ledger(139), known: true, end: 500},
			course{next: 140, careful: 320}},
		{"the store is new and the group is not", facts{committed: 300, start: 5, end: 500}, course{next: 5, careful: 300}},
		{"the same with an open intent", facts{committed: 300, intent: open(319), start: 5, end: 500},
			course{next: 5, careful: 320, exact: &exact{span{300, 319}, 10}}},
		{"retention ate the range of the open intent", facts{committed: 100, intent: open(119), start: 110, end: 500},
			course{next: 100, careful: 120, exact: &exact{span{100, 119}, 10}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := plan(test.facts, rows)
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(course{}, exact{}, span{})); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

// interrupted produces values to a topic of one partition, and kills a process in the middle of its first insert, which
// writes only the first so many parts of it.
func interrupted(t *testing.T, c *kfake.Cluster, s *memoryStore, parts int, records ...*kgo.Record) (late []func()) {
	t.Helper()
	if err := newProducer(t, c).ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	died := make(chan struct{})
	h := &hooked{Store: s, insert: func(ctx context.Context, b event.Batch) error {
		select {
		case <-died:
		default:
			s.mu.Lock()
			writes := s.parts(b)
			for _, write := range writes[:parts] {
				write()
			}
			late = writes[parts:]
			s.mu.Unlock()
			close(died)
		}
		return errInjected
	}}
	p := start(t, testConfig(c), h)
	<-died
	p.kill()
	leave(t, c, "auditor")
	return late
}

func TestReplay(t *testing.T) {
	week1 := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	week2 := week1.AddDate(0, 0, 7)
	records := func() []*kgo.Record {
		return []*kgo.Record{
			{Value: []byte("e"), Timestamp: week1}, {Value: []byte("ex"), Timestamp: week1},
			{Value: []byte("e"), Timestamp: week2}, {Value: []byte("x"), Timestamp: week2},
		}
	}
	want := map[int32]map[int64]string{0: numbered(0, "e", "ex", "e", "x")}
	// The batch's parts: events of two weeks, rejects of two weeks, the ledger.
	for name, parts := range map[string]int{
		"nothing was written": 0, "one part of the events": 1, "the events": 2, "and one part of the rejects": 3,
		"all but the ledger": 4, "all": 5,
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("the rest never arrives", func(t *testing.T) {
				c, s := newCluster(t, 1), newMemoryStore()
				interrupted(t, c, s, parts, records()...)
				s.expireTokens()
				p := start(t, testConfig(c), s)
				p.reaches(4)
				p.stop()
				checkExact(t, s, want)
				checkLedger(t, s, 0, 4)
			})
			t.Run("the rest arrives after the store was asked", func(t *testing.T) {
				c, s := newCluster(t, 1), newMemoryStore()
				late := interrupted(t, c, s, parts, records()...)
				h := &hooked{Store: s, insert: func(ctx context.Context, b event.Batch) error {
					s.mu.Lock()
					for _, write := range late {
						write()
					}
					s.mu.Unlock()
					return s.InsertBatch(ctx, b)
				}}
				p := start(t, testConfig(c), h)
				p.reaches(4)
				p.stop()
				checkExact(t, s, want)
				checkLedger(t, s, 0, 4)
			})
			t.Run("the rest arrives after it was sent again", func(t *testing.T) {
				c, s := newCluster(t, 1), newMemoryStore()
				late := interrupted(t, c, s, parts, records()...)
				p := start(t, testConfig(c), s)
				p.reaches(4)
				p.stop()
				s.mu.Lock()
				for _, write := range late {
					write()
				}
				s.mu.Unlock()
				checkExact(t, s, want)
			})
		})
	}
}

// lenient reads every letter as an event, as a newer version of a decoder may.
type lenient struct{}

func (lenient) Decode(r event.Record) (events []event.Event, rejects []event.Reject) {
	for i := range r.Value {
		at := r.Position
		at.Index = int32(i)
		events = append(events, event.Event{Position: at, KafkaTime: r.Time})
	}
	return events, nil
}

// TestReplayWithANewDecoder restarts with a decoder that reads as an event what the one before would have rejected, after
// the events were written and before the rejects were. The range's token is spent, and no record may be lost for it.
func TestReplayWithANewDecoder(t *testing.T) {
	c, s := newCluster(t, 1), newMemoryStore()
	at := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	interrupted(t, c, s, 1, &kgo.Record{Value: []byte("e"), Timestamp: at}, &kgo.Record{Value: []byte("x"), Timestamp: at})
	died := make(chan struct{})
	p := startWith(t, testConfig(c), &hooked{Store: s, insert: func(ctx context.Context, b event.Batch) error {
		select {
		case <-died:
		default:
			_ = s.InsertBatch(ctx, b)
			close(died)
		}
		return errInjected
	}}, lenient{}, testLogger(t))
	<-died
	p.kill() // after the rows that the first token keeps out, and before the second token
	leave(t, c, "auditor")
	p = startWith(t, testConfig(c), s, lenient{}, testLogger(t))
	p.reaches(2)
	p.stop()
	checkExact(t, s, map[int32]map[int64]string{0: {0: "e", 1: "e"}})
	checkLedger(t, s, 0, 2)
}

// filled gives a broker and a store that holds all of its ten records, of a group that has ended cleanly.
func filled(t *testing.T) (*kfake.Cluster, *memoryStore, *kgo.Client) {
	t.Helper()
	c, s := newCluster(t, 1), newMemoryStore()
	producer := newProducer(t, c)
	produce(t, producer, 0, repeat("e", 10)...)
	cfg := testConfig(c)
	cfg.MaxRows = 4
	p := start(t, cfg, s)
	p.reaches(10)
	p.stop()
	return c, s, producer
}

func TestGroupThatForgot(t *testing.T) {
	for name, forget := range map[string]func(*testing.T, *kfake.Cluster, *kgo.Client){
		"expired or renamed":       func(t *testing.T, _ *kfake.Cluster, admin *kgo.Client) { deleteGroup(t, admin) },
		"reset to the first":       func(t *testing.T, c *kfake.Cluster, admin *kgo.Client) { setGroupOffset(t, c, admin, 0, 0, "") },
		"reset into the middle":    func(t *testing.T, c *kfake.Cluster, admin *kgo.Client) { setGroupOffset(t, c, admin, 0, 5, "") },
		"reset to the end":         func(t *testing.T, c *kfake.Cluster, admin *kgo.Client) { setGroupOffset(t, c, admin, 0, 15, "") },
		"metadata of another tool": func(t *testing.T, c *kfake.Cluster, admin *kgo.Client) { setGroupOffset(t, c, admin, 0, 10, "hello") },
	} {
		t.Run(name, func(t *testing.T) {
			c, s, producer := filled(t)
			produce(t, producer, 0, repeat("x", 5)...)
			forget(t, c, producer)
			p := start(t, testConfig(c), s)
			p.reaches(15)
			p.stop()
			checkExact(t, s, map[int32]map[int64]string{0: numbered(0, append(repeat("e", 10), repeat("x", 5)...)...)})
			checkLedger(t, s, 0, 15)
			if offset, metadata := groupOffset(t, producer, 0); offset != 15 || metadata != "" {
				t.Errorf("the group is left at offset %d with %q", offset, metadata)
			}
		})
	}
}

func TestStoreThatForgot(t *testing.T) {
	values := map[int32]map[int64]string{0: numbered(0, repeat("e", 10)...)}
	t.Run("new store", func(t *testing.T) {
		c, _, _ := filled(t)
		s := newMemoryStore()
		p := start(t, testConfig(c), s)
		p.reaches(10)
		p.stop()
		checkExact(t, s, values)
		checkLedger(t, s, 0, 10)
	})
	t.Run("older ledger, newer rows", func(t *testing.T) {
		c, s, _ := filled(t)
		s.expireTokens()
		delete(s.ledger[place{topic, 0}], span{4, 7})
		delete(s.ledger[place{topic, 0}], span{8, 9})
		delete(s.events, event.Position{Topic: topic, Offset: 6})
		p := start(t, testConfig(c), s)
		p.reaches(10)
		p.stop()
		checkExact(t, s, values)
		checkLedger(t, s, 0, 10)
	})
}

func TestRetentionAteRecords(t *testing.T) {
	t.Run("while nobody read", func(t *testing.T) {
		c, s, producer := filled(t)
		produce(t, producer, 0, repeat("x", 10)...)
		if err := c.DeleteRecords(topic, 0, 15); err != nil {
			t.Fatal(err)
		}
		log, lines := recordingLogger()
		p := startWith(t, testConfig(c), s, letters{}, log)
		p.reaches(20)
		p.stop()
		checkExact(t, s, map[int32]map[int64]string{0: merge(numbered(0, repeat("e", 10)...), numbered(15, repeat("x", 5)...))})
		checkLedger(t, s, 0, 20)
		checkLost(t, s, 5)
		if got := lines("retention deleted records before ingest read them"); got != 1 {
			t.Errorf("%d lines tell of it, want 1", got)
		}
		if got := p.only().LogStart; p.Status().Assigned && got != 15 {
			t.Errorf("the log starts at %d, want 15", got)
		}
	})
	t.Run("while it reads", func(t *testing.T) {
		c := newCluster(t, 1)
		produce(t, newProducer(t, c, kgo.ProducerBatchMaxBytes(1000)), 0, repeat("e", 4)...)
		s := newMemoryStore()
		reached, goOn := make(chan struct{}), make(chan struct{})
		h := &hooked{Store: s, insert: func(ctx context.Context, b event.Batch) error {
			if b.First == 0 {
				close(reached)
				<-goOn
			}
			return s.InsertBatch(ctx, b)
		}}
		p := start(t, testConfig(c), h)
		<-reached
		produce(t, newProducer(t, c), 0, repeat("x", 6)...)
		if err := c.DeleteRecords(topic, 0, 8); err != nil {
			t.Fatal(err)
		}
		close(goOn)
		p.reaches(10)
		p.stop()
		checkExact(t, s, map[int32]map[int64]string{0: merge(numbered(0, repeat("e", 4)...), numbered(8, "x", "x"))})
		checkLedger(t, s, 0, 10)
		checkLost(t, s, 4)
	})
	t.Run("of a batch in flight that was stored", func(t *testing.T) {
		c, s := newCluster(t, 1), newMemoryStore()
		interrupted(t, c, s, 1, &kgo.Record{Value: []byte("e")}, &kgo.Record{Value: []byte("e")})
		produce(t, newProducer(t, c), 0, "x")
		if err := c.DeleteRecords(topic, 0, 2); err != nil {
			t.Fatal(err)
		}
		p := start(t, testConfig(c), s)
		p.reaches(3)
		p.stop()
		checkExact(t, s, map[int32]map[int64]string{0: {0: "e", 1: "e", 2: "x"}})
		checkLedger(t, s, 0, 3)
		checkLost(t, s, 0)
	})
	t.Run("of a batch in flight that was not", func(t *testing.T) {
		c, s := newCluster(t, 1), newMemoryStore()
		interrupted(t, c, s, 0, &kgo.Record{Value: []byte("e")}, &kgo.Record{Value: []byte("e")})
		if err := c.DeleteRecords(topic, 0, 1); err != nil {
			t.Fatal(err)
		}
		p := start(t, testConfig(c), s)
		p.reaches(2)
		p.stop()
		checkExact(t, s, map[int32]map[int64]string{0: {1: "e"}})
		checkLedger(t, s, 0, 2)
		checkLost(t, s, 1)
	})
	t.Run("before the group was there", func(t *testing.T) {
		c, s := newCluster(t, 1), newMemoryStore()
		produce(t, newProducer(t, c), 0, repeat("e", 4)...)
		if err := c.DeleteRecords(topic, 0, 3); err != nil {
			t.Fatal(err)
		}
		p := start(t, testConfig(c), s)
		p.reaches(4)
		p.stop()
		checkExact(t, s, map[int32]map[int64]string{0: {3: "e"}})
		checkLost(t, s, 0)
	})
}

func merge(maps ...map[int64]string) map[int64]string {
	all := make(map[int64]string)
	for _, m := range maps {
		for k, v := range m {
			all[k] = v
		}
	}
	return all
}

func checkLost(t *testing.T, s *memoryStore, want int64) {
	t.Helper()
	var lost int64
	for _, b := range s.covered(place{topic, 0}) {
		lost += b.Lost
	}
	if lost != want {
		t.Errorf("the ledger says that %d offsets are lost, want %d", lost, want)
	}
}

// stops starts a process and gives the reason why its only partition stands still.
func stops(t *testing.T, c *kfake.Cluster, s Store) Reason {
	t.Helper()
	p := start(t, testConfig(c), s)
	defer p.stop()
	eventually(t, "the partition stands still", func() bool { return p.only().Stopped != "" })
	return p.only().Stopped
}

func TestTopicThatIsNotTheSame(t *testing.T) {
	remake := func(t *testing.T, c *kfake.Cluster, records int) {
		t.Helper()
		if err := c.DeleteTopic(topic); err != nil {
			t.Fatal(err)
		}
		if err := c.CreateTopic(topic, 1, nil); err != nil {
			t.Fatal(err)
		}
		if records > 0 {
			produce(t, newProducer(t, c), 0, repeat("x", records)...)
		}
	}
	for _, test := range []struct {
		name    string
		records int
		want    Reason
	}{
		{"made anew and empty", 0, Shorter},
		{"made anew and shorter", 9, Shorter},
		{"made anew and just as long", 10, Replaced},
		{"made anew and longer", 30, Replaced},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, s, _ := filled(t)
			before := s.count()
			waitForClock(time.Now())
			remake(t, c, test.records)
			if got := stops(t, c, s); got != test.want {
				t.Errorf("stopped for %q, want %q", got, test.want)
			}
			if got := s.count(); got != before {
				t.Errorf("the store has %d rows, and had %d", got, before)
			}
		})
	}
	t.Run("compacted", func(t *testing.T) {
		c := newCluster(t, 1)
		compact := "compact,delete"
		if err := c.DeleteTopic(topic); err != nil {
			t.Fatal(err)
		}
		if err := c.CreateTopic(topic, 1, map[string]string{"cleanup.policy": compact}); err != nil {
			t.Fatal(err)
		}
		if got := stops(t, c, newMemoryStore()); got != Compacted {
			t.Errorf("stopped for %q, want %q", got, Compacted)
		}
	})
	t.Run("intent of a newer version", func(t *testing.T) {
		c, s, producer := filled(t)
		setGroupOffset(t, c, producer, 0, 10, "v2;what=ever")
		if got := stops(t, c, s); got != UnknownIntent {
			t.Errorf("stopped for %q, want %q", got, UnknownIntent)
		}
	})
	t.Run("intent that holds another number of records", func(t *testing.T) {
		c, s, producer := filled(t)
		produce(t, producer, 0, "e", "e")
		setGroupOffset(t, c, producer, 0, 10, "v1;last=11;rows=1")
		if got := stops(t, c, s); got != Replaced {
			t.Errorf("stopped for %q, want %q", got, Replaced)
		}
	})
}

// waitForClock waits until the clock's milliseconds, which are Kafka's timestamps, have moved on.
func waitForClock(from time.Time) {
	for time.Now().UnixMilli() == from.UnixMilli() {
		time.Sleep(time.Millisecond)
	}
}
