package ingest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/segmentio/kafka-go/compress"

	"auditor/event"
)

var anySpace = space{math.MaxInt, math.MaxInt}

// testBatch is a record batch to be encoded.
type testBatch struct {
	base     int64
	attrs    uint16
	producer int64
	first    int64 // timestamp
	latest   int64 // timestamp
	body     []byte
	count    int32
	last     int32 // offset delta of the last record
}

func (b testBatch) encode() []byte {
	body := b.body
	if codec := compress.Compression(b.attrs & compressionBits).Codec(); codec != nil {
		var out bytes.Buffer
		w := codec.NewWriter(&out)
		_, _ = w.Write(body) // into memory
		_ = w.Close()
		body = out.Bytes()
	}
	out := make([]byte, batchHeader, batchHeader+len(body))
	binary.BigEndian.PutUint64(out, uint64(b.base))
	binary.BigEndian.PutUint32(out[batchLengthAt:], uint32(batchHeader-12+len(body)))
	out[batchMagicAt] = 2
	binary.BigEndian.PutUint16(out[batchAttrsAt:], b.attrs)
	binary.BigEndian.PutUint32(out[batchLastDeltaAt:], uint32(b.last))
	binary.BigEndian.PutUint64(out[batchFirstTimeAt:], uint64(b.first))
	binary.BigEndian.PutUint64(out[batchMaxTimeAt:], uint64(b.latest))
	binary.BigEndian.PutUint64(out[batchProducerAt:], uint64(b.producer))
	binary.BigEndian.PutUint32(out[batchCountAt:], uint32(b.count))
	out = append(out, body...)
	binary.BigEndian.PutUint32(out[batchCRCAt:], crc32.Checksum(out[batchAttrsAt:], castagnoli))
	return out
}

// framed frames a record.
func framed(timeDelta, offsetDelta int64, key, value string, headers ...string) []byte {
	in := []byte{0}
	in = binary.AppendVarint(in, timeDelta)
	in = binary.AppendVarint(in, offsetDelta)
	in = append(binary.AppendVarint(in, int64(len(key))), key...)
	in = append(binary.AppendVarint(in, int64(len(value))), value...)
	in = binary.AppendVarint(in, int64(len(headers)/2))
	for _, h := range headers {
		in = append(binary.AppendVarint(in, int64(len(h))), h...)
	}
	return append(binary.AppendVarint(nil, int64(len(in))), in...)
}

// plainBatch holds the values at consecutive offsets.
func plainBatch(base int64, values ...string) testBatch {
	b := testBatch{base: base, first: 1000, latest: 1000, producer: -1, count: int32(len(values)), last: int32(len(values) - 1)}
	for i, v := range values {
		b.body = append(b.body, framed(int64(i), int64(i), "", v)...)
	}
	return b
}

// marker ends a transaction: kind 0 rolls it back, 1 commits it.
func marker(base, producer int64, kind byte) testBatch {
	b := plainBatch(base)
	b.attrs, b.producer, b.count, b.last = transactional|control, producer, 1, 0
	b.body = framed(0, 0, string([]byte{0, 0, 0, kind}), "")
	return b
}

func (b testBatch) in(producer int64) testBatch {
	b.attrs, b.producer = b.attrs|transactional, producer
	return b
}

func join(batches ...testBatch) []byte {
	var all []byte
	for _, b := range batches {
		all = append(all, b.encode()...)
	}
	return all
}

// contents gives what a chunk holds, broken batches as "broken".
func contents(c chunk) map[int64]string {
	m := make(map[int64]string)
	for _, e := range c.entries {
		m[e.Offset] = string(e.Value)
		if e.broken != nil {
			m[e.Offset] = "broken"
		}
	}
	return m
}

