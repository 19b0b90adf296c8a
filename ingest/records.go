package ingest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"time"

	"github.com/segmentio/kafka-go/compress"

	"auditor/event"
)

// What one batch may hold, so that a few bytes on the wire cannot fill the memory.
const (
	maxBatchBytes   = 64 << 20 // unpacked
	maxBatchRecords = 1 << 20
	maxHeaders      = 1 << 10 // of one record, which is a reject where it has more
)

// usualRatio is how many bytes events take that came as one, compressed.
const usualRatio = 4

// The layout of a record batch, format 2 (Kafka 0.11 and later).
const (
	batchLengthAt    = 8
	batchMagicAt     = 16
	batchCRCAt       = 17
	batchAttrsAt     = 21
	batchLastDeltaAt = 23
	batchFirstTimeAt = 27
	batchMaxTimeAt   = 35
	batchProducerAt  = 43
	batchCountAt     = 57
	batchHeader      = 61
)

// Bits of a batch's attributes.
const (
	compressionBits = 0x07
	logAppendTime   = 0x08
	transactional   = 0x10
	control         = 0x20
)

// Timestamps outside of what the store can keep are moved to the nearest that it can. ClickHouse reckons the end of a row's
// retention in seconds of 32 bits, which end in 2106: rows that are to be kept for longer it takes for old ones, and deletes. There
// have to be the 30 years that retention may be between the two.
var (
	minTime = time.Unix(0, 0).UTC()
	maxTime = time.Date(2075, 1, 1, 0, 0, 0, 0, time.UTC)
)

// aborted is a transaction that was rolled back: none of its records may be seen.
type aborted struct {
	producer int64
	first    int64 // its first offset in this partition
}

// entry is one record, or one batch that cannot be unpacked. A record's headers are read only when it is: two bytes may be one, which
// takes twenty times as much.
type entry struct {
	event.Position
	Time    time.Time
	Key     []byte
	Value   []byte
	headers []byte        // as they are framed, which is known to be right
	broken  *event.Reject // stands for all of the batch; nil for a record
	last    int64         // last offset that it covers: a record's own, a broken batch's last
}

// record gives the record, with as many of its headers as are read, and says how many it has.
func (e *entry) record() (event.Record, int) {
	r := reader{bytes: e.headers}
	n := int(r.varint())
	headers := make([]event.Header, min(n, maxHeaders))
	for i := range headers {
		headers[i] = event.Header{Key: string(r.field()), Value: r.field()}
	}
	if n == 0 {
		headers = nil
	}
	return event.Record{Position: e.Position, Time: e.Time, Key: e.Key, Value: e.Value, Headers: headers}, n
}

// chunk is what one fetch told of a partition.
type chunk struct {
	entries []entry // at or above the offset asked for, in order
	next    int64   // first offset of which it told nothing; every offset before it that has no entry here holds no record
	bytes   int     // of the records, unpacked
	packed  int     // of the response that they were in
}

// space is how much of a response to unpack. What it leaves is fetched again.
type space struct {
	enough int // bytes of records after which it is enough
	room   int // memory that the chunk may take. Where its first batch takes more, the error is errNoRoom
}

// decodeRecords reads the record batches of a fetch response that asked for offset from. Batches may begin before it, and
// the last may be cut off. A batch that fails its checksum, or that there is no room for, ends the chunk: with nothing before
// it, that is the error.
func decodeRecords(topic string, partition int32, from int64, data []byte, rolledBack []aborted, s space) (chunk, error) {
	c := chunk{next: from}
	gone := make(map[int64]bool) // producers inside a transaction that was rolled back
	for c.bytes < s.enough && (len(data) >= batchHeader || len(data) > batchMagicAt && data[batchMagicAt] < 2) {
		if magic := data[batchMagicAt]; magic != 2 {
			return c.unless(stop(OldFormat, "the records from offset %d on have format %d, and only 2 (Kafka 0.11 and later) is read", c.next, magic))
		}
		size := int64(int32(binary.BigEndian.Uint32(data[batchLengthAt:]))) + batchMagicAt - 4
		if size < batchHeader {
			return c.unless(stop(CorruptBatch, "the batch at offset %d has the impossible size %d", c.next, size))
		}
		if size > int64(len(data)) {
			break
		}
		b := batch{topic: topic, partition: partition, bytes: data[:size]}
		data = data[size:]
		if !b.sound() {
			return c.unless(stop(CorruptBatch, "the batch at offset %d does not match its checksum", b.base()))
		}
		if b.last() < c.next {
			continue
		}
		rolledBack = b.enter(gone, rolledBack)
		switch {
		case b.attrs()&control != 0:
			if b.aborts() {
				delete(gone, b.producer())
			}
		case b.attrs()&transactional != 0 && gone[b.producer()]:
		default:
			if !c.add(&b, s.room, len(data)) {
				return c.unless(errNoRoom)
			}
		}
		c.next = b.last() + 1
		c.packed += len(b.bytes)
	}
	return c, nil
}

