package queries

import (
	"encoding/binary"
	"math"

	"auditor/event"
)

// encoder writes blocks in ClickHouse's Native format as it is without a revision of the protocol. It goes column by column
// over the events themselves: gathering each column first, and leaving it to the client, takes ten times as long.
//
// Only one column is in memory at a time.
//
// The format, one column after another: the numbers of columns and rows, then for each column its name, its type and its
// values. Numbers are little-endian, texts have their length before them.
type encoder struct {
	buf []byte

	// What the columns of words need one after another.
	index map[string]uint32
	words []string
	keys  []uint32
}

// piece writes a part of a block.
type piece func(*encoder)

// eventParts are a block of all columns of events.
func eventParts(events []event.Event) []piece {
	parts := []piece{sizes(len(eventColumns), len(events))}
	for _, c := range eventColumns {
		parts = append(parts, headed(c.name, c.kind, func(x *encoder) { c.encode(x, events) }))
	}
	return parts
}

// rejectParts are a block of all columns of rejects.
func rejectParts(rejects []event.Reject) []piece {
	parts := []piece{sizes(len(rejectColumns), len(rejects))}
	for _, c := range rejectColumns {
		parts = append(parts, headed(c.name, c.kind, func(x *encoder) { c.encode(x, rejects) }))
	}
	return parts
}

func sizes(columns, rows int) piece {
	return func(x *encoder) {
		x.buf = binary.AppendUvarint(x.buf, uint64(columns))
		x.buf = binary.AppendUvarint(x.buf, uint64(rows))
	}
}

func headed(name, kind string, values piece) piece {
	return func(x *encoder) {
		x.text(name)
		x.text(kind)
		values(x)
	}
}

func (x *encoder) text(s string) {
	x.buf = binary.AppendUvarint(x.buf, uint64(len(s)))
	x.buf = append(x.buf, s...)
}

func (x *encoder) int32(v int32)   { x.buf = binary.LittleEndian.AppendUint32(x.buf, uint32(v)) }
func (x *encoder) uint32(v uint32) { x.buf = binary.LittleEndian.AppendUint32(x.buf, v) }
func (x *encoder) int64(v int64)   { x.buf = binary.LittleEndian.AppendUint64(x.buf, uint64(v)) }
func (x *encoder) float64(v float64) {
	x.buf = binary.LittleEndian.AppendUint64(x.buf, math.Float64bits(v))
}

func (x *encoder) bool(v bool) {
	var b byte
	if v {
		b = 1
	}
	x.buf = append(x.buf, b)
}

// single makes the encoding of a column of which each value is written by itself.
func single[T any](get func(*event.Event) T, put func(*encoder, T)) func(*encoder, []event.Event) {
	return func(x *encoder, events []event.Event) {
		for i := range events {
			put(x, get(&events[i]))
		}
	}
}

// nullable makes that of a Nullable column: first which values there are none of, then all of them.
func nullable[T any](get func(*event.Event) *T, put func(*encoder, T)) func(*encoder, []event.Event) {
	return func(x *encoder, events []event.Event) {
		for i := range events {
			x.bool(get(&events[i]) == nil)
		}
		for i := range events {
			var v T
			if p := get(&events[i]); p != nil {
				v = *p
			}
			put(x, v)
		}
	}
}

// Of a LowCardinality column: the version of its serialization, and what says that a block brings its own dictionary.
const (
	dictionaryVersion = 1
	ownDictionary     = 1<<9 | 1<<10
)

// dictionary makes that of a LowCardinality(String) column: the different values, then which of them each row has.
func dictionary(get func(*event.Event) string) func(*encoder, []event.Event) {
	return func(x *encoder, events []event.Event) {
		if len(events) == 0 {
			return
		}
		x.learn(events, get)
		x.int64(dictionaryVersion)
		width := int64(0) // of a key, as a power of two bytes
		switch {
		case len(x.words) > math.MaxUint16+1:
			width = 2
		case len(x.words) > math.MaxUint8+1:
			width = 1
		}
		x.int64(ownDictionary | width)
		x.int64(int64(len(x.words)))
		for _, word := range x.words {
			x.text(word)
		}
		x.int64(int64(len(x.keys)))
		for _, key := range x.keys {
			switch width {
			case 0:
				x.buf = append(x.buf, byte(key))
			case 1:
				x.buf = binary.LittleEndian.AppendUint16(x.buf, uint16(key))
			default:
				x.uint32(key)
			}
		}
	}
}

// learn fills words and keys.
func (x *encoder) learn(events []event.Event, get func(*event.Event) string) {
	if x.index == nil {
		x.index = map[string]uint32{}
	}
	clear(x.index)
	clear(x.words)
	x.words, x.keys = x.words[:0], x.keys[:0]
	var last string
	var key uint32
	for i := range events {
		word := get(&events[i])
		if i == 0 || word != last { // many columns have one value in all rows
			known := false
			if key, known = x.index[word]; !known {
				key = uint32(len(x.words))
				x.index[word] = key
				x.words = append(x.words, word)
			}
			last = word
		}
		x.keys = append(x.keys, key)
	}
}

// reset forgets what was written, and keeps the memory.
func (x *encoder) reset() {
	x.buf = x.buf[:0]
	clear(x.index)
	clear(x.words)
	x.words = x.words[:0]
}
