package event

import (
	"fmt"
	"time"
)

// Record is what Kafka holds at one offset.
type Record struct {
	Position // Index is 0
	Time     time.Time
	Key      []byte
	Value    []byte
	Headers  []Header
}

// Header is one header of a Kafka record.
type Header struct {
	Key   string
	Value []byte
}

// usualSize is more bytes than most events have.
const usualSize = 512

// RecordOf makes the record that tells e, as auditor JSON, under the key that keeps the events of one piece of work in one
// partition, in order: the business key, else the task id, else the worker.
func RecordOf(e *Event) Record {
	key := e.BusinessKey
	if key == "" {
		key = e.TaskID
	}
	if key == "" {
		key = e.Worker
	}
	return Record{Key: []byte(key), Value: e.AppendJSON(make([]byte, 0, usualSize))}
}

// Reject is a record, or one element of a record's array, that could not be read as an event. Nothing is dropped: the
// bytes are kept with the reason.
type Reject struct {
	Position
	KafkaTime time.Time
	Reason    Reason
	Detail    string   // what is wrong, for a person
	Key       []byte   // the record's key
	Headers   []Header // the record's headers: a CloudEvent in binary mode is told by them
	Raw       []byte   // the record's value, or the element's bytes
}

// Reason is why a record was rejected, from a short fixed list, so that it can label a metric.
type Reason string

// The reasons.
const (
	ReasonEmpty          Reason = "empty"           // no value (a tombstone), only white space, or an array without elements
	ReasonTooLarge       Reason = "too_large"       // more bytes than an event may have
	ReasonTooMany        Reason = "too_many"        // more elements than an array may have
	ReasonNotJSON        Reason = "not_json"        // breaks the grammar
	ReasonDuplicateName  Reason = "duplicate_name"  // one name twice in one object, which can be read in two ways
	ReasonBadUTF8        Reason = "bad_utf8"        // text that is no UTF-8
	ReasonTrailingData   Reason = "trailing_data"   // more bytes after the JSON value
	ReasonWrongType      Reason = "wrong_type"      // a value of the wrong kind or form
	ReasonOutOfRange     Reason = "out_of_range"    // a number that the field cannot hold
	ReasonTooLong        Reason = "too_long"        // an id or name beyond its bound
	ReasonUnknownType    Reason = "unknown_type"    // neither type nor outcome says what happened
	ReasonContradiction  Reason = "contradiction"   // type and outcome say different things
	ReasonNoTaskID       Reason = "no_task_id"      // nor, for a worker's event, a worker
	ReasonNoTime         Reason = "no_time"         //
	ReasonImpossibleTime Reason = "impossible_time" // years from the record's Kafka timestamp, or outside of 1970 to 2261
	ReasonNoEffect       Reason = "no_effect"       // an effect without a name
	ReasonBadCloudEvent  Reason = "bad_cloudevent"  // an envelope that breaks the CloudEvents specification
	ReasonBadBatch       Reason = "bad_batch"       // a whole batch of records whose compression or framing is broken
	ReasonStoreRefused   Reason = "store_refused"   // the store takes records, and would not take this one; the Index is WholeRecord
	ReasonDecoderFailed  Reason = "decoder_failed"  // reading it brought out a defect of the decoder: a panic, or no answer
)

// Reasons lists every reason.
var Reasons = []Reason{
	ReasonEmpty, ReasonTooLarge, ReasonTooMany, ReasonNotJSON, ReasonDuplicateName, ReasonBadUTF8, ReasonTrailingData,
	ReasonWrongType, ReasonOutOfRange, ReasonTooLong, ReasonUnknownType, ReasonContradiction, ReasonNoTaskID,
	ReasonNoTime, ReasonImpossibleTime, ReasonNoEffect, ReasonBadCloudEvent, ReasonBadBatch,
	ReasonStoreRefused, ReasonDecoderFailed,
}

// Batch is what one range of offsets of one partition decodes to. It is a pure function of the records. The batches of a
// partition follow one another without a hole: each begins where the one before it ended.
type Batch struct {
	Topic     string
	Partition int32
	First     int64     // first offset asked for
	Last      int64     // last offset covered, inclusive; offsets between that hold no record (aborted, control) count as covered
	Records   int       // how many records the range held
	Time      time.Time // Kafka timestamp of the range's last record, UTC; zero when it held none
	Oldest    time.Time // the earliest Kafka timestamp of its records, UTC; zero when it held none
	Lost      int64     // how many offsets of the range retention deleted before they were read: events that nobody will see
	Events    []Event
	Rejects   []Reject

	// The rest is set only when a range is sent again and the store has part of it. Events and Rejects then hold what is
	// missing, and the ledger counts both.
	StoredEvents  int
	StoredRejects int
	// Unconfirmed says that more rows of the range may have to follow: the ledger is not written.
	Unconfirmed bool
	// Supplement marks rows whose range's own deduplication token is spent on other rows, so that they need another.
	Supplement bool
	// Within is a wider range that was sent as one block, with an outcome that nobody knows, and was then divided. These
	// rows go under its token, so that the block, should it still arrive, is known and dropped. nil: the range's own.
	Within *Range
}

// Range is a range of offsets, both inclusive.
type Range struct{ First, Last int64 }

// Token is the deduplication token of b's events, from which the store knows a block that it was sent before.
func (b *Batch) Token() string {
	r := Range{b.First, b.Last}
	if b.Within != nil {
		r = *b.Within
	}
	return fmt.Sprintf("%s:%d:%d-%d", b.Topic, b.Partition, r.First, r.Last)
}

// Stored is what the store holds of a range of offsets.
type Stored struct {
	Complete bool       // the ledger has a row for exactly this range, so every row of it is there
	Events   []Position // distinct, in no order
	Rejects  []Position // distinct, in no order
}

// Covered is a row of the ledger: a range of offsets whose rows are all in the store.
type Covered struct {
	First   int64
	Last    int64
	Records int
	Events  int
	Rejects int
	Lost    int64
	Time    time.Time // as in Batch
	Oldest  time.Time // as in Batch; zero, too, where it is not known
}