func TestDecodeRecords(t *testing.T) {
	empty := plainBatch(4)
	empty.last = 5 // compaction leaves such batches
	garbage := plainBatch(2, "b", "c")
	garbage.body = []byte("not records")
	unknown := plainBatch(0, "a")
	unknown.attrs = 5
	short := plainBatch(0, "a", "b")
	short.count = 3
	backwards := plainBatch(0, "a", "b")
	backwards.body = append(framed(0, 1, "", "a"), framed(0, 0, "", "b")...)
	beyond := plainBatch(0, "a")
	beyond.body = framed(0, 7, "", "a")
	for _, test := range []struct {
		name       string
		data       []byte
		from       int64
		rolledBack []aborted
		want       map[int64]string
		next       int64
	}{
		{"nothing", nil, 7, nil, map[int64]string{}, 7},
		{"two batches", join(plainBatch(0, "a", "b"), plainBatch(2, "c")), 0, nil, map[int64]string{0: "a", 1: "b", 2: "c"}, 3},
		{"from the middle", join(plainBatch(0, "a", "b"), plainBatch(2, "c", "d")), 3, nil, map[int64]string{3: "d"}, 4},
		{"cut off", join(plainBatch(0, "a"), plainBatch(1, "b"))[:150], 0, nil, map[int64]string{0: "a", 1: "b"}, 2},
		{"cut off in a header", join(plainBatch(0, "a"), plainBatch(1, "b"))[:90], 0, nil, map[int64]string{0: "a"}, 1},
		{"a batch without records", join(empty), 4, nil, map[int64]string{}, 10},
		{"committed transaction", join(plainBatch(0, "a").in(9), marker(1, 9, 1)), 0, nil, map[int64]string{0: "a"}, 2},
		{"rolled back transaction", join(plainBatch(0, "a").in(9), plainBatch(1, "b"), marker(2, 9, 0), plainBatch(3, "c").in(9), marker(4, 9, 1)), 0,
			[]aborted{{9, 0}}, map[int64]string{1: "b", 3: "c"}, 5},
		{"two producers, one rolled back", join(plainBatch(0, "a").in(9), plainBatch(1, "b").in(8), marker(2, 9, 0), plainBatch(3, "c").in(8), marker(4, 8, 1)), 0,
			[]aborted{{9, 0}}, map[int64]string{1: "b", 3: "c"}, 5},
		{"rolled back twice", join(plainBatch(0, "a").in(9), marker(1, 9, 0), plainBatch(2, "b").in(9), marker(3, 9, 0)), 0,
			[]aborted{{9, 0}, {9, 2}}, map[int64]string{}, 4},
		{"begun before the fetch", join(plainBatch(5, "a").in(9), marker(6, 9, 0)), 5, []aborted{{9, 2}}, map[int64]string{}, 7},
		{"batches that overlap", join(plainBatch(0, "a", "b"), plainBatch(1, "b", "c"), plainBatch(0, "a")), 0, nil, map[int64]string{0: "a", 1: "b", 2: "c"}, 3},
		{"only a marker", join(marker(5, 9, 1)), 5, nil, map[int64]string{}, 6},
		{"records that are not framed", join(plainBatch(0, "a", "b"), garbage, plainBatch(4, "e")), 0, nil, map[int64]string{0: "a", 1: "b", 2: "broken", 4: "e"}, 5},
		{"the same, from its middle", join(garbage), 3, nil, map[int64]string{3: "broken"}, 4},
		{"unknown compression", join(unknown), 0, nil, map[int64]string{0: "broken"}, 1},
		{"fewer records than counted", join(short), 0, nil, map[int64]string{0: "broken"}, 2},
		{"offsets that go back", join(backwards), 0, nil, map[int64]string{0: "broken"}, 2},
		{"an offset beyond the batch", join(beyond), 0, nil, map[int64]string{0: "broken"}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := decodeRecords(topic, 0, test.from, test.data, test.rolledBack, anySpace)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, contents(c)); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			if c.next != test.next {
				t.Errorf("next is %d, want %d", c.next, test.next)
			}
		})
	}
}

