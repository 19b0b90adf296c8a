package ingest

import (
	"bytes"
	"context"
	"encoding/binary"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/compress"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"auditor/event"
)

// beats counts the heartbeats that a broker gets: how a test sees that time has passed for the process that it tests.
func beats(c *kfake.Cluster) *atomic.Int64 { return requests(c, kmsg.Heartbeat) }

// requests counts the requests of one kind.
func requests(c *kfake.Cluster, key kmsg.Key) *atomic.Int64 {
	var n atomic.Int64
	c.ControlKey(key.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		n.Add(1)
		return nil, nil, false
	})
	return &n
}

// TestBlockedStorePausesFetching has a store that does not answer: what was fetched stays within the budget, nothing more is
// asked of the broker, and once the store is back all of it is stored.
func TestBlockedStorePausesFetching(t *testing.T) {
	const partitions, perPartition = 8, 40
	c := newCluster(t, partitions)
	producer := newProducer(t, c, kgo.ProducerBatchCompression(kgo.NoCompression()))
	want := make(map[int32]map[int64]string)
	value := "e" + strings.Repeat(" ", 100_000) // an event and as many rejects would be too many
	for partition := range int32(partitions) {
		for range perPartition {
			produce(t, producer, partition, value)
		}
		want[partition] = numbered(0, repeat(value, perPartition)...)
	}
	fetches, heartbeats := requests(c, kmsg.Fetch), beats(c)
	s := newMemoryStore()
	release, inside := make(chan struct{}), make(chan struct{}, 1000)
	h := &hooked{Store: s, insert: func(ctx context.Context, b event.Batch) error {
		inside <- struct{}{}
		<-release
		return s.InsertBatch(ctx, b)
	}}
	cfg := testConfig(c)
	cfg.MaxBytes = 1 << 20
	cfg.Memory = 2 * costOfFetch * cfg.MaxBytes
	p := startWith(t, cfg, h, spaced{}, testLogger(t))
	for range 3 {
		<-inside
	}
	waits := func() bool { _, waiting := p.budget.state(); return waiting > 0 }
	eventually(t, "the others wait for memory", waits)
	pass := func(n int64) { // lets time pass
		before := heartbeats.Load()
		eventually(t, "heartbeats", func() bool { return heartbeats.Load() >= before+n })
	}
	pass(2)
	before := fetches.Load()
	pass(5)
	if n := fetches.Load() - before; n != 0 {
		t.Errorf("%d fetches while the store does not answer", n)
	}
	if taken, _ := p.budget.state(); taken > cfg.Memory {
		t.Errorf("%d bytes are taken of a budget of %d", taken, cfg.Memory)
	}
	if taken, waiting := p.budget.state(); taken == 0 || waiting == 0 {
		t.Errorf("%d bytes are taken and %d partitions wait: this proves nothing", taken, waiting)
	}
	close(release)
	eventually(t, "all is stored", func() bool { return s.covers() == partitions*perPartition })
	p.stop()
	if taken, waiting := p.budget.state(); taken != 0 || waiting != 0 {
		t.Errorf("in the end %d bytes are taken and %d partitions wait", taken, waiting)
	}
	for partition := range int32(partitions) {
		checkLedger(t, s, partition, perPartition)
	}
	if len(s.events) != partitions*perPartition || len(s.rejects) != 0 {
		t.Errorf("%d events and %d rejects", len(s.events), len(s.rejects))
	}
}

// spaced is letters without the space around them.
type spaced struct{ letters }

func (s spaced) Decode(r event.Record) ([]event.Event, []event.Reject) {
	r.Value = bytes.TrimSpace(r.Value)
	return s.letters.Decode(r)
}

// TestAbsentStoreIsAskedSeldom has a store that fails at once: nothing is fetched meanwhile, and the pauses between attempts
// grow.
func TestAbsentStoreIsAskedSeldom(t *testing.T) {
	const partitions = 16
	c := newCluster(t, partitions)
	producer := newProducer(t, c)
	for partition := range int32(partitions) {
		produce(t, producer, partition, "e", "e")
	}
	fetches, heartbeats := requests(c, kmsg.Fetch), beats(c)
	s := newMemoryStore()
	var tries, back atomic.Int64
	h := &hooked{Store: s, insert: func(ctx context.Context, b event.Batch) error {
		if back.Load() == 0 {
			tries.Add(1)
			return errInjected
		}
		return s.InsertBatch(ctx, b)
	}}
	log, lines := recordingLogger()
	p := startWith(t, testConfig(c), h, letters{}, log)
	eventually(t, "each partition tries", func() bool { return tries.Load() >= 3*partitions })
	fetched := fetches.Load()
	beat := heartbeats.Load()
	eventually(t, "heartbeats", func() bool { return heartbeats.Load() >= beat+5 })
	if n := fetches.Load() - fetched; n != 0 {
		t.Errorf("%d fetches while the store fails", n)
	}
	back.Store(1)
	eventually(t, "all is stored", func() bool { return s.count() == 2*partitions })
	p.stop()
	for message, want := range map[string]int{"ingest waits and retries": 1, "ingest goes on": 1} {
		if got := lines(message); got != want {
			t.Errorf("%d lines say %q, want %d", got, message, want)
		}
	}
}

