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

// Batch is what one range of offsets of one partition decodes to. It is a pure function of the records.
type Batch struct {
	Topic     string
	Partition int32
	First     int64 // first offset asked for
	Last      int64 // last offset covered, inclusive; offsets between that hold no record (aborted, control) count as covered
	Records   int   // how many records the range held
	Events    []Event
	Rejects   []Reject
}