// unless gives the chunk as far as it got, and the error only if that is nowhere.
func (c chunk) unless(err error) (chunk, error) {
	if len(c.entries) > 0 {
		return c, nil
	}
	return c, err
}

// mostAhead is for how many records of the batches behind a batch room is made at once, at most.
const mostAhead = 1 << 16

// add takes over b's records at or above the next offset, and reports whether there is room for them. If b can't be unpacked,
// a reject stands for all of it and keeps its bytes. So many bytes of the response lie behind b.
func (c *chunk) add(b *batch, room, behind int) bool {
	room -= costOfChunk(len(c.entries)+int(min(max(b.int32At(batchCountAt), 0), maxBatchRecords)), c.bytes)
	body, err := b.unpack(room, c.ratio())
	if errors.Is(err, errNoRoom) {
		return false
	}
	var all []entry
	if err == nil {
		all, err = b.records(c.entries, body, c.next, behind)
	}
	if err == nil {
		c.entries = all
		c.bytes += len(body)
		return true
	}
	c.bytes += len(b.bytes)
	at := event.Position{Topic: b.topic, Partition: b.partition, Offset: max(b.base(), c.next)}
	when := storable(b.int64At(batchMaxTimeAt))
	c.entries = append(c.entries, entry{
		Position: at,
		Time:     when,
		last:     b.last(),
		broken: &event.Reject{
			Position:  at,
			KafkaTime: when,
			Reason:    event.ReasonBadBatch,
			Detail:    fmt.Sprintf("offsets %d to %d: %v", b.base(), b.last(), err),
			Raw:       bytes.Clone(b.bytes),
		},
	})
	return true
}

// ratio is how many bytes a byte of the response became so far, and a guess before the first.
func (c *chunk) ratio() int {
	if c.packed == 0 {
		return usualRatio
	}
	return c.bytes/c.packed + 1
}

// batch is the bytes of one record batch.
type batch struct {
	topic     string
	partition int32
	bytes     []byte
}

