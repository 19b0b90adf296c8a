package ingest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"auditor/event"
)

// trial is one test of the contract on one server, with a topic and a group of its own.
type trial struct {
	*testing.T
	server server
	topic  string
	config Config
	client *kgo.Client // produces to the topic; the partition is each record's own
	admin  *kadm.Client
	store  *memoryStore
}

var unnameable = regexp.MustCompile(`[^A-Za-z0-9]+`)

// onEach runs f on every kind of server, with a topic of so many partitions.
func onEach(t *testing.T, partitions int32, f func(*trial)) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			s := serverOf(t, kind.name)
			follow(t)
			f(newTrial(t, s, partitions, nil))
		})
	}
}

// onApache runs f on Apache Kafka.
func onApache(t *testing.T, partitions int32, configs map[string]string, f func(*trial)) {
	f(newTrial(t, apache(t), partitions, configs))
}

func newTrial(t *testing.T, s server, partitions int32, configs map[string]string) *trial {
	t.Helper()
	name := unnameable.ReplaceAllString(t.Name(), "-")
	cfg := DefaultConfig()
	cfg.Kafka.Brokers, cfg.Kafka.Topics, cfg.Kafka.Group = []string{s.Addr()}, []string{name}, name
	cfg.MaxWait = 5 * time.Millisecond
	r := &trial{T: t, server: s, topic: name, config: cfg, store: newMemoryStore()}
	r.client = r.newClient()
	r.admin = kadm.NewClient(r.client)
	r.create(name, partitions, configs)
	return r
}

// newClient gives a client that produces to the trial's topic.
func (r *trial) newClient(opts ...kgo.Opt) *kgo.Client {
	r.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(r.server.Addr()),
		kgo.DefaultProduceTopic(r.topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(64 << 20),
		kgo.BrokerMaxWriteBytes(128 << 20),
		kgo.MetadataMinAge(50 * time.Millisecond),
	}, opts...)...)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(c.Close)
	return c
}

// bounded gives a context that ends before the test run does.
func (r *trial) bounded() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r.Cleanup(cancel)
	return ctx
}

func (r *trial) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *trial) create(topic string, partitions int32, configs map[string]string) {
	r.Helper()
	values := make(map[string]*string)
	for key, value := range configs {
		values[key] = &value
	}
	_, err := r.admin.CreateTopic(r.bounded(), partitions, 1, values, topic)
	r.must(err)
}

// remove deletes the topic, and waits until it is gone.
func (r *trial) remove() {
	r.Helper()
	_, err := r.admin.DeleteTopic(r.bounded(), r.topic)
	r.must(err)
	eventually(r, "the topic is gone", func() bool {
		topics, err := r.admin.ListTopics(r.bounded())
		return err == nil && !topics.Has(r.topic)
	})
}

// set changes a config of the topic.
func (r *trial) set(key, value string) {
	r.Helper()
	responses, err := r.admin.AlterTopicConfigs(r.bounded(), []kadm.AlterConfig{{Name: key, Value: &value}}, r.topic)
	r.must(err)
	_, err = responses.On(r.topic, nil)
	r.must(err)
	for _, response := range responses {
		r.must(response.Err)
	}
}

// deleteBefore moves the partition's first offset, as retention does.
func (r *trial) deleteBefore(partition int32, offset int64) {
	r.Helper()
	offsets := make(kadm.Offsets)
	offsets.Add(kadm.Offset{Topic: r.topic, Partition: partition, At: offset})
	responses, err := r.admin.DeleteRecords(r.bounded(), offsets)
	r.must(err)
	r.must(responses.Error())
}

// produce sends one record with each value to the partition.
func (r *trial) produce(partition int32, values ...string) {
	r.Helper()
	records := make([]*kgo.Record, len(values))
	for i, v := range values {
		records[i] = &kgo.Record{Partition: partition, Value: []byte(v)}
	}
	r.send(r.client, records...)
}

func (r *trial) send(c *kgo.Client, records ...*kgo.Record) {
	r.Helper()
	r.must(c.ProduceSync(r.bounded(), records...).FirstErr())
}

// start runs an ingest process.
func (r *trial) start() *process { return r.startInto(r.store) }

func (r *trial) startInto(s Store) *process {
	r.Helper()
	return r.run(r.wire(s, letters{}))
}

// wire makes an ingest process that is quick to notice what changes.
func (r *trial) wire(s Store, d Decoder) *Ingester {
	r.Helper()
	i, err := New(r.config, s, d, testLogger(r), newRegistry())
	r.must(err)
	i.config.SessionTimeout, i.config.RebalanceTimeout = r.session(), 10*time.Second
	i.pace = pace{
		heartbeat: 100 * time.Millisecond, joinBackoff: 50 * time.Millisecond, topics: 50 * time.Millisecond, missing: 50 * time.Millisecond,
		firstRetry: 20 * time.Millisecond, lastRetry: 500 * time.Millisecond, stopped: 100 * time.Millisecond,
	}
	return i
}