// TestBatchLargerThanItsPart reads batches that unpack to many times what is set aside for a fetch, beside partitions of the
// usual kind.
func TestBatchLargerThanItsPart(t *testing.T) {
	const partitions, records = 4, 60
	c := newCluster(t, partitions)
	want := make(map[int32]map[int64]string)
	for partition := range int32(partitions) {
		value := "ex"
		if partition%2 == 1 {
			value = "e" + strings.Repeat(" ", 200_000)
		}
		producer := newProducer(t, c, kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerBatchMaxBytes(40<<20), kgo.ProducerLinger(20*time.Millisecond))
		produce(t, producer, partition, repeat(value, records)...)
		want[partition] = numbered(0, repeat(strings.TrimSpace(value), records)...)
	}
	s := newMemoryStore()
	cfg := testConfig(c)
	cfg.MaxBytes = 64 << 10
	cfg.Memory = 2 * costOfFetch * cfg.MaxBytes
	p := startWith(t, cfg, s, spaced{}, testLogger(t))
	eventually(t, "all is stored", func() bool { return s.covers() == partitions*records })
	p.stop()
	checkExact(t, s, want)
	if taken, waiting := p.budget.state(); taken != 0 || waiting != 0 {
		t.Errorf("in the end %d bytes are taken and %d partitions wait", taken, waiting)
	}
}

// TestBatchesFillTheirPart has half of the budget taken: what is read at a time is one batch, which takes most of a part, and no
// large batch with a small rest.
func TestBatchesFillTheirPart(t *testing.T) {
	const records = 8000
	c := newCluster(t, 1)
	producer := newProducer(t, c, kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(16<<10), kgo.MaxBufferedRecords(records))
	produce(t, producer, 0, repeat("e"+strings.Repeat(" ", 300), records)...)
	s := newMemoryStore()
	cfg := testConfig(c)
	cfg.MaxBytes, cfg.MaxRows, cfg.Memory = 1<<20, records, 8<<20
	i, err := New(cfg, s, spaced{}, testLogger(t), newRegistry())
	if err != nil {
		t.Fatal(err)
	}
	if err := i.budget.take(t.Context(), cfg.Memory/2); err != nil {
		t.Fatal(err)
	}
	p := run(t, i)
	eventually(t, "all is stored", func() bool { return s.covers() == records })
	p.stop()
	part := i.budget.part(cfg.MaxBytes)
	for _, b := range s.covered(place{topic, 0}) {
		took := costOfChunk(b.Records, 301*b.Records) + i.budget.costOfBatch(b.Records, 301*b.Records)
		if took > part || took < part*3/4 && b.Last < records-1 {
			t.Errorf("offsets %d to %d took %d bytes of a part of %d", b.First, b.Last, took, part)
		}
	}
}

// A fetch that only asks whether there is something keeps nothing of what comes, and leaves the connection as it should be.
func TestPollLeavesRecordsUnread(t *testing.T) {
	head := []byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	head = binary.BigEndian.AppendUint64(head, 70)
	head = binary.BigEndian.AppendUint64(head, 60)
	head = binary.BigEndian.AppendUint64(head, 50)
	for _, size := range []int{0, 100, 10 << 20} {
		body := append(bytes.Clone(head), make([]byte, size)...)
		rw := &exchange{in: bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))}
		request := &fetchRequest{version: 11}
		m, err := request.RawExchange(rw)
		if err != nil {
			t.Fatalf("%d bytes of records: %v", size, err)
		}
		r := m.(*fetchResponse)
		if r.end != 70 || r.stable != 60 || r.logStart != 50 || r.records != nil {
			t.Errorf("%d bytes of records: %+v", size, r)
		}
		if rw.in.Len() != 0 {
			t.Errorf("%d of %d bytes are left in the connection", rw.in.Len(), size)
		}
	}
}

// exchange is a connection that answers whatever is asked.
type exchange struct {
	in *bytes.Reader
	bytes.Buffer
}

func (e *exchange) Read(p []byte) (int, error) { return e.in.Read(p) }

func TestChunkStaysWithinItsSpace(t *testing.T) {
	text := strings.Repeat("x", 1000)
	data := join(plainBatch(0, text, text), plainBatch(2, text, text), plainBatch(4, text, text))
	size := len(plainBatch(0, text, text).encode()) // uncompressed
	one := size - batchHeader + 2*costOfRecord
	for _, test := range []struct {
		name   string
		space  space
		next   int64
		noRoom bool
	}{
		{"all", anySpace, 6, false},
		{"enough after the first", space{1, 1 << 20}, 2, false},
		{"enough after the second", space{size, 1 << 20}, 4, false},
		{"room for one", space{1 << 20, 2*one - 1}, 2, false},
		{"room for two", space{1 << 20, 2 * one}, 4, false},
		{"no room", space{1 << 20, one - 1}, 0, true},
	} {
		c, err := decodeRecords(topic, 0, 0, data, nil, test.space)
		if (err == errNoRoom) != test.noRoom || c.next != test.next || len(c.entries) != int(test.next) {
			t.Errorf("%s: %d records, next is %d, error %v", test.name, len(c.entries), c.next, err)
		}
		if want := int(test.next) / 2 * size; c.packed != want {
			t.Errorf("%s: %d bytes were read, want %d", test.name, c.packed, want)
		}
	}
}

// A batch that unpacks to more than there is room for is found out without unpacking all of it.
func TestUnpackingStopsWhereTheRoomEnds(t *testing.T) {
	b := plainBatch(0, strings.Repeat("x", 1<<20))
	b.attrs = uint16(compress.Zstd)
	for _, test := range []struct {
		room int
		want error
	}{{1 << 16, errNoRoom}, {2 << 20, nil}} {
		_, err := decodeRecords(topic, 0, 0, b.encode(), nil, space{1, test.room})
		if err != test.want {
			t.Errorf("with room for %d bytes the error is %v, want %v", test.room, err, test.want)
		}
	}
}
