package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/twmb/franz-go/pkg/kfake"

	"auditor/event"
	"auditor/event/proof"
)

// shelf is a memory store that keeps proofs, too.
type shelf struct {
	*memoryStore
	proofs map[event.PartitionID]proof.Proof
	fail   bool
}

func newShelf(s *memoryStore) *shelf {
	return &shelf{memoryStore: s, proofs: make(map[event.PartitionID]proof.Proof)}
}

func (s *shelf) Proof(_ context.Context, of event.PartitionID) (proof.Proof, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.proofs[of]
	return p, ok, nil
}

func (s *shelf) SaveProofs(_ context.Context, proofs []proof.Proof) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range proofs {
		s.proofs[p.PartitionID] = p
	}
	return nil
}

func (s *shelf) LedgerExtent(ctx context.Context, of event.PartitionID) (event.Extent, error) {
	if s.fail {
		return event.Extent{}, errInjected
	}
	return s.memoryStore.LedgerExtent(ctx, of)
}

func (s *shelf) JoinLedger(_ context.Context, of event.PartitionID, rows []event.Covered) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ledger := s.ledger[placeOf(of)]
	for _, r := range rows {
		for at, b := range ledger {
			if r.First <= at.first && at.last <= r.Last && b.Lost == 0 {
				delete(ledger, at)
			}
		}
		ledger[span{r.First, r.Last}] = event.Batch{Topic: of.Topic, Partition: of.Partition, First: r.First, Last: r.Last, Records: r.Records,
			StoredEvents: r.Events, StoredRejects: r.Rejects, Time: r.Time, Oldest: r.Oldest}
	}
	return nil
}

// auditorOf is an ingester that reads nothing, of the first partition, and the lines that it logs.
type auditorOf struct {
	*Ingester
	t     *testing.T
	lines func(string) int
	now   time.Time
}