// session is about the shortest session time-out that the server takes.
func (r *trial) session() time.Duration {
	if _, embedded := r.server.(*embeddedServer); embedded {
		return 6 * time.Second
	}
	return 1500 * time.Millisecond
}

func (r *trial) run(i *Ingester) *process { return run(r, i) }

// committed gives what the group has committed for a partition.
func (r *trial) committed(partition int32) (int64, string) {
	r.Helper()
	offsets, err := r.admin.FetchOffsets(r.bounded(), r.config.Kafka.Group)
	r.must(err)
	o, ok := offsets.Lookup(r.topic, partition)
	if !ok {
		return -1, ""
	}
	return o.At, o.Metadata
}

// records reads all of the topic that a client that does not read what was rolled back may see, with a client of another make,
// and gives for each partition where what is readable ends.
func (r *trial) records() (all map[int32]map[int64]*kgo.Record, ends map[int32]int64) {
	r.Helper()
	ctx := r.bounded()
	stable, err := r.admin.ListCommittedOffsets(ctx, r.topic)
	r.must(err)
	starts, err := r.admin.ListStartOffsets(ctx, r.topic)
	r.must(err)
	all, ends = make(map[int32]map[int64]*kgo.Record), make(map[int32]int64)
	left := make(map[int32]bool)
	stable.Each(func(o kadm.ListedOffset) {
		r.must(o.Err)
		ends[o.Partition] = o.Offset
		all[o.Partition] = make(map[int64]*kgo.Record)
		if s, _ := starts.Lookup(r.topic, o.Partition); s.Offset < o.Offset {
			left[o.Partition] = true
		}
	})
	consumer := r.newClient(kgo.ConsumeTopics(r.topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	defer consumer.Close()
	for len(left) > 0 {
		fetches := consumer.PollFetches(ctx)
		r.must(fetches.Err0())
		fetches.EachRecord(func(rec *kgo.Record) {
			if rec.Offset >= ends[rec.Partition]-1 {
				delete(left, rec.Partition)
			}
			if rec.Offset < ends[rec.Partition] && !rec.Attrs.IsControl() {
				all[rec.Partition][rec.Offset] = rec
			}
		})
	}
	return all, ends
}

// checkExact compares the store and its ledger with what a client of another make reads.
func (r *trial) checkExact() {
	r.Helper()
	all, ends := r.records()
	values := make(map[int32]map[int64]string)
	for partition, records := range all {
		values[partition] = make(map[int64]string)
		for offset, rec := range records {
			values[partition][offset] = string(rec.Value)
		}
	}
	checkExactIn(r, r.store, r.topic, values)
	for _, partition := range slices.Sorted(maps.Keys(ends)) {
		checkLedgerOf(r, r.store, r.topic, partition, ends[partition])
	}
}

// readAll waits until the store covers what is readable in every partition.
func (r *trial) readAll() {
	r.Helper()
	stable, err := r.admin.ListCommittedOffsets(r.bounded(), r.topic)
	r.must(err)
	var want int64
	stable.Each(func(o kadm.ListedOffset) { want += o.Offset })
	eventually(r, "all is read", func() bool { return r.store.covers() >= want })
}

// recorder makes every record one event, and keeps it.
type recorder struct {
	mu   sync.Mutex
	seen map[event.Position]event.Record
}

func (d *recorder) Decode(r event.Record) ([]event.Event, []event.Reject) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen == nil {
		d.seen = make(map[event.Position]event.Record)
	}
	r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
	d.seen[r.Position] = r
	return []event.Event{{Position: r.Position, KafkaTime: r.Time}}, nil
}

// check compares what was decoded with what a client of another make reads, to the byte.
func (d *recorder) check(r *trial) {
	r.Helper()
	all, _ := r.records()
	count := 0
	for partition, records := range all {
		for offset, want := range records {
			count++
			got, ok := d.seen[event.Position{Topic: r.topic, Partition: partition, Offset: offset}]
			switch {
			case !ok:
				r.Errorf("offset %d of partition %d was not read", offset, partition)
			case !bytes.Equal(got.Key, want.Key), !bytes.Equal(got.Value, want.Value), (got.Value == nil) != (want.Value == nil),
				!got.Time.Equal(want.Timestamp), fmt.Sprint(got.Headers) != fmt.Sprint(want.Headers):
				r.Errorf("offset %d of partition %d: read was %.80q, %d bytes of %.40q, %v, %v; want %.80q, %d bytes of %.40q, %v, %v", offset, partition,
					got.Key, len(got.Value), got.Value, got.Time, got.Headers, want.Key, len(want.Value), want.Value, want.Timestamp, want.Headers)
			}
		}
	}
	if len(d.seen) != count {
		r.Errorf("%d records were read, and there are %d", len(d.seen), count)
	}
}
