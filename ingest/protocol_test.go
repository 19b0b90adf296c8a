package ingest

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"auditor/event"
)

// groupOffset gives what the group has committed for a partition.
func groupOffset(t testing.TB, admin *kgo.Client, partition int32) (int64, string) {
	t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	rt := kmsg.NewOffsetFetchRequestGroupTopic()
	rt.Topic, rt.Partitions = topic, []int32{partition}
	rg := kmsg.NewOffsetFetchRequestGroup()
	rg.Group, rg.Topics = group, append(rg.Topics, rt)
	req.Groups = append(req.Groups, rg)
	resp, err := req.RequestWith(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Groups) != 1 || len(resp.Groups[0].Topics) != 1 {
		return -1, ""
	}
	p := resp.Groups[0].Topics[0].Partitions[0]
	metadata := ""
	if p.Metadata != nil {
		metadata = *p.Metadata
	}
	return p.Offset, metadata
}

// setGroupOffset commits for the group from outside, which is allowed while it has no members.
func setGroupOffset(t testing.TB, c *kfake.Cluster, admin *kgo.Client, partition int32, offset int64, metadata string) {
	t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID = topic, c.TopicInfo(topic).TopicID
	rp := kmsg.NewOffsetCommitRequestTopicPartition()
	rp.Partition, rp.Offset, rp.Metadata = partition, offset, &metadata
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := req.RequestWith(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode); err != nil {
		t.Fatal(err)
	}
}

func deleteGroup(t testing.TB, admin *kgo.Client) {
	t.Helper()
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{group}
	resp, err := req.RequestWith(t.Context(), admin)
	if err != nil {
		t.Fatal(err)
	}
	if err := kerr.ErrorForCode(resp.Groups[0].ErrorCode); err != nil {
		t.Fatal(err)
	}
}

// kill ends the process as SIGKILL does: it says nothing more to anybody.
func (p *process) kill() {
	p.client.close()
	p.stop()
}

// repeat gives n copies of v.
func repeat(v string, n int) []string { return slices.Repeat([]string{v}, n) }

// numbered gives the values by offset, from first on.
func numbered(first int64, values ...string) map[int64]string {
	m := make(map[int64]string)
	for i, v := range values {
		m[first+int64(i)] = v
	}
	return m
}

func TestIntentComesBeforeRowsAndIsConfirmedWhenIdle(t *testing.T) {
	c := newCluster(t, 1)
	producer := newProducer(t, c)
	produce(t, producer, 0, repeat("e", 10)...)
	s := newMemoryStore()
	var seen []string
	h := &hooked{Store: s, insert: func(ctx context.Context, b event.Batch) error {
		offset, metadata := groupOffset(t, producer, 0)
		if offset != b.First {
			t.Errorf("rows %d-%d are inserted while offset %d is committed", b.First, b.Last, offset)
		}
		seen = append(seen, metadata)
		return s.InsertBatch(ctx, b)
	}}
	cfg := testConfig(c)
	cfg.MaxRows = 4
	p := start(t, cfg, h)
	p.reaches(10)
	eventually(t, "the last batch is confirmed", func() bool {
		offset, metadata := groupOffset(t, producer, 0)
		return offset == 10 && metadata == ""
	})
	p.stop()
	want := []string{"v1;last=3;rows=4", "v1;last=7;rows=4", "v1;last=9;rows=2"}
	if !slices.Equal(seen, want) {
		t.Errorf("intents %q, want %q", seen, want)
	}
}

func TestRefusedGenerationInsertsNothing(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.RebalanceInProgress} {
		t.Run(code.Message, func(t *testing.T) {
			c := newCluster(t, 1)
			produce(t, newProducer(t, c), 0, repeat("e", 5)...)
			refused := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: code, Count: 2})
			s := newMemoryStore()
			h := &hooked{Store: s, insert: func(ctx context.Context, b event.Batch) error {
				if refused.Hits() < 2 {
					t.Error("rows were inserted although the intent was refused")
				}
				return s.InsertBatch(ctx, b)
			}}
			p := start(t, testConfig(c), h)
			p.reaches(5)
			p.stop()
			checkExact(t, s, map[int32]map[int64]string{0: numbered(0, repeat("e", 5)...)})
		})
	}
}