func TestDecodeRecordsStops(t *testing.T) {
	damaged := join(plainBatch(0, "a"))
	damaged[len(damaged)-1] ^= 1
	old := join(plainBatch(0, "a"))
	old[batchMagicAt] = 1
	tiny := join(plainBatch(0, "a"))
	binary.BigEndian.PutUint32(tiny[batchLengthAt:], 3)
	for name, test := range map[string]struct {
		data []byte
		want Reason
	}{
		"checksum": {damaged, CorruptBatch}, "old format": {old, OldFormat}, "old format, short": {old[:20], OldFormat}, "size": {tiny, CorruptBatch},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decodeRecords(topic, 0, 0, test.data, nil, anySpace)
			var s *stopped
			if !errors.As(err, &s) || s.reason != test.want {
				t.Errorf("the error is %v, want the reason %s", err, test.want)
			}
			c, err := decodeRecords(topic, 0, 0, append(join(plainBatch(0, "b")), test.data...), nil, anySpace)
			if err != nil || c.next != 1 {
				t.Errorf("behind a good batch: next is %d, the error %v; want the good batch first", c.next, err)
			}
		})
	}
}

func TestBrokenBatchKeepsItsBytes(t *testing.T) {
	b := plainBatch(3, "a", "b")
	b.body = []byte("not records")
	data := b.encode()
	c, err := decodeRecords(topic, 2, 3, data, nil, anySpace)
	if err != nil || len(c.entries) != 1 {
		t.Fatalf("%d entries, error %v", len(c.entries), err)
	}
	want := &event.Reject{
		Position:  event.Position{Topic: topic, Partition: 2, Offset: 3},
		KafkaTime: time.UnixMilli(1000).UTC(),
		Reason:    event.ReasonBadBatch,
		Detail:    "offsets 3 to 4: " + errFraming.Error(),
		Raw:       data,
	}
	if diff := cmp.Diff(want, c.entries[0].broken); diff != "" {
		t.Errorf("reject (-want +got):\n%s", diff)
	}
	if c.entries[0].last != 4 {
		t.Errorf("it covers offsets up to %d, want 4", c.entries[0].last)
	}
}

func TestUnpackingIsBounded(t *testing.T) {
	for _, codec := range []uint16{1, 2, 3, 4} {
		b := plainBatch(0, "a")
		b.attrs = codec
		b.body = append(b.body, bytes.Repeat([]byte{0}, maxBatchBytes)...)
		c, err := decodeRecords(topic, 0, 0, b.encode(), nil, anySpace)
		if err != nil || len(c.entries) != 1 || c.entries[0].broken == nil {
			t.Fatalf("compression %d: %d entries, error %v; want one broken batch", codec, len(c.entries), err)
		}
		if detail := c.entries[0].broken.Detail; !strings.Contains(detail, "unpacks to more than") {
			t.Errorf("compression %d: the detail is %q", codec, detail)
		}
	}
}

