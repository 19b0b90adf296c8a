package bridge

import (
	"sync/atomic"

	"auditor/event"
)

// maxBatch is how many events are published at once.
const maxBatch = 1000

// queue holds what is to be published, in order, up to a number of records and of bytes.
type queue struct {
	records  chan event.Record
	bytes    atomic.Int64
	maxBytes int64
}

func newQueue(records int, bytes int64) *queue {
	return &queue{records: make(chan event.Record, records), maxBytes: bytes}
}

// offer holds r if there is room, and never waits. It is for one goroutine.
func (q *queue) offer(r event.Record) (held bool) {
	size := sizeOf(r)
	if q.bytes.Load()+size > q.maxBytes {
		return false
	}
	select {
	case q.records <- r:
		q.bytes.Add(size)
		return true
	default:
		return false
	}
}

// close says that nothing follows. What is held can still be gathered.
func (q *queue) close() { close(q.records) }

// gather waits for a record, and gives it with those behind it; none once the queue is closed and empty.
func (q *queue) gather() []event.Record {
	var batch []event.Record
	r, more := <-q.records
	for ; more; r, more = q.next() {
		batch = append(batch, r)
		if len(batch) == maxBatch {
			break
		}
	}
	return batch
}

// next gives a record that is held; false for none.
func (q *queue) next() (event.Record, bool) {
	select {
	case r, more := <-q.records:
		return r, more
	default:
		return event.Record{}, false
	}
}

// release makes the room of a batch that is gone.
func (q *queue) release(batch []event.Record) {
	for _, r := range batch {
		q.bytes.Add(-sizeOf(r))
	}
}

func (q *queue) len() int { return len(q.records) }

func sizeOf(r event.Record) int64 { return int64(len(r.Key) + len(r.Value)) }
