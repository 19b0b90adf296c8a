package ingest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"auditor/embedded/clickhouse/chtest"
	"auditor/event"
)

const (
	topic    = "task-events"
	group    = "auditor"
	patience = 60 * time.Second
)

func TestMain(m *testing.M) {
	if child := os.Getenv(childEnv); child != "" {
		os.Exit(runChild(child))
	}
	if child := os.Getenv(brokerEnv); child != "" {
		os.Exit(runBroker(child))
	}
	goleak.VerifyTestMain(withEngine{m})
}

// withEngine runs the tests, and stops the engine and the brokers that they may have started.
type withEngine struct{ *testing.M }

func (w withEngine) Run() int {
	code := chtest.Run(w.M)
	if err := stopServers(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// newCluster starts a broker in memory with one topic.
func newCluster(t testing.TB, partitions int32, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func newProducer(t testing.TB, c *kfake.Cluster, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	p, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(c.ListenAddrs()...),
		kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// produce sends one record with each value to the partition.
func produce(t testing.TB, p *kgo.Client, partition int32, values ...string) {
	t.Helper()
	records := make([]*kgo.Record, len(values))
	for i, v := range values {
		records[i] = &kgo.Record{Partition: partition, Value: []byte(v)}
	}
	if err := p.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func testConfig(c *kfake.Cluster) Config {
	cfg := DefaultConfig()
	cfg.Kafka.Brokers = c.ListenAddrs()
	cfg.MaxWait = 5 * time.Millisecond
	return cfg
}

func testLogger(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// process is an Ingester that runs.
type process struct {
	*Ingester
	t      testing.TB
	cancel context.CancelFunc
	done   chan error
}

func start(t testing.TB, cfg Config, s Store) *process {
	t.Helper()
	return startWith(t, cfg, s, letters{}, testLogger(t))
}

func startWith(t testing.TB, cfg Config, s Store, d Decoder, log *slog.Logger) *process {
	t.Helper()
	i, err := New(cfg, s, d, log, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	i.pace.heartbeat, i.pace.joinBackoff, i.pace.missing = 100*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	return run(t, i)
}

// run starts an Ingester that New made.
func run(t testing.TB, i *Ingester) *process {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{i, t, cancel, make(chan error, 1)}
	go func() { p.done <- i.Run(ctx) }()
	t.Cleanup(func() { p.stop() })
	return p
}

// stop ends the process as SIGTERM does.
func (p *process) stop() {
	p.t.Helper()
	p.cancel()
	if p.done == nil {
		return
	}
	if err := within(patience, p.done); err != nil {
		p.t.Errorf("Run: %v", err)
	}
	p.done = nil
}

func within(d time.Duration, done chan error) error {
	select {
	case err := <-done:
		return err
	case <-time.After(d):
		return fmt.Errorf("not ended within %s", d)
	}
}

// eventually waits until ok holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// only gives the status of the partition, where there is but one.
func (p *process) only() PartitionStatus {
	if s := p.Status(); len(s.Partitions) == 1 {
		return s.Partitions[0]
	}
	return PartitionStatus{Next: -1}
}

// reaches waits until the partition, the only one, has been read up to offset.
func (p *process) reaches(offset int64) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("read up to offset %d", offset), func() bool { return p.only().Next == offset })
}

// leave makes the coordinator forget the members of a client that died, as the session time-out would after a while.
func leave(t testing.TB, c *kfake.Cluster, clientID string) {
	t.Helper()
	info := c.GroupInfo(group)
	if info == nil {
		return
	}
	admin := newProducer(t, c)
	defer admin.Close()
	for _, m := range info.Members {
		if clientOf(m.MemberID) != clientID {
			continue
		}
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group = group
		member := kmsg.NewLeaveGroupRequestMember()
		member.MemberID = m.MemberID
		req.Members = append(req.Members, member)
		if _, err := req.RequestWith(context.Background(), admin); err != nil {
			t.Fatal(err)
		}
	}
}

// clientOf gives the client id that the broker made a member id from.
func clientOf(member string) string {
	return member[:max(strings.LastIndexByte(member, '-'), 0)]
}

// checkExact compares the store with what was produced: values by partition, in the order of their offsets.
func checkExact(t testing.TB, s *memoryStore, want map[int32]map[int64]string) {
	t.Helper()
	checkExactIn(t, s, topic, want)
}

func checkExactIn(t testing.TB, s *memoryStore, topic string, want map[int32]map[int64]string) {
	t.Helper()
	events, rejects := 0, 0
	for partition, values := range want {
		for offset, value := range values {
			first := int32(0)
			if strings.Contains(value, "q") && s.refusing {
				// All of the record is one reject, unless what refused it let its rows through.
				if !s.leaky || s.rejects[event.Position{Topic: topic, Partition: partition, Offset: offset, Index: event.WholeRecord}] > 0 {
					value, first = "x", event.WholeRecord
				}
			}
			for i, c := range value {
				at := event.Position{Topic: topic, Partition: partition, Offset: offset, Index: first + int32(i)}
				table, other := s.events, s.rejects
				if c != 'e' && c != 'q' {
					table, other = other, table
					rejects++
				} else {
					events++
				}
				if table[at] != 1 || other[at] != 0 {
					t.Errorf("row %v of %q is stored %d times, and %d times in the other table", at, value, table[at], other[at])
				}
			}
		}
	}
	if len(s.events) != events || len(s.rejects) != rejects {
		t.Errorf("stored are %d distinct events and %d rejects, produced were %d and %d", len(s.events), len(s.rejects), events, rejects)
	}
}

// checkLedger checks that the ledger covers the partition up to end, without a hole or an overlap, and that its counts are
// those of the rows.
func checkLedger(t testing.TB, s *memoryStore, partition int32, end int64) {
	t.Helper()
	checkLedgerOf(t, s, topic, partition, end)
}

func checkLedgerOf(t testing.TB, s *memoryStore, topic string, partition int32, end int64) {
	t.Helper()
	next := int64(0)
	for _, b := range s.covered(place{topic, partition}) {
		if b.First != next {
			t.Errorf("partition %d: the ledger goes from offset %d to %d-%d", partition, next, b.First, b.Last)
		}
		next = b.Last + 1
		stored, err := s.Present(t.Context(), topic, partition, b.First, b.Last)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(b.Events) + b.StoredEvents; got != len(stored.Events) {
			t.Errorf("partition %d: the ledger counts %d events for %d-%d, there are %d", partition, got, b.First, b.Last, len(stored.Events))
		}
		if got := len(b.Rejects) + b.StoredRejects; got != len(stored.Rejects) {
			t.Errorf("partition %d: the ledger counts %d rejects for %d-%d, there are %d", partition, got, b.First, b.Last, len(stored.Rejects))
		}
	}
	if next != end {
		t.Errorf("partition %d: the ledger ends at offset %d, the partition at %d", partition, next, end)
	}
}

func newRegistry() prometheus.Registerer { return prometheus.NewRegistry() }

func portOf(t testing.TB, c *kfake.Cluster) int {
	t.Helper()
	_, port, err := net.SplitHostPort(c.ListenAddrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
