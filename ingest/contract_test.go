package ingest

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"auditor/event"
)

// codecs are the ways in which records are compressed.
var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

// TestServersRecords reads records of all sorts, the largest of them larger than a batch of ingest's.
func TestServersRecords(t *testing.T) {
	onEach(t, 2, func(r *trial) {
		r.set("max.message.bytes", "16000000")
		long := strings.Repeat("a long value that is easy to pack; ", 30)
		for name, codec := range codecs {
			c := r.newClient(kgo.ProducerBatchCompression(codec))
			for n := range int32(20) {
				r.send(c,
					&kgo.Record{Partition: n % 2, Key: []byte("key-" + name), Value: []byte(name + long)},
					&kgo.Record{Partition: n % 2, Value: []byte{}, Headers: []kgo.RecordHeader{{Key: "traceparent", Value: []byte("00-1")}, {Key: "empty"}}},
					&kgo.Record{Partition: n % 2, Key: []byte{}, Value: []byte("v"), Timestamp: time.UnixMilli(1_700_000_000_000 + int64(n))},
					&kgo.Record{Partition: n % 2, Key: []byte("tombstone")})
			}
		}
		for _, size := range []int{1 << 20, 15 << 20} {
			r.send(r.newClient(kgo.ProducerBatchCompression(kgo.NoCompression())), &kgo.Record{Value: []byte(strings.Repeat("x", size))}, &kgo.Record{Value: []byte("after")})
		}
		d := &recorder{}
		p := r.run(r.wire(r.store, d))
		r.readAll()
		p.stop()
		d.check(r)
	})
}

// TestServersTransactions ends with a transaction that is open, and then ends that.
func TestServersTransactions(t *testing.T) {
	onEach(t, 1, func(r *trial) {
		shop := r.newClient(kgo.TransactionalID(r.topic))
		transact := func(commit kgo.TransactionEndTry, values ...string) {
			r.must(shop.BeginTransaction())
			for _, v := range values {
				r.send(shop, &kgo.Record{Value: []byte(v)})
			}
			r.must(shop.EndTransaction(r.bounded(), commit))
		}
		transact(kgo.TryCommit, "e", "x") // 0, 1, marker at 2
		transact(kgo.TryAbort, "x", "x")  // 3, 4, marker at 5
		r.produce(0, "e")                 // 6
		transact(kgo.TryAbort, "x")       // 7, marker at 8
		transact(kgo.TryCommit, "ee")     // 9, marker at 10: nothing but a marker at the end
		p := r.start()
		p.reaches(11)
		if lag := p.only().Lag; lag != 0 {
			r.Errorf("behind markers the lag is %d, want 0", lag)
		}
		r.must(shop.BeginTransaction())
		r.produce(0, "e")                             // 11
		r.send(shop, &kgo.Record{Value: []byte("e")}) // 12
		r.produce(0, "x")                             // 13, behind the open transaction
		p.reaches(12)
		eventually(r, "the lag shows what is held back", func() bool { return p.only().Lag == 2 })
		r.checkExact()
		r.must(shop.EndTransaction(r.bounded(), kgo.TryAbort)) // marker at 14
		p.reaches(15)
		eventually(r, "what holds no record is confirmed", func() bool {
			offset, metadata := r.committed(0)
			return offset == 15 && metadata == ""
		})
		p.stop()
		r.checkExact()
	})
}

// TestServersKilled kills the server three times while two processes read and a producer writes.
func TestServersKilled(t *testing.T) {
	onEach(t, 3, func(r *trial) {
		r.config.MaxRows = 50
		a, b := r.start(), r.start()
		var produced atomic.Int64
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			var err error
			for n := 0; ctx.Err() == nil && err == nil; n++ {
				records := make([]*kgo.Record, 10)
				for i := range records {
					records[i] = &kgo.Record{Partition: int32(n % 3), Value: []byte("ex")}
				}
				err = r.client.ProduceSync(context.Background(), records...).FirstErr()
				produced.Add(10)
				pause(ctx, 5*time.Millisecond)
			}
			done <- err
		}()
		for range 3 {
			from := produced.Load()
			eventually(r, "more is produced", func() bool { return produced.Load() >= from+300 })
			from = r.store.covers()
			eventually(r, "more is read", func() bool { return r.store.covers() >= from+100 })
			r.server.Kill()
			eventually(r, "they say that Kafka is away", func() bool { return a.Status().Trouble != "" && b.Status().Trouble != "" })
			r.must(r.server.Restart(context.Background()))
		}
		from := produced.Load()
		eventually(r, "more is produced", func() bool { return produced.Load() >= from+300 })
		stop()
		r.must(<-done)
		r.readAll()
		eventually(r, "the trouble is over", func() bool { return a.Status().Trouble == "" && b.Status().Trouble == "" })
		a.stop()
		b.stop()
		r.checkExact()
	})
}

