package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"auditor/event"
)

// chaos is what goes wrong around a store and a broker, decided by one seed.
type chaos struct {
	calm atomic.Bool // nothing goes wrong any more
	most int         // rows that the store takes at once without often answering that they are too many; 0: any number

	mu      sync.Mutex
	rng     *rand.Rand
	living  map[string]*victim // by client id
	killed  []*victim          // and not yet buried
	kills   int
	lost    int // acknowledgements
	delayed int // writes that were applied after they were given up
	refused int // calls that never arrived
}

// victim is a process that may be killed at any moment.
type victim struct {
	*process
	id   string
	dead atomic.Bool
}

func (c *chaos) roll() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.Float64()
}

// kill ends a process as SIGKILL does: from here on it reaches neither the broker nor the store.
func (c *chaos) kill(v *victim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.dead.Swap(true) {
		return
	}
	v.client.close()
	delete(c.living, v.id)
	c.killed = append(c.killed, v)
	c.kills++
}

var errDead = errors.New("the process is dead")

// storeOf is the store as one process sees it.
type storeOf struct {
	*chaos
	*memoryStore
	v *victim
}

func (s *storeOf) alive() error {
	s.applyLate(s.chaos, 0.3)
	if s.v.dead.Load() {
		return errDead
	}
	return nil
}

func (s *storeOf) Present(ctx context.Context, topic string, partition int32, first, last int64) (event.Stored, error) {
	if err := s.alive(); err != nil {
		return event.Stored{}, err
	}
	return s.memoryStore.Present(ctx, topic, partition, first, last)
}

func (s *storeOf) Newest(ctx context.Context, topic string, partition int32) (event.Covered, bool, error) {
	if err := s.alive(); err != nil {
		return event.Covered{}, false, err
	}
	return s.memoryStore.Newest(ctx, topic, partition)
}

// InsertBatch writes all of b, or meets with an accident.
func (s *storeOf) InsertBatch(ctx context.Context, b event.Batch) error {
	if err := s.alive(); err != nil {
		return err
	}
	if rows := rowsOf(b); s.most > 0 && rows > s.most && s.roll() < 0.8 {
		return sizeError{errors.New("memory limit exceeded")}
	}
	accident := s.roll()
	switch {
	case s.calm.Load() || accident > 0.25:
		return s.memoryStore.InsertBatch(ctx, b)
	case accident < 0.03:
		s.note(&s.refused)
		return errInjected
	case accident < 0.08:
		s.note(&s.lost)
		_ = s.memoryStore.InsertBatch(ctx, b)
		return context.DeadlineExceeded
	case accident < 0.18:
		s.interrupt(b)
		return context.DeadlineExceeded
	default:
		s.interrupt(b)
		s.kill(s.v)
		return errDead
	}
}

// interrupt breaks off an insert somewhere: what came before is written, and what was under way is written later, or never.
func (s *storeOf) interrupt(b event.Batch) {
	s.memoryStore.mu.Lock()
	defer s.memoryStore.mu.Unlock()
	writes := s.parts(b)
	cut := int(s.roll() * float64(len(writes)+1))
	for _, write := range writes[:cut] {
		write()
	}
	if cut < len(writes) && s.roll() < 0.7 {
		s.memoryStore.late = append(s.memoryStore.late, writes[cut])
		s.note(&s.delayed)
	}
}

func (c *chaos) note(n *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*n++
}

// applyLate applies each write that was given up with the probability p.
func (s *memoryStore) applyLate(c *chaos, p float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var later []func()
	for _, write := range s.late {
		if c.roll() < p {
			write()
		} else {
			later = append(later, write)
		}
	}
	s.late = later
}

// atCommit has accidents around commits: the process dies before or after its commit is applied, or the answer is an error
// although it was.
func (c *chaos) atCommit(cluster *kfake.Cluster) {
	cluster.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if c.calm.Load() {
			return nil, nil, false
		}
		accident := c.roll()
		if accident > 0.06 {
			return nil, nil, false
		}
		c.mu.Lock()
		v := c.living[clientOf(req.(*kmsg.OffsetCommitRequest).MemberID)]
		c.mu.Unlock()
		if v != nil {
			c.kill(v)
		}
		if accident < 0.03 {
			return nil, errDead, true
		}
		return nil, nil, false
	})
}

// bury makes the coordinator forget the processes that were killed, and waits until nothing of them runs.
func (c *chaos) bury(t *testing.T, cluster *kfake.Cluster) (buried int) {
	c.mu.Lock()
	killed := c.killed
	c.killed = nil
	c.mu.Unlock()
	for _, v := range killed {
		v.stop()
		leave(t, cluster, v.id)
	}
	return len(killed)
}

// TestCrashes moves many records while processes are killed, answers are lost and writes arrive late, and then compares.
func TestCrashes(t *testing.T) {
	for _, seed := range seeds(t, 1, 2, 3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { crashes(t, seed, 12_000, newChaos(seed), newMemoryStore()) })
	}
}

// TestCrashesWhileDividing does the same with a store that refuses some records for what they hold, and some batches for
// their size.
func TestCrashesWhileDividing(t *testing.T) {
	for _, seed := range seeds(t, 1, 2) {
		for name, leaky := range map[string]bool{"a constraint": false, "a view": true} {
			t.Run(fmt.Sprintf("%s, seed %d", name, seed), func(t *testing.T) {
				s := newMemoryStore()
				s.refusing, s.leaky = true, leaky
				c := newChaos(seed)
				c.most = 12
				crashes(t, seed, 4_000, c, s)
			})
		}
	}
}