func TestRecordFields(t *testing.T) {
	b := plainBatch(10)
	b.first, b.latest, b.count, b.last = 5000, 9000, 2, 1
	b.body = append(framed(7, 0, "key", "value", "a", "1", "a", "2"), framedNull(-6000, 1)...)
	records := func(attrs uint16) []event.Record {
		t.Helper()
		b.attrs = attrs
		c, err := decodeRecords(topic, 3, 10, b.encode(), nil, anySpace)
		if err != nil || len(c.entries) != 2 || c.entries[0].broken != nil {
			t.Fatalf("%d entries, error %v", len(c.entries), err)
		}
		first, _ := c.entries[0].record()
		second, _ := c.entries[1].record()
		return []event.Record{first, second}
	}
	position := func(offset int64) event.Position {
		return event.Position{Topic: topic, Partition: 3, Offset: offset}
	}
	want := []event.Record{
		{Position: position(10), Time: time.UnixMilli(5007).UTC(), Key: []byte("key"), Value: []byte("value"),
			Headers: []event.Header{{Key: "a", Value: []byte("1")}, {Key: "a", Value: []byte("2")}}},
		{Position: position(11), Time: minTime}, // before 1970, as without a timestamp
	}
	if diff := cmp.Diff(want, records(0)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	want[0].Time, want[1].Time = time.UnixMilli(9000).UTC(), time.UnixMilli(9000).UTC()
	if diff := cmp.Diff(want, records(logAppendTime)); diff != "" {
		t.Errorf("with the broker's time (-want +got):\n%s", diff)
	}
	b.latest = 1 << 60
	if got := records(logAppendTime)[0].Time; !got.Equal(maxTime) {
		t.Errorf("a time that the store cannot hold becomes %s, want %s", got, maxTime)
	}
}

// A batch of a few bytes may unpack to millions of headers of two bytes each, which take twenty times as much once they are read.
func TestHeadersAreReadOneRecordAtATime(t *testing.T) {
	const records = 4000
	none := make([]string, 2*maxHeaders)
	b := testBatch{attrs: uint16(compress.Zstd), producer: -1, count: records, last: records - 1}
	for i := range int64(records) {
		b.body = append(b.body, framed(0, i, "", "", none...)...)
	}
	data := b.encode()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c, err := decodeRecords(topic, 0, 0, data, nil, anySpace)
	runtime.ReadMemStats(&after)
	if err != nil || len(c.entries) != records {
		t.Fatalf("%d records: %v", len(c.entries), err)
	}
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(8*len(b.body)); got > most {
		t.Errorf("%d bytes of records take %d, want at most %d", len(b.body), got, most)
	}
	if r, n := c.entries[1].record(); n != maxHeaders || len(r.Headers) != maxHeaders {
		t.Errorf("%d of %d headers, want %d", len(r.Headers), n, maxHeaders)
	}
	if n := c.entries[0].size(); n < maxHeaders*costOfHeader {
		t.Errorf("a record with %d headers counts as %d bytes", maxHeaders, n)
	}
}

// framedNull frames a record without key and value.
func framedNull(timeDelta, offsetDelta int64) []byte {
	in := []byte{0}
	in = binary.AppendVarint(in, timeDelta)
	in = binary.AppendVarint(in, offsetDelta)
	in = binary.AppendVarint(in, -1)
	in = binary.AppendVarint(in, -1)
	in = binary.AppendVarint(in, 0)
	return append(binary.AppendVarint(nil, int64(len(in))), in...)
}

func FuzzDecodeRecords(f *testing.F) {
	for _, codec := range []uint16{0, 1, 2, 3, 4} {
		b := plainBatch(5, "a", "bb", "")
		b.attrs = codec
		f.Add(b.encode(), int64(5))
	}
	f.Add(join(plainBatch(0, "a").in(9), marker(1, 9, 0)), int64(0))
	f.Fuzz(func(t *testing.T, data []byte, from int64) {
		if from < 0 {
			return
		}
		if len(data) >= batchHeader { // a right checksum, so that what lies behind it is reached
			data = bytes.Clone(data)
			size := min(max(int(int32(binary.BigEndian.Uint32(data[batchLengthAt:])))+12, batchHeader), len(data))
			binary.BigEndian.PutUint32(data[batchCRCAt:], crc32.Checksum(data[batchAttrsAt:size], castagnoli))
		}
		c, err := decodeRecords(topic, 0, from, data, []aborted{{9, 0}}, anySpace)
		if err != nil {
			return
		}
		previous := from - 1
		for _, e := range c.entries {
			if e.Offset <= previous || e.last < e.Offset {
				t.Fatalf("offset %d to %d after %d", e.Offset, e.last, previous)
			}
			previous = e.last
		}
		if c.next <= previous && len(c.entries) > 0 || c.next < from {
			t.Fatalf("next is %d after %d", c.next, previous)
		}
	})
}

func FuzzParseFetch(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1}, int16(11))
	f.Add(append([]byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 1}, make([]byte, 60)...), int16(11))
	f.Fuzz(func(t *testing.T, body []byte, version int16) {
		r, err := parseFetch(body, version, 1)
		if (r == nil) == (err == nil) {
			t.Fatalf("answer %v, error %v", r, err)
		}
	})
}