// TestServersAwayAtTheStart begins before there is a server, and goes on as soon as there is one, whose coordinator is not yet
// ready then.
func TestServersAwayAtTheStart(t *testing.T) {
	onEach(t, 1, func(r *trial) {
		r.produce(0, "e", "x")
		r.server.Kill()
		p := r.start()
		eventually(r, "it says that Kafka is away", func() bool { return strings.HasPrefix(p.Status().Trouble, "kafka: not reachable") })
		r.must(r.server.Restart(context.Background()))
		p.reaches(2)
		eventually(r, "the trouble is over", func() bool { return p.Status().Trouble == "" })
		p.stop()
		r.checkExact()
	})
}

func TestServersGainPartitions(t *testing.T) {
	onEach(t, 1, func(r *trial) {
		a, b := r.start(), r.start()
		r.produce(0, "e")
		eventually(r, "the first is read", func() bool { return r.store.count() == 1 })
		_, err := r.admin.UpdatePartitions(r.bounded(), 4, r.topic)
		r.must(err)
		for partition := range int32(4) {
			r.send(r.newClient(), &kgo.Record{Partition: partition, Value: []byte("ex")})
		}
		eventually(r, "they share", func() bool { return len(a.Status().Partitions) == 2 && len(b.Status().Partitions) == 2 })
		r.readAll()
		a.stop()
		b.stop()
		r.checkExact()
	})
}

// TestServersDeleteWhatWasNotRead moves the first offset past what was read, once while nobody reads and once while one does.
func TestServersDeleteWhatWasNotRead(t *testing.T) {
	onEach(t, 1, func(r *trial) {
		r.produce(0, repeat("e", 10)...)
		p := r.start()
		p.reaches(10)
		p.stop()
		r.produce(0, repeat("x", 10)...) // 10 to 19, of which 15 to 19 are left
		r.deleteBefore(0, 15)

		inside, goOn := make(chan struct{}), make(chan struct{})
		var once sync.Once
		p = r.startInto(&hooked{Store: r.store, insert: func(ctx context.Context, b event.Batch) error {
			if b.Last == 19 {
				once.Do(func() { close(inside); <-goOn })
			}
			return r.store.InsertBatch(ctx, b)
		}})
		<-inside
		r.produce(0, repeat("e", 10)...) // 20 to 29, of which none is left
		r.deleteBefore(0, 30)
		close(goOn)
		r.produce(0, "x") // 30
		p.reaches(31)
		p.stop()
		checkExactIn(r, r.store, r.topic, map[int32]map[int64]string{0: merge(numbered(0, repeat("e", 10)...), numbered(15, repeat("x", 5)...), numbered(30, "x"))})
		checkLedgerOf(r, r.store, r.topic, 0, 31)
		r.checkLost(15)
	})
}

func (r *trial) checkLost(want int64) {
	r.Helper()
	var lost int64
	for _, b := range r.store.covered(place{r.topic, 0}) {
		lost += b.Lost
	}
	if lost != want {
		r.Errorf("the ledger says that %d offsets are lost, want %d", lost, want)
	}
}

