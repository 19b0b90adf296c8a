package event

import "time"

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

// Reject is a record, or one element of a record's array, that could not be read as an event. Nothing is dropped: the
// bytes are kept with the reason.
type Reject struct {
	Position
	KafkaTime time.Time
	Reason    Reason
	Detail    string // what is wrong, for a person
	Key       []byte // the record's key
	Raw       []byte // the record's value, or the element's bytes
}

// Reason is why a record was rejected, from a short fixed list, so that it can label a metric.
type Reason string

// Batch is what one range of offsets of one partition decodes to. It is a pure function of the records. The batches of a
// partition follow one another without a hole: each begins where the one before it ended.
type Batch struct {
	Topic     string
	Partition int32
	First     int64     // first offset asked for
	Last      int64     // last offset covered, inclusive; offsets between that hold no record (aborted, control) count as covered
	Records   int       // how many records the range held
	Time      time.Time // Kafka timestamp of the range's last record, UTC; zero when it held none
	Lost      int64     // how many offsets of the range retention deleted before they were read: events that nobody will see
	Events    []Event
	Rejects   []Reject

	// The rest is set only when a range is sent again and the store has part of it. Events and Rejects then hold what is
	// missing, and the ledger counts both.
	StoredEvents  int
	StoredRejects int
	// Supplement marks rows whose range's own deduplication token is spent on other rows, so that they need another.
	Supplement bool
}

// Stored is what the store holds of a range of offsets.
type Stored struct {
	Complete bool       // the ledger has a row for exactly this range, so every row of it is there
	Events   []Position // distinct, in no order
	Rejects  []Position // distinct, in no order
}

// Covered is a partition's newest row in the ledger, the one with the highest Last.
type Covered struct {
	First   int64
	Last    int64
	Records int
	Lost    int64
	Time    time.Time // as in Batch
}
