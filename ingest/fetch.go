package ingest

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// maxResponse bounds a fetch response. A broker answers with one whole batch even where that is more than it was asked for.
const maxResponse = 256 << 20

// headSize is more than all that an answer has before its first list of transactions or records.
const headSize = 512

// minFetchVersion is the first that knows of transactions (Kafka 0.11).
const minFetchVersion = 4

const readCommitted = 1

// fetchRequest asks for the records of one partition. The library's own decoding is passed over: it drops where a batch
// ends, loses records without an error when a batch is damaged, and unpacks without a bound.
type fetchRequest struct {
	fetch.Request
	clientID string
	version  int16
	room     int // how large an answer may be; 0: its records are left unread
}

// errNoRoom says that what the broker has there takes more memory than was set aside for it.
var errNoRoom = errors.New("a batch of records takes more room than there is")

// fetchResponse is the answer, its records as the broker sent them.
type fetchResponse struct {
	end        int64 // high watermark
	stable     int64 // last stable offset: before it no transaction is open, and beyond it nothing is readable
	logStart   int64 // -1 when the broker is too old to tell
	rolledBack []aborted
	records    []byte
}

// ApiKey makes fetchResponse a protocol.Message.
func (*fetchResponse) ApiKey() protocol.ApiKey { return protocol.Fetch }

// Required tells the connection that the request does its own reading, and which version the connection speaks.
func (r *fetchRequest) Required(versions map[protocol.ApiKey]int16) bool {
	r.version = versions[protocol.Fetch]
	return true
}

// RawExchange writes the request and reads the answer.
func (r *fetchRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if r.version < minFetchVersion {
		return nil, errors.New("fetch: the broker is older than Kafka 0.11")
	}
	const correlation = 1 // a connection carries one request at a time
	if err := protocol.WriteRequest(rw, r.version, correlation, r.clientID, &r.Request); err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	var size [4]byte
	if _, err := io.ReadFull(rw, size[:]); err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	n := int64(binary.BigEndian.Uint32(size[:]))
	keep := n
	switch {
	case n > maxResponse:
		return nil, fmt.Errorf("fetch: an answer of %d bytes is too large", n)
	case r.room == 0:
		keep = min(n, headSize)
	case n > int64(r.room):
		return nil, errNoRoom
	}
	body := make([]byte, keep)
	if _, err := io.ReadFull(rw, body); err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	if r.room == 0 {
		if _, err := io.CopyN(io.Discard, rw, n-keep); err != nil {
			return nil, fmt.Errorf("fetch: %w", err)
		}
		return parseHead(&wire{bytes: body}, r.version, correlation)
	}
	return parseFetch(body, r.version, correlation)
}

var errFetchFraming = errors.New("fetch: the answer is not framed as it should be")

// parseHead reads the answer to a fetch of one partition up to its lists.
func parseHead(w *wire, version int16, correlation int32) (*fetchResponse, error) {
	if w.int32() != correlation {
		return nil, errFetchFraming
	}
	w.int32() // throttle time
	if version >= 7 {
		if code := w.int16(); code != 0 {
			return nil, fmt.Errorf("fetch: %w", kafka.Error(code))
		}
		w.int32() // session
	}
	if w.int32() != 1 { // topics
		return nil, errFetchFraming
	}
	w.take(int(w.int16())) // topic
	if w.int32() != 1 {    // partitions
		return nil, errFetchFraming
	}
	w.int32() // partition
	code := w.int16()
	r := &fetchResponse{end: w.int64(), stable: w.int64(), logStart: -1}
	if version >= 5 {
		r.logStart = w.int64()
	}
	switch {
	case w.short:
		return nil, errFetchFraming
	case code != 0:
		return nil, fmt.Errorf("fetch: %w", kafka.Error(code))
	}
	return r, nil
}

// parseFetch reads all of the answer to a fetch of one partition.
func parseFetch(body []byte, version int16, correlation int32) (*fetchResponse, error) {
	w := wire{bytes: body}
	r, err := parseHead(&w, version, correlation)
	if err != nil {
		return nil, err
	}
	n := w.int32()
	if int64(n)*16 > int64(len(w.bytes)) {
		return nil, errFetchFraming
	}
	for range n {
		r.rolledBack = append(r.rolledBack, aborted{producer: w.int64(), first: w.int64()})
	}
	if version >= 11 {
		w.int32() // preferred replica
	}
	if size := w.int32(); size > 0 {
		r.records = w.take(int(size))
	}
	if w.short {
		return nil, errFetchFraming
	}
	slices.SortFunc(r.rolledBack, func(a, b aborted) int { return cmp.Compare(a.first, b.first) })
	return r, nil
}

// wire reads big-endian fields from the front of bytes. Once there are too few it is short and gives zeros.
type wire struct {
	bytes []byte
	short bool
}

func (w *wire) take(n int) []byte {
	if n < 0 || n > len(w.bytes) {
		w.short, w.bytes = true, nil
		return nil
	}
	out := w.bytes[:n:n]
	w.bytes = w.bytes[n:]
	return out
}

func (w *wire) uint(n int) uint64 {
	b := w.take(n)
	if b == nil {
		return 0
	}
	var wide [8]byte
	copy(wide[8-n:], b)
	return binary.BigEndian.Uint64(wide[:])
}

func (w *wire) int16() int16 { return int16(w.uint(2)) }
func (w *wire) int32() int32 { return int32(w.uint(4)) }
func (w *wire) int64() int64 { return int64(w.uint(8)) }

// demand is how much to fetch, and how long to wait for it.
type demand struct {
	limit int           // bytes, about: one whole batch comes although it is larger
	room  int           // of which no more may come, else the error is errNoRoom; 0: the records are left unread
	wait  time.Duration // how long the broker waits where there is nothing
}

// fetch asks the partition's leader for records from offset on.
func (c *client) fetch(ctx context.Context, topic string, partition int32, offset int64, d demand) (*fetchResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, d.wait+requestTimeout)
	defer cancel()
	resp, err := c.transport.RoundTrip(ctx, c.Addr, &fetchRequest{
		clientID: c.config.ClientID,
		room:     d.room,
		Request: fetch.Request{
			ReplicaID:      -1,
			MaxWaitTime:    int32(d.wait.Milliseconds()),
			MinBytes:       1,
			MaxBytes:       int32(d.limit),
			IsolationLevel: readCommitted,
			SessionEpoch:   -1, // no session
			Topics: []fetch.RequestTopic{{
				Topic: topic,
				Partitions: []fetch.RequestPartition{{
					Partition:          partition,
					CurrentLeaderEpoch: -1,
					FetchOffset:        offset,
					LogStartOffset:     -1,
					PartitionMaxBytes:  int32(d.limit),
				}},
			}},
		},
	})
	if err != nil {
		return nil, err
	}
	return resp.(*fetchResponse), nil
}

func splitList(s string) []string {
	parts := strings.Split(s, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}