func (b *batch) int64At(i int) int64 { return int64(binary.BigEndian.Uint64(b.bytes[i:])) }
func (b *batch) int32At(i int) int32 { return int32(binary.BigEndian.Uint32(b.bytes[i:])) }
func (b *batch) base() int64         { return b.int64At(0) }
func (b *batch) last() int64         { return b.base() + int64(b.int32At(batchLastDeltaAt)) }
func (b *batch) attrs() uint16       { return binary.BigEndian.Uint16(b.bytes[batchAttrsAt:]) }
func (b *batch) producer() int64     { return b.int64At(batchProducerAt) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sound reports whether the batch matches its checksum, which covers all that is read of it but its first offset.
func (b *batch) sound() bool {
	return crc32.Checksum(b.bytes[batchAttrsAt:], castagnoli) == uint32(b.int32At(batchCRCAt)) && b.int32At(batchLastDeltaAt) >= 0
}

// enter notes the rolled-back transactions that have begun by the end of b, and gives those that have not. They
// come in the order of their first offsets.
func (b *batch) enter(gone map[int64]bool, rolledBack []aborted) []aborted {
	for len(rolledBack) > 0 && rolledBack[0].first <= b.last() {
		gone[rolledBack[0].producer] = true
		rolledBack = rolledBack[1:]
	}
	return rolledBack
}

// aborts reports whether b, a control batch, says that its producer's transaction was rolled back.
func (b *batch) aborts() bool {
	body, err := b.unpack(maxBatchBytes, 1)
	if err != nil {
		return false
	}
	records, err := b.records(nil, body, b.base(), 0)
	return err == nil && len(records) > 0 && len(records[0].Key) >= 4 && binary.BigEndian.Uint16(records[0].Key[2:]) == 0
}

var errFraming = errors.New("the records in the batch are not framed as they should be")

// records appends the batch's records at or above from, out of what it was unpacked to. It gives all or an error. To grow the list
// little by little would copy it again and again, so that room is made for those behind the batch too.
func (b *batch) records(records []entry, body []byte, from int64, behind int) ([]entry, error) {
	count := int(b.int32At(batchCountAt))
	if count < 0 || count > min(len(body), maxBatchRecords) {
		return nil, errFraming
	}
	r := reader{bytes: body}
	if cap(records)-len(records) < count {
		records = slices.Grow(records, count+min(int(int64(count)*int64(behind)/int64(len(b.bytes))), mostAhead))
	}
	previous := int64(-1)
	for range count {
		e, delta := b.record(&r)
		if r.broken || delta <= previous || delta > int64(b.int32At(batchLastDeltaAt)) {
			return nil, errFraming
		}
		previous = delta
		if e.Offset >= from {
			records = append(records, e)
		}
	}
	if len(r.bytes) > 0 {
		return nil, errFraming
	}
	return records, nil
}

// unpack gives the batch's records as they are framed. They are thought to take ratio times the batch's bytes. Where they
// take more than there is room for, the error is errNoRoom.
func (b *batch) unpack(room, ratio int) ([]byte, error) {
	body := b.bytes[batchHeader:]
	if room < len(body) {
		return nil, errNoRoom
	}
	kind := compress.Compression(b.attrs() & compressionBits)
	if kind == compress.None {
		return body, nil
	}
	codec := kind.Codec()
	if codec == nil {
		return nil, fmt.Errorf("unknown compression %d", kind)
	}
	from := codec.NewReader(bytes.NewReader(body))
	defer from.Close()
	most := min(room, maxBatchBytes)
	var out bytes.Buffer
	out.Grow(min(ratio*len(body), most)) // to grow it little by little would copy it again and again
	n, err := io.Copy(&out, io.LimitReader(from, int64(most)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("unpack %s: %w", kind, err)
	case n > maxBatchBytes:
		return nil, fmt.Errorf("unpacks to more than %d bytes", maxBatchBytes)
	case n > int64(most):
		return nil, errNoRoom
	}
	return out.Bytes(), nil
}

// record reads one record, whose bytes stay part of r's.
func (b *batch) record(r *reader) (entry, int64) {
	length := r.varint()
	if length < 0 || length > int64(len(r.bytes)) {
		r.broken = true
		return entry{}, 0
	}
	in := reader{bytes: r.bytes[:length]}
	r.bytes = r.bytes[length:]
	in.take(1) // attributes, unused
	at := b.int64At(batchFirstTimeAt) + in.varint()
	if b.attrs()&logAppendTime != 0 {
		at = b.int64At(batchMaxTimeAt)
	}
	delta := in.varint()
	e := entry{
		Position: event.Position{Topic: b.topic, Partition: b.partition, Offset: b.base() + delta},
		Time:     storable(at),
		Key:      in.field(),
		Value:    in.field(),
		headers:  in.headers(),
		last:     b.base() + delta,
	}
	r.broken = r.broken || in.broken || len(in.bytes) > 0
	return e, delta
}

// storable turns Kafka's milliseconds since 1970, -1 where none were told, into a time that the store can hold.
func storable(ms int64) time.Time {
	t := time.UnixMilli(ms).UTC()
	switch {
	case t.Before(minTime):
		return minTime
	case t.After(maxTime):
		return maxTime
	}
	return t
}

// reader takes fields from the front of bytes. Once something does not fit it is broken and gives zeros.
type reader struct {
	bytes  []byte
	broken bool
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.bytes)
	if n <= 0 {
		r.broken, r.bytes = true, nil
		return 0
	}
	r.bytes = r.bytes[n:]
	return v
}

func (r *reader) take(n int64) []byte {
	if n < 0 || n > int64(len(r.bytes)) {
		r.broken, r.bytes = true, nil
		return nil
	}
	out := r.bytes[:n:n]
	r.bytes = r.bytes[n:]
	return out
}

// field reads a length and as many bytes; nil for the length -1.
func (r *reader) field() []byte {
	n := r.varint()
	if n == -1 {
		return nil
	}
	return r.take(n)
}

// headers steps over a record's headers and gives their bytes.
func (r *reader) headers() []byte {
	from := r.bytes
	n := r.varint()
	if n < 0 || n > int64(len(r.bytes)) {
		r.broken = true
	}
	for ; n > 0 && !r.broken; n-- {
		r.field()
		r.field()
	}
	return from[:len(from)-len(r.bytes)]
}