func FuzzParseIntent(f *testing.F) {
	for _, s := range []string{"", "v1;last=9;rows=3", "v1;last=9;rows=3;until=50", "v2;x", "v2;last=9;rows=3;until=50;of=0-49", "v1;last=09;rows=3", "v1;rows=3;last=9", "v", "v1"} {
		f.Add(s, int64(4))
	}
	f.Fuzz(func(t *testing.T, metadata string, first int64) {
		in, err := parseIntent(metadata, first)
		if err != nil {
			if !reflect.DeepEqual(in, intent{}) {
				t.Fatalf("%q gives %+v with the error %v", metadata, in, err)
			}
			return
		}
		if in.String() != metadata {
			t.Fatalf("%q is read as %q", metadata, in)
		}
		if in.open && (in.last < first || in.records < 0) {
			t.Fatalf("%q gives the impossible %+v", metadata, in)
		}
	})
}

func TestParseIntent(t *testing.T) {
	for _, test := range []struct {
		metadata string
		want     intent
		err      error
	}{
		{"", intent{}, nil},
		{"v1;last=9;rows=3", intent{last: 9, records: 3, open: true}, nil},
		{"v1;last=9;rows=0", intent{last: 9, open: true}, nil},
		{"v1;last=9;rows=3;until=50", intent{last: 9, records: 3, until: 50, open: true}, nil},
		{"v1;last=9;rows=3;until=10", intent{}, errIntentForeign}, // String leaves it out
		{"v1;last=3;rows=3", intent{}, errIntentForeign},          // ends before it begins
		{"v1;last=9;rows=-3", intent{}, errIntentForeign},
		{"v1;last=+9;rows=3", intent{}, errIntentForeign},
		{"v1;last=9;rows=3;", intent{}, errIntentForeign},
		{"v1;last=9;rows=3;more=1", intent{}, errIntentForeign},
		{"v1;last=99999999999999999999;rows=3", intent{}, errIntentForeign},
		{"v1", intent{}, errIntentForeign},
		{"v2;last=9;rows=3;until=50;of=0-49;of=4-24",
			intent{last: 9, records: 3, until: 50, open: true, doubtful: []event.Range{{First: 0, Last: 49}, {First: 4, Last: 24}}}, nil},
		{"v2;last=9;rows=3;of=0-49", intent{last: 9, records: 3, open: true, doubtful: []event.Range{{First: 0, Last: 49}}}, nil},
		{"v1;last=9;rows=3;of=0-49", intent{}, errIntentForeign},
		{"v2;last=9;rows=3", intent{}, errIntentVersion},
		{"v2;last=9;rows=3;of=49-0", intent{}, errIntentVersion},
		{"v2;last=9;rows=3;of=-1-4", intent{}, errIntentVersion},
		{"v2;last=9;rows=3;of=1", intent{}, errIntentVersion},
		{"v3;last=9;rows=3", intent{}, errIntentVersion},
		{"v10", intent{}, errIntentVersion},
		{"vx;last=9", intent{}, errIntentForeign},
		{"checkpoint", intent{}, errIntentForeign},
	} {
		got, err := parseIntent(test.metadata, 4)
		if !reflect.DeepEqual(got, test.want) || !errors.Is(err, test.err) {
			t.Errorf("%q gives %+v and the error %v, want %+v and %v", test.metadata, got, err, test.want, test.err)
		}
	}
}