func newAuditor(t *testing.T, c *kfake.Cluster, s *shelf) *auditorOf {
	t.Helper()
	log, lines := recordingLogger()
	i, err := New(testConfig(c), s, letters{}, log, newRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.client.close)
	i.Prove(s)
	i.board.begin(1, []place{{topic, 0}}, nil)
	i.board.update(1, place{topic, 0}, func(p *PartitionStatus) { p.Next = 0 })
	return &auditorOf{i, t, lines, time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
}

// round compares after so long a time, and gives what is known then.
func (a *auditorOf) round(after time.Duration) proof.Proof {
	a.t.Helper()
	a.now = a.now.Add(after)
	if err := a.proveAll(a.t.Context(), a.now); err != nil {
		a.t.Fatal(err)
	}
	all := a.prover.snapshot()
	if len(all) != 1 {
		a.t.Fatalf("%d partitions are known", len(all))
	}
	return all[0]
}

func (a *auditorOf) expect(what string, p proof.Proof, next int64, troubles string) {
	a.t.Helper()
	if got := said(proof.Verdict{Troubles: p.Troubles}); p.Next != next || got != troubles || !p.Checked.Equal(a.now) {
		a.t.Errorf("%s: compared up to %d, %q at %s; want %d, %q", what, p.Next, got, p.Checked, next, troubles)
	}
}

func TestProofGrowsAndIsKept(t *testing.T) {
	c := newCluster(t, 1)
	producer := newProducer(t, c)
	produce(t, producer, 0, repeat("e", 20)...)
	s := newShelf(stored(t, c, 5, 20))
	a := newAuditor(t, c, s)
	a.expect("at first", a.round(0), 20, "")
	calls := s.calls
	a.expect("nothing is new", a.round(time.Minute), 20, "")
	if s.calls != calls {
		t.Errorf("%d questions about nothing new", s.calls-calls)
	}
	// What is new is compared; what is older is left alone for now.
	produce(t, producer, 0, repeat("e", 10)...)
	cfg := testConfig(c)
	cfg.MaxRows = 5
	p := start(t, cfg, s.memoryStore)
	p.reaches(30)
	p.stop()
	s.remove(3, 0)
	s.remove(27, 0)
	a.expect("ten are new", a.round(time.Minute), 30, "missing 27")
	if n := a.lines("not every event is stored once"); n != 1 {
		t.Errorf("%d lines tell of it", n)
	}
	// Another process goes on from there, knows what is wrong, and compares all once more within the day.
	b := newAuditor(t, c, s)
	b.now = a.now
	b.expect("another process", b.round(time.Minute), 30, "missing 27")
	b.expect("before the day is over", b.round(20*time.Hour), 30, "missing 27")
	b.expect("the day is over", b.round(4*time.Hour), 30, "missing 3; missing 27")
	if n := b.lines("not every event is stored once"); n != 2 {
		t.Errorf("%d lines tell of it", n)
	}
	if got := s.proofs[event.PartitionID{Topic: topic}]; !got.Passed.Equal(b.now) || got.First != 0 || got.Again != 0 {
		t.Errorf("after a whole pass %+v", got)
	}
	// What was mended is seen within the hour, and said.
	s.events[event.Position{Topic: topic, Offset: 3}] = 1
	b.expect("one was mended", b.round(time.Hour), 30, "missing 27")
	s.events[event.Position{Topic: topic, Offset: 27}] = 1
	b.expect("and the other", b.round(time.Hour), 30, "")
	if n := b.lines("every event is stored once again"); n != 1 {
		t.Errorf("%d lines tell that it is over", n)
	}
}

// Trouble that stays is looked at more and more seldom.
func TestKnownTroubleIsNotAskedForAllTheTime(t *testing.T) {
	c := newCluster(t, 1)
	produce(t, newProducer(t, c), 0, repeat("e", 20)...)
	s := newShelf(stored(t, c, 5, 20))
	s.remove(7, 0)
	a := newAuditor(t, c, s)
	a.round(0)
	looks := 0
	for range 120 {
		before := s.calls
		a.expect("as before", a.round(time.Minute), 20, "missing 7")
		if s.calls > before {
			looks++
		}
	}
	if looks < 3 || looks > 10 {
		t.Errorf("looked at %d times in two hours", looks)
	}
}

// All that is older is compared in pieces, spread over the time.
func TestAllIsComparedAgainInTime(t *testing.T) {
	day := 24 * time.Hour
	k := known{Proof: proof.Proof{First: 100, Next: 500, Again: 100, Passed: time.Unix(0, 0)}}
	for _, test := range []struct {
		last int64
		at   time.Duration
		want bool
	}{{199, 6*time.Hour - time.Second, false}, {199, 6 * time.Hour, true}, {299, 11 * time.Hour, false}, {499, day - time.Second, false}, {499, day, true}, {499, 9 * day, true}} {
		if got := k.due(test.last, day, time.Unix(0, 0).Add(test.at)); got != test.want {
			t.Errorf("up to offset %d after %s: %t, want %t", test.last, test.at, got, test.want)
		}
	}
}

func TestProofOfAnEmptiedStore(t *testing.T) {
	c := newCluster(t, 1)
	produce(t, newProducer(t, c), 0, repeat("e", 20)...)
	s := newShelf(stored(t, c, 5, 20))
	s.remove(7, 0)
	a := newAuditor(t, c, s)
	a.expect("at first", a.round(0), 20, "missing 7")
	for r := range s.ledger[place{topic, 0}] {
		if r.first >= 5 {
			delete(s.ledger[place{topic, 0}], r)
		}
	}
	a.expect("restored from an older backup", a.round(time.Minute), 5, "")
	clear(s.ledger[place{topic, 0}])
	a.expect("emptied", a.round(time.Minute), 0, "")
}

func TestFailingProof(t *testing.T) {
	c := newCluster(t, 1)
	produce(t, newProducer(t, c), 0, "e")
	s := newShelf(stored(t, c, 5, 1))
	a := newAuditor(t, c, s)
	s.fail = true
	if err := a.proveAll(t.Context(), a.now); !errors.Is(err, errInjected) || !strings.Contains(err.Error(), topic+"/0") {
		t.Errorf("error %v", err)
	}
	s.fail = false
	a.expect("later", a.round(time.Minute), 1, "")
	if got := testutil.ToFloat64(a.metrics.checks.WithLabelValues(checkFailed)); got != 1 {
		t.Errorf("%v failures are counted", got)
	}
}

func TestProofMetrics(t *testing.T) {
	c := newCluster(t, 1)
	produce(t, newProducer(t, c), 0, repeat("e", 20)...)
	s := newShelf(stored(t, c, 5, 20))
	s.remove(7, 0)
	s.events[event.Position{Topic: topic, Offset: 9}] = 3
	delete(s.ledger[place{topic, 0}], span{0, 4})
	registry := prometheus.NewRegistry()
	i, err := New(testConfig(c), s, letters{}, testLogger(t), registry)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.client.close)
	i.Prove(s)
	own := func(places ...place) {
		i.board.begin(1, places, nil)
		for _, at := range places {
			i.board.update(1, at, func(p *PartitionStatus) { p.Next = 0 })
		}
		if err := i.proveAll(t.Context(), time.Unix(1000, 0)); err != nil {
			t.Fatal(err)
		}
	}
	own(place{topic, 0})
	const names = "auditor_ingest_verified_offset auditor_ingest_verified_timestamp_seconds auditor_ingest_missing auditor_ingest_duplicates auditor_ingest_ledger_holes"
	values := map[string]float64{}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if slices.Contains(strings.Fields(names), f.GetName()) {
			values[strings.TrimPrefix(f.GetName(), "auditor_ingest_")] = f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	if got := fmt.Sprint(values); got != "map[duplicates:2 ledger_holes:5 missing:1 verified_offset:20 verified_timestamp_seconds:1000]" {
		t.Error(got)
	}
	own() // the partition was given to another process
	if n, err := testutil.GatherAndCount(registry, strings.Fields(names)...); n != 0 || err != nil {
		t.Errorf("%d gauges are left, %v", n, err)
	}
}

// It runs beside the reading, and raises no alarm over what is in hand.
func TestProvesWhileItReads(t *testing.T) {
	c := newCluster(t, 2)
	producer := newProducer(t, c)
	s := newShelf(newMemoryStore())
	cfg := testConfig(c)
	cfg.MaxRows, cfg.VerifyEvery = 3, time.Millisecond
	log, lines := recordingLogger()
	i, err := New(func() Config { c := cfg; c.VerifyEvery = time.Second; return c }(), s.memoryStore, letters{}, log, newRegistry())
	if err != nil {
		t.Fatal(err)
	}
	i.config.VerifyEvery, i.config.VerifyAgain = time.Millisecond, time.Millisecond
	i.pace.heartbeat, i.pace.joinBackoff = 100*time.Millisecond, 50*time.Millisecond
	i.Prove(s)
	p := run(t, i)
	for n := range 40 {
		produce(t, producer, int32(n%2), repeat("exe", 10)...)
	}
	eventually(t, "all is read and compared, and that is stored", func() bool {
		compared := 0
		for n := range int32(2) {
			p, _, _ := s.Proof(t.Context(), event.PartitionID{Topic: topic, Partition: n})
			compared += int(p.Next)
		}
		return compared == 2*200
	})
	p.stop()
	if n := lines("not every event is stored once"); n > 0 {
		t.Errorf("%d false alarms", n)
	}
	for of, known := range s.proofs {
		if len(known.Troubles) > 0 || known.Next != 200 {
			t.Errorf("%v: %+v", of, known)
		}
	}
}

// The ledger's old rows become one a day, and prove the same.
func TestLedgerIsJoined(t *testing.T) {
	c := newCluster(t, 1)
	const n = 100
	producer := newProducer(t, c)
	for range n {
		produce(t, producer, 0, "exe")
	}
	s := newShelf(stored(t, c, 3, n))
	ledger := s.ledger[place{topic, 0}]
	if len(ledger) != n {
		t.Fatalf("%d rows in the ledger", len(ledger))
	}
	a := newAuditor(t, c, s)
	// Twenty rows a day, the last of them today; one tells of a loss, one of an unknown oldest record, one of no record, one of
	// a clock that runs ahead.
	for o := range int64(n - 1) {
		b := ledger[span{o, o}]
		b.Time = a.now.AddDate(0, 0, -12*(n-1-int(o))/n)
		b.Oldest = b.Time.Add(-time.Hour)
		switch o {
		case 10:
			b.Lost, b.Records, b.Events, b.Rejects = 1, 0, nil, nil
			for i := range int32(3) {
				s.remove(o, i)
			}
		case 15:
			b.Records, b.Events, b.Rejects, b.Time, b.Oldest = 0, nil, nil, time.Time{}, time.Time{}
			for i := range int32(3) {
				s.remove(o, i)
			}
		case 20:
			b.Time = a.now.AddDate(1, 0, 0)
		}
		ledger[span{o, o}] = b
	}
	sums := func() (records, rows, covered int64) {
		for _, b := range s.covered(place{topic, 0}) {
			records, covered = records+int64(b.Records), covered+b.Last-b.First+1
			rows += int64(len(b.Events) + b.StoredEvents + len(b.Rejects) + b.StoredRejects)
		}
		return records, rows, covered
	}
	records, rows, covered := sums()
	a.expect("joined", a.round(0), n, "lost 10")
	after := s.covered(place{topic, 0})
	if r, w, v := sums(); r != records || w != rows || v != covered {
		t.Errorf("sums were %d %d %d, and are %d %d %d", records, rows, covered, r, w, v)
	}
	days := make(map[string]int)
	for _, b := range after {
		days[b.Time.Format(time.DateOnly)]++
		if old := a.now.Sub(b.Time) > 10*24*time.Hour; old && b.Oldest.After(b.Time) {
			t.Errorf("%+v", b)
		}
	}
	if len(after) > 80 || days["2026-11-30"] < 5 || days[a.now.AddDate(0, 0, -11).Format(time.DateOnly)] > 3 {
		t.Errorf("%d rows are left: %v", len(after), days)
	}
	// The same again changes nothing, and neither does a join that was interrupted before the old rows were deleted.
	a.expect("a day later", a.round(25*time.Hour), n, "lost 10")
	for o := range after[0].Last + 1 {
		ledger[span{o, o}] = event.Batch{Topic: topic, First: o, Last: o, Records: 1, StoredEvents: 2, StoredRejects: 1, Time: after[0].Time}
	}
	b := newAuditor(t, c, s)
	b.now = a.now.Add(time.Minute)
	b.expect("while both are there", b.round(0), n, "lost 10")
	if r, w, v := sums(); r != records || w != rows || v != covered {
		t.Errorf("after an interruption: sums were %d %d %d, and are %d %d %d", records, rows, covered, r, w, v)
	}
	p := start(t, testConfig(c), s.memoryStore)
	p.reaches(n)
	p.stop()
	s.remove(3, 1)
	if got := said(verify(t, c, s)); got != "missing 3; lost 10" {
		t.Errorf("in a joined range: %q", got)
	}
}

// A range with trouble is left as it is, and so is the row that says where to go on, however old.
func TestLedgerKeepsWhatIsNeeded(t *testing.T) {
	c := newCluster(t, 1)
	producer := newProducer(t, c)
	for range 10 {
		produce(t, producer, 0, "e")
	}
	s := newShelf(stored(t, c, 1, 10))
	s.remove(4, 0)
	a := newAuditor(t, c, s)
	a.now = time.Now().AddDate(1, 0, 0)
	a.expect("a year later", a.round(0), 10, "missing 4")
	var left []span
	for _, b := range s.covered(place{topic, 0}) {
		left = append(left, span{b.First, b.Last})
	}
	if got := fmt.Sprint(left); got != "[{0 3} {4 4} {5 8} {9 9}]" {
		t.Errorf("the ledger has %s", got)
	}
}