// TestStaleIntentIsCommittedAgain has the group go on without the member between two attempts to insert, as while a process is
// paused: the second is not made.
func TestStaleIntentIsCommittedAgain(t *testing.T) {
	c := newCluster(t, 1)
	produce(t, newProducer(t, c), 0, repeat("e", 5)...)
	s := newMemoryStore()
	var refused *kfake.FaultHandle
	h := &hooked{Store: s, insert: func(ctx context.Context, b event.Batch) error {
		if refused == nil {
			refused = c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.IllegalGeneration})
			return errInjected
		}
		if refused.Hits() == 0 {
			t.Error("rows were sent again although the group was not asked")
		}
		return s.InsertBatch(ctx, b)
	}}
	i, err := New(testConfig(c), h, letters{}, testLogger(t), newRegistry())
	if err != nil {
		t.Fatal(err)
	}
	i.pace.owned = 0
	p := run(t, i)
	p.reaches(5)
	p.stop()
	checkExact(t, s, map[int32]map[int64]string{0: numbered(0, repeat("e", 5)...)})
}

func TestCommitThatFailsIsRetried(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.RequestTimedOut, kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress} {
		t.Run(code.Message, func(t *testing.T) {
			c := newCluster(t, 1)
			produce(t, newProducer(t, c), 0, repeat("e", 5)...)
			c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: code, Count: 2})
			s := newMemoryStore()
			p := start(t, testConfig(c), s)
			p.reaches(5)
			p.stop()
			checkExact(t, s, map[int32]map[int64]string{0: numbered(0, repeat("e", 5)...)})
			checkLedger(t, s, 0, 5)
		})
	}
}

func TestUnknownOutcomeIsSentAgainUnchanged(t *testing.T) {
	c := newCluster(t, 1)
	producer := newProducer(t, c)
	produce(t, producer, 0, "e", "ex")
	s := newMemoryStore()
	var sent []event.Batch
	h := &hooked{Store: s, insert: func(ctx context.Context, b event.Batch) error {
		sent = append(sent, b)
		switch len(sent) {
		case 1: // never arrives
			return errInjected
		case 2: // arrives, and the answer is lost
			_ = s.InsertBatch(ctx, b)
			return context.DeadlineExceeded
		}
		return s.InsertBatch(ctx, b)
	}}
	p := start(t, testConfig(c), h)
	p.reaches(2)
	p.stop()
	if len(sent) != 3 {
		t.Fatalf("sent %d times, want 3", len(sent))
	}
	for _, b := range sent[1:] {
		if b.First != sent[0].First || b.Last != sent[0].Last || len(b.Events) != len(sent[0].Events) || len(b.Rejects) != len(sent[0].Rejects) {
			t.Errorf("sent %+v again as %+v", sent[0], b)
		}
	}
	checkExact(t, s, map[int32]map[int64]string{0: {0: "e", 1: "ex"}})
}

func TestPermanentErrorStopsThePartitionAlone(t *testing.T) {
	c := newCluster(t, 2)
	producer := newProducer(t, c)
	produce(t, producer, 0, "e")
	produce(t, producer, 1, "e")
	s := newMemoryStore()
	var healed atomic.Bool
	h := &hooked{Store: s, insert: func(ctx context.Context, b event.Batch) error {
		if b.Partition == 0 && !healed.Load() {
			return errors.Join(errors.New("insert"), lastingError{errors.New("no such table")})
		}
		return s.InsertBatch(ctx, b)
	}}
	i, err := New(testConfig(c), h, letters{}, testLogger(t), newRegistry())
	if err != nil {
		t.Fatal(err)
	}
	i.pace.stopped = 10 * time.Millisecond
	p := run(t, i)
	eventually(t, "one stopped, one read", func() bool {
		st := p.Status()
		return len(st.Partitions) == 2 && st.Partitions[0].Stopped == StoreRefuses && st.Partitions[1].Next == 1
	})
	if detail := p.Status().Partitions[0].Detail; !strings.Contains(detail, "no such table") {
		t.Errorf("the detail is %q", detail)
	}
	healed.Store(true)
	eventually(t, "the partition goes on", func() bool {
		st := p.Status().Partitions[0]
		return st.Next == 1 && st.Stopped == ""
	})
	p.stop()
	checkExact(t, s, map[int32]map[int64]string{0: {0: "e"}, 1: {0: "e"}})
}