// TestServersRetention lets the server's own retention delete what was not read.
func TestServersRetention(t *testing.T) {
	onApache(t, 1, map[string]string{"retention.ms": "-1"}, func(r *trial) {
		old := time.Now().Add(-2 * time.Hour)
		var records []*kgo.Record
		for range 10 {
			records = append(records, &kgo.Record{Value: []byte("e"), Timestamp: old})
		}
		r.send(r.client, records[:4]...)
		p := r.start()
		p.reaches(4)
		p.stop()
		r.send(r.client, records[4:]...)
		r.set("retention.ms", "3600000")
		eventually(r, "retention has deleted all", func() bool {
			starts, err := r.admin.ListStartOffsets(r.bounded(), r.topic)
			o, _ := starts.Lookup(r.topic, 0)
			return err == nil && o.Offset == 10
		})
		r.produce(0, "x")
		p = r.start()
		p.reaches(11)
		p.stop()
		checkExactIn(r, r.store, r.topic, map[int32]map[int64]string{0: merge(numbered(0, repeat("e", 4)...), numbered(10, "x"))})
		checkLedgerOf(r, r.store, r.topic, 0, 11)
		r.checkLost(6)
	})
}

func TestServersCompact(t *testing.T) {
	onEach(t, 1, func(r *trial) {
		r.set("cleanup.policy", "compact")
		r.send(r.client, &kgo.Record{Key: []byte("k"), Value: []byte("e")})
		p := r.start()
		eventually(r, "the topic is refused", func() bool { return p.only().Stopped == Compacted })
		if r.store.count() != 0 {
			r.Error("a compacted topic was read")
		}
		r.set("cleanup.policy", "delete")
		p.reaches(1)
		p.stop()
		r.checkExact()
	})
}

// TestServersRebalance has processes come, go and die without a word.
func TestServersRebalance(t *testing.T) {
	onEach(t, 6, func(r *trial) {
		r.config.MaxRows = 20
		for partition := range int32(6) {
			r.produce(partition, repeat("ex", 200)...)
		}
		a := r.start()
		eventually(r, "the first reads", func() bool { return r.store.count() > 100 })
		b := r.start()
		eventually(r, "they share", func() bool { return len(a.Status().Partitions) == 3 && len(b.Status().Partitions) == 3 })

		// A third dies with a batch under way that is stored and not confirmed.
		inside := make(chan struct{})
		var once sync.Once
		dead := r.startInto(&hooked{Store: r.store, insert: func(ctx context.Context, b event.Batch) error {
			_ = r.store.InsertBatch(ctx, b)
			once.Do(func() { close(inside) })
			return errInjected
		}})
		eventually(r, "the three share", func() bool { return len(dead.Status().Partitions) == 2 })
		for partition := range int32(6) {
			r.produce(partition, repeat("e", 200)...)
		}
		<-inside
		dead.kill()
		eventually(r, "the two have all again", func() bool { return len(a.Status().Partitions) == 3 && len(b.Status().Partitions) == 3 })
		a.stop()
		eventually(r, "the second has all", func() bool { return len(b.Status().Partitions) == 6 })
		r.readAll()
		b.stop()
		r.checkExact()
	})
}

// TestServersFence asks the coordinator to take commits of members that are none.
func TestServersFence(t *testing.T) {
	onEach(t, 1, func(r *trial) {
		r.produce(0, "e")
		p := r.start()
		p.reaches(1)
		group, err := r.admin.DescribeGroups(r.bounded(), r.config.Kafka.Group)
		r.must(err)
		members := group[r.config.Kafka.Group].Members
		if len(members) != 1 {
			r.Fatalf("the group has %d members", len(members))
		}
		id := p.Status().Generation
		for name, g := range map[string]generation{
			"an earlier generation": {id: id - 1, member: members[0].MemberID},
			"a later generation":    {id: id + 1, member: members[0].MemberID},
			"an unknown member":     {id: id, member: "somebody"},
			"nobody":                {id: -1, member: ""},
		} {
			if err := p.client.commit(r.bounded(), g, r.topic, 0, 0, ""); !fenced(err) {
				r.Errorf("%s: %v", name, err)
			}
		}
		if err := p.client.commit(r.bounded(), generation{id: id, member: members[0].MemberID}, r.topic, 0, 1, ""); err != nil {
			r.Errorf("the member itself: %v", err)
		}
		p.stop()
	})
}