// seeds gives the seed that AUDITOR_SEED names, or else the given ones, the first only where tests are to be short.
func seeds(t *testing.T, all ...uint64) []uint64 {
	t.Helper()
	if s := os.Getenv("AUDITOR_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return []uint64{n}
	}
	if testing.Short() {
		return all[:1]
	}
	return all
}

// spawner gives a function that starts a process in the chaos, with its own view of the store.
func (c *chaos) spawner(t *testing.T, cfg Config, d Decoder, view func(*victim) Store) func() {
	spawned := 0
	return func() {
		spawned++
		v := &victim{id: fmt.Sprint("process-", spawned)}
		cfg.Kafka.ClientID = v.id
		i, err := New(cfg, view(v), d, slog.New(slog.DiscardHandler), newRegistry())
		if err != nil {
			t.Fatal(err)
		}
		i.pace.heartbeat, i.pace.joinBackoff = 20*time.Millisecond, 20*time.Millisecond
		i.pace.firstRetry, i.pace.lastRetry = time.Millisecond, 20*time.Millisecond
		c.mu.Lock()
		defer c.mu.Unlock()
		v.process = run(t, i)
		c.living[v.id] = v
	}
}

// until keeps two processes alive until ok.
func (c *chaos) until(t *testing.T, cluster *kfake.Cluster, spawn func(), what string, ok func() bool) {
	t.Helper()
	eventually(t, what, func() bool {
		for range c.bury(t, cluster) {
			spawn()
		}
		c.lay(t, cluster)
		return ok()
	})
}

// lay makes the coordinator forget the processes whose join it took after they were buried. It would keep them for ever, for
// the embedded broker's part that ends their sessions is not in this one.
func (c *chaos) lay(t *testing.T, cluster *kfake.Cluster) {
	info := cluster.GroupInfo(group)
	if info == nil {
		return
	}
	for _, m := range info.Members {
		id := clientOf(m.MemberID)
		c.mu.Lock()
		alive := c.living[id] != nil
		c.mu.Unlock()
		if !alive {
			leave(t, cluster, id)
		}
	}
}

func newChaos(seed uint64) *chaos {
	return &chaos{rng: rand.New(rand.NewPCG(seed, 0)), living: make(map[string]*victim)}
}

func (c *chaos) String() string {
	return fmt.Sprintf("%d kills, %d lost acknowledgements, %d late writes, %d refused calls", c.kills, c.lost, c.delayed, c.refused)
}

func crashes(t *testing.T, seed uint64, records int, c *chaos, s *memoryStore) {
	const partitions = 4
	cluster := newCluster(t, partitions)
	c.atCommit(cluster)
	cfg := testConfig(cluster)
	cfg.MaxRows = 20
	cfg.InsertTimeout = time.Second
	spawn := c.spawner(t, cfg, letters{}, func(v *victim) Store { return &storeOf{c, s, v} })
	spawn()
	spawn()
	calm := verifyAlways(t, cfg, s, letters{}, partitions)
	want := make(map[int32]map[int64]string)
	producer := newProducer(t, cluster)
	load := rand.New(rand.NewPCG(seed, 1))
	for produced := 0; produced < records; {
		produced += wave(t, producer, load, partitions, want)
		c.until(t, cluster, spawn, "the processes keep up", func() bool { return s.covers() > int64(produced)-1000 })
	}
	c.calm.Store(true)
	c.until(t, cluster, spawn, "all is read", func() bool { return s.covers() == int64(total(want)) })
	c.rest()
	s.applyLate(c, 1)
	calm()
	checkExact(t, s, want)
	for partition := range int32(partitions) {
		checkLedger(t, s, partition, int64(len(want[partition])))
	}
	t.Logf("%d records, %s", total(want), c)
	if c.kills < 20 || c.lost < 10 || c.delayed < 20 {
		t.Error("too little went wrong for this to be a test")
	}
}

// rest ends the processes that live, as SIGTERM does.
func (c *chaos) rest() {
	c.mu.Lock()
	living := c.living
	c.mu.Unlock()
	for _, v := range living {
		v.stop()
	}
}

// wave produces some records with timestamps in two weeks, and notes what they should become.
func wave(t *testing.T, producer *kgo.Client, load *rand.Rand, partitions int, want map[int32]map[int64]string) int {
	t.Helper()
	kinds := []string{"e", "e", "e", "e", "e", "e", "x", "ee", "exe", "xe"}
	weeks := []time.Time{time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC), time.Date(2026, 3, 11, 0, 0, 0, 0, time.UTC)}
	records := make([]*kgo.Record, 200)
	for i := range records {
		value := kinds[load.IntN(len(kinds))]
		if load.IntN(100) == 0 {
			value = "qe"
		}
		records[i] = &kgo.Record{
			Partition: int32(load.IntN(partitions)),
			Value:     []byte(value),
			Timestamp: weeks[load.IntN(2)].Add(time.Duration(load.IntN(1e6)) * time.Millisecond),
		}
	}
	for _, r := range producer.ProduceSync(t.Context(), records...) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if want[r.Record.Partition] == nil {
			want[r.Record.Partition] = make(map[int64]string)
		}
		want[r.Record.Partition][r.Record.Offset] = string(r.Record.Value)
	}
	return len(records)
}

func total(want map[int32]map[int64]string) int {
	n := 0
	for _, values := range want {
		n += len(values)
	}
	return n
}

// covers counts the offsets that the ledger covers.
func (s *memoryStore) covers() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := int64(0)
	for _, rows := range s.ledger {
		for _, b := range rows {
			n += b.Last - b.First + 1
		}
	}
	return n
}