// TestStandingStillTakesNoMemory has a partition that stands still give back what it had fetched: a few of them would otherwise
// hold all of the memory, and with it the others up.
func TestStandingStillTakesNoMemory(t *testing.T) {
	c := newCluster(t, 1)
	produce(t, newProducer(t, c), 0, "e")
	s := newMemoryStore()
	h := &hooked{Store: s, insert: func(context.Context, event.Batch) error { return lastingError{errors.New("no such table")} }}
	p := start(t, testConfig(c), h)
	eventually(t, "the partition stands still", func() bool { return p.only().Stopped == StoreRefuses })
	if taken, _ := p.budget.state(); taken != 0 {
		t.Errorf("it holds %d bytes of the budget", taken)
	}
}

func TestStoreAwayIsOneLine(t *testing.T) {
	c := newCluster(t, 3)
	producer := newProducer(t, c)
	for partition := range int32(3) {
		produce(t, producer, partition, "e")
	}
	s := newMemoryStore()
	var tries atomic.Int32
	away := func() error {
		if tries.Add(1) <= 9 {
			return errInjected
		}
		return nil
	}
	h := &hooked{Store: s, newest: func(context.Context) error { return away() }}
	log, lines := recordingLogger()
	p := startWith(t, testConfig(c), h, letters{}, log)
	eventually(t, "all is read", func() bool { return s.count() == 3 })
	p.stop()
	if got := lines("ingest waits and retries"); got != 1 {
		t.Errorf("%d lines say that the store is away, want 1", got)
	}
	if got := lines("ingest goes on"); got != 1 {
		t.Errorf("%d lines say that it is back, want 1", got)
	}
}

// recordingLogger counts the lines with a message.
func recordingLogger() (*slog.Logger, func(message string) int) {
	var mu sync.Mutex
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(b)
	}), nil))
	return log, func(message string) int {
		mu.Lock()
		defer mu.Unlock()
		return strings.Count(out.String(), `msg="`+message+`"`)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestKafkaAwayAtStartAndLostLater(t *testing.T) {
	dir := t.TempDir()
	first := newCluster(t, 1, kfake.DataDir(dir))
	port := portOf(t, first)
	cfg := testConfig(first)
	first.Close()

	s := newMemoryStore()
	log, lines := recordingLogger()
	p := startWith(t, cfg, s, letters{}, log)
	eventually(t, "it says that Kafka is away", func() bool { return strings.HasPrefix(p.Status().Trouble, "kafka: not reachable") })

	second := newCluster(t, 1, kfake.DataDir(dir), kfake.Ports(port))
	produce(t, newProducer(t, second), 0, "e", "e")
	p.reaches(2)
	second.Close()
	eventually(t, "it says that Kafka is lost", func() bool { return p.Status().Trouble != "" })

	third := newCluster(t, 1, kfake.DataDir(dir), kfake.Ports(port))
	produce(t, newProducer(t, third), 0, "e")
	p.reaches(3)
	eventually(t, "the trouble is over", func() bool { return p.Status().Trouble == "" })
	p.stop()
	checkExact(t, s, map[int32]map[int64]string{0: numbered(0, "e", "e", "e")})
	checkLedger(t, s, 0, 3)
	if got := lines("ingest goes on"); got < 1 || got > 3 {
		t.Errorf("%d lines say that Kafka is back", got)
	}
	if got := lines("ingest waits and retries"); got < 2 || got > 6 {
		t.Errorf("%d lines say that Kafka is away, in 2 outages", got)
	}
}

func TestTopicThatIsNotThereYet(t *testing.T) {
	c := newCluster(t, 1)
	cfg := testConfig(c)
	cfg.Kafka.Topics = []string{topic, "later"}
	s := newMemoryStore()
	p := start(t, cfg, s)
	eventually(t, "it names the topic", func() bool { return strings.Contains(p.Status().Trouble, "no such topic: later") })
	if err := c.CreateTopic("later", 1, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it reads both", func() bool { return len(p.Status().Partitions) == 2 })
}

func TestNewPartitionsAreNoticed(t *testing.T) {
	c := newCluster(t, 1)
	s := newMemoryStore()
	i, err := New(testConfig(c), s, letters{}, testLogger(t), newRegistry())
	if err != nil {
		t.Fatal(err)
	}
	i.pace.topics = 20 * time.Millisecond
	p := run(t, i)
	p.reaches(0)
	producer := newProducer(t, c)
	req := kmsg.NewPtrCreatePartitionsRequest()
	rt := kmsg.NewCreatePartitionsRequestTopic()
	rt.Topic, rt.Count = topic, 2
	req.Topics = append(req.Topics, rt)
	if _, err := req.RequestWith(t.Context(), producer); err != nil {
		t.Fatal(err)
	}
	produce(t, newProducer(t, c), 1, "e")
	eventually(t, "the new partition is read", func() bool { return s.count() == 1 })
}

// TestLostHeartbeat checks that after one heartbeat without an answer there is time for another, however short the session is.
func TestLostHeartbeat(t *testing.T) {
	for _, session := range []time.Duration{6 * time.Second, 10 * time.Second, 30 * time.Second, 30 * time.Minute} {
		m := newMembership(&Ingester{client: &client{}, config: Config{SessionTimeout: session}, pace: defaultPace})
		if m.beatEvery+m.beatLimit+m.beatEvery > session || m.beatEvery <= 0 || m.beatLimit <= 0 {
			t.Errorf("a session of %s: a heartbeat every %s that waits %s", session, m.beatEvery, m.beatLimit)
		}
	}
}

// TestPartitionsThatWereNotDealt has the leader deal while the brokers tell of no topic, as one may that has only just started,
// and read the topic once they tell of it again.
func TestPartitionsThatWereNotDealt(t *testing.T) {
	c := newCluster(t, 1)
	i, err := New(testConfig(c), newMemoryStore(), letters{}, testLogger(t), newRegistry())
	if err != nil {
		t.Fatal(err)
	}
	i.pace.heartbeat, i.pace.topics = 20*time.Millisecond, 20*time.Millisecond
	p := run(t, i)
	p.reaches(0)
	hidden := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Err: kerr.UnknownTopicOrPartition, Count: -1})
	eventually(t, "the topic is out of sight", func() bool {
		counts, err := i.client.partitions(t.Context())
		return err == nil && len(counts) == 0
	})
	leave(t, c, i.config.Kafka.ClientID)
	eventually(t, "nothing is dealt", func() bool { s := p.Status(); return s.Assigned && len(s.Partitions) == 0 })
	hidden.Remove()
	p.reaches(0)
}