func TestServersForgetTheGroup(t *testing.T) {
	onEach(t, 1, func(r *trial) {
		commit := func(at int64) func() {
			return func() {
				offsets := make(kadm.Offsets)
				offsets.Add(kadm.Offset{Topic: r.topic, At: at, LeaderEpoch: -1})
				r.must(r.admin.CommitAllOffsets(r.bounded(), r.config.Kafka.Group, offsets))
			}
		}
		r.config.MaxRows = 4
		for _, forget := range []func(){
			func() {},
			func() {
				_, err := r.admin.DeleteGroup(r.bounded(), r.config.Kafka.Group)
				r.must(err)
			},
			commit(0),
			commit(5),
		} {
			r.produce(0, repeat("ex", 10)...)
			forget()
			p := r.start()
			r.readAll()
			p.stop()
			r.checkExact()
		}
	})
}

// TestServersMakeATopicAnew deletes the topic and makes it again, while nobody reads and while one does.
func TestServersMakeATopicAnew(t *testing.T) {
	for _, test := range []struct {
		name    string
		records int
		want    Reason
	}{{"shorter", 3, Shorter}, {"longer", 20, Replaced}} {
		t.Run(test.name, func(t *testing.T) {
			onEach(t, 1, func(r *trial) {
				for _, reading := range []bool{false, true} {
					r.store = newMemoryStore()
					r.produce(0, repeat("e", 10)...)
					p := r.start()
					p.reaches(10)
					if !reading {
						p.stop()
					}
					waitForClock(time.Now())
					r.remove()
					r.create(r.topic, 1, nil)
					r.client = r.newClient()
					r.produce(0, repeat("x", test.records)...)
					if !reading {
						p = r.start()
					}
					// While the new topic is being filled it is shorter in any case.
					eventually(r, "the partition stands still for what it should", func() bool { return p.only().Stopped == test.want })
					p.stop()
					if got := r.store.count(); got != 10 {
						r.Errorf("the store has %d rows, and had 10 (reading: %t)", got, reading)
					}
					r.remove()
					r.create(r.topic, 1, nil)
					r.client = r.newClient()
					_, err := r.admin.DeleteGroup(r.bounded(), r.config.Kafka.Group)
					r.must(err)
				}
			})
		})
	}
}

// TestServersStampTheTime has the server stamp the records, whose producer's clock is years behind.
func TestServersStampTheTime(t *testing.T) {
	onApache(t, 1, map[string]string{"message.timestamp.type": "LogAppendTime"}, func(r *trial) {
		before := time.Now().Add(-time.Minute)
		for _, codec := range codecs {
			c := r.newClient(kgo.ProducerBatchCompression(codec))
			r.send(c, &kgo.Record{Value: []byte("e"), Timestamp: time.UnixMilli(1)}, &kgo.Record{Value: []byte("e"), Timestamp: time.UnixMilli(2)})
		}
		d := &recorder{}
		p := r.run(r.wire(r.store, d))
		p.reaches(10)
		p.stop()
		d.check(r)
		for at, rec := range d.seen {
			if rec.Time.Before(before) {
				r.Errorf("offset %d is of %s", at.Offset, rec.Time)
			}
		}
	})
}

// TestServersKeepThePlace has the server start again within a session: the member goes on where it was, and the group deals
// nothing anew.
func TestServersKeepThePlace(t *testing.T) {
	onApache(t, 2, nil, func(r *trial) {
		r.produce(0, "e", "x")
		wire := func() *Ingester {
			i := r.wire(r.store, letters{})
			i.config.SessionTimeout, i.config.RebalanceTimeout = 30*time.Second, 60*time.Second
			return i
		}
		a, b := r.run(wire()), r.run(wire())
		eventually(r, "they share", func() bool { return len(a.Status().Partitions) == 1 && len(b.Status().Partitions) == 1 })
		r.readAll()
		generation := a.Status().Generation
		r.server.Kill()
		eventually(r, "they say that Kafka is away", func() bool { return a.Status().Trouble != "" && b.Status().Trouble != "" })
		r.must(r.server.Restart(context.Background()))
		r.produce(0, "e")
		r.produce(1, "ex")
		r.readAll()
		for _, p := range []*process{a, b} {
			if s := p.Status(); s.Generation != generation || len(s.Partitions) != 1 {
				r.Errorf("generation %d with %d partitions, was %d with 1", s.Generation, len(s.Partitions), generation)
			}
		}
		a.stop()
		b.stop()
		r.checkExact()
	})
}