// TestDealThatTheCoordinatorRefuses has the coordinator answer with errors while the partitions are dealt: the group is joined
// again, and what hinders that is called by its name.
func TestDealThatTheCoordinatorRefuses(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.RebalanceInProgress, kerr.IllegalGeneration, kerr.NotCoordinator} {
		t.Run(code.Message, func(t *testing.T) {
			c := newCluster(t, 1)
			refused := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.SyncGroup}, Err: code, Count: -1})
			p := start(t, testConfig(c), newMemoryStore())
			if code == kerr.RebalanceInProgress {
				if err := refused.Wait(t.Context(), 2); err != nil {
					t.Fatal(err)
				}
				if s := p.Status().Trouble; s != "" {
					t.Errorf("a deal that another one follows is trouble: %s", s)
				}
			} else {
				want := "kafka: " + kafka.Error(code.Code).Title()
				eventually(t, want, func() bool { return p.Status().Trouble == want })
			}
			refused.Remove()
			p.reaches(0)
		})
	}
}

func TestTransactions(t *testing.T) {
	c := newCluster(t, 1)
	producer := newProducer(t, c, kgo.TransactionalID("shop"))
	plain := newProducer(t, c)
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
	produce(t, plain, 0, "e")         // 6
	transact(kgo.TryAbort, "x")       // 7, marker at 8
	transact(kgo.TryCommit, "ee")     // 9, marker at 10: nothing but a marker at the end
	s := newMemoryStore()
	p := start(t, testConfig(c), s)
	p.reaches(11)
	if lag := p.only().Lag; lag != 0 {
		t.Errorf("behind markers the lag is %d, want 0", lag)
	}

	// What an open transaction holds back is not read, and does not keep what is readable.
	if err := producer.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	produce(t, plain, 0, "e")    // 11
	produce(t, producer, 0, "e") // 12
	produce(t, plain, 0, "x")    // 13, behind the open transaction
	p.reaches(12)
	eventually(t, "the lag shows what is held back", func() bool { return p.only().Lag == 2 })
	if err := producer.EndTransaction(t.Context(), kgo.TryCommit); err != nil { // marker at 14
		t.Fatal(err)
	}
	p.reaches(15)
	p.stop()
	checkExact(t, s, map[int32]map[int64]string{0: {0: "e", 1: "x", 6: "e", 9: "ee", 11: "e", 12: "e", 13: "x"}})
	checkLedger(t, s, 0, 15)
}

// TestRestartInTheMiddleOfABatch has the broker send records below the offset asked for.
func TestRestartInTheMiddleOfABatch(t *testing.T) {
	for name, codec := range map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 1)
			values := repeat(strings.Repeat("e", 50), 10)
			produce(t, newProducer(t, c, kgo.ProducerBatchCompression(codec)), 0, values...)
			s := newMemoryStore()
			var p *process
			var once sync.Once
			blocked := make(chan struct{})
			h := &hooked{Store: s, insert: func(ctx context.Context, b event.Batch) error {
				if b.First > 0 {
					once.Do(func() { close(blocked) })
					return errInjected
				}
				return s.InsertBatch(ctx, b)
			}}
			cfg := testConfig(c)
			cfg.MaxRows = 150 // three records
			p = start(t, cfg, h)
			<-blocked
			p.kill()
			leave(t, c, "auditor")
			p = start(t, testConfig(c), s)
			p.reaches(10)
			p.stop()
			checkExact(t, s, map[int32]map[int64]string{0: numbered(0, values...)})
			checkLedger(t, s, 0, 10)
		})
	}
}

func TestTwoProcessesShareAndHandOver(t *testing.T) {
	const partitions, perPartition = 6, 200
	c := newCluster(t, partitions)
	producer := newProducer(t, c)
	want := make(map[int32]map[int64]string)
	for partition := range int32(partitions) {
		values := repeat("ex", perPartition)
		produce(t, producer, partition, values...)
		want[partition] = numbered(0, values...)
	}
	s := newMemoryStore()
	cfg := testConfig(c)
	cfg.MaxRows = 20
	a := start(t, cfg, s)
	eventually(t, "the first reads", func() bool { return s.count() > 100 })
	b := start(t, cfg, s)
	eventually(t, "they share", func() bool { return len(a.Status().Partitions) == 3 && len(b.Status().Partitions) == 3 })
	a.stop()
	eventually(t, "the second has all", func() bool { return len(b.Status().Partitions) == partitions })
	eventually(t, "all is read", func() bool { return s.count() == 2*partitions*perPartition })
	b.stop()
	checkExact(t, s, want)
	for partition := range int32(partitions) {
		checkLedger(t, s, partition, perPartition)
	}
}

func TestEndIsBounded(t *testing.T) {
	c := newCluster(t, 1)
	producer := newProducer(t, c)
	produce(t, producer, 0, "e")
	s := newMemoryStore()
	inside := make(chan struct{})
	h := &hooked{Store: s, insert: func(ctx context.Context, b event.Batch) error {
		close(inside)
		<-ctx.Done() // as a server that does not answer
		return ctx.Err()
	}}
	cfg := testConfig(c)
	cfg.InsertTimeout = time.Second
	p := start(t, cfg, h)
	<-inside
	p.stop()
	if offset, metadata := groupOffset(t, producer, 0); offset != 0 || metadata != "v1;last=0;rows=1" {
		t.Errorf("left behind offset %d with %q: the intent must stay open while its outcome is unknown", offset, metadata)
	}
	p = start(t, testConfig(c), s)
	p.reaches(1)
	p.stop()
	checkExact(t, s, map[int32]map[int64]string{0: {0: "e"}})
}

// TestInsertIsLetEnd stops while an insert is under way that succeeds a little later: it is confirmed.
func TestInsertIsLetEnd(t *testing.T) {
	c := newCluster(t, 1)
	producer := newProducer(t, c)
	produce(t, producer, 0, "e")
	s := newMemoryStore()
	inside, goOn := make(chan struct{}), make(chan struct{})
	h := &hooked{Store: s, insert: func(ctx context.Context, b event.Batch) error {
		close(inside)
		<-goOn
		return s.InsertBatch(ctx, b)
	}}
	p := start(t, testConfig(c), h)
	<-inside
	p.cancel()
	close(goOn)
	p.stop()
	if offset, metadata := groupOffset(t, producer, 0); offset != 1 || metadata != "" {
		t.Errorf("left behind offset %d with %q, want 1 confirmed", offset, metadata)
	}
}
