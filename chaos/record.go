package main

import (
	"hash/maphash"
	"time"
)

// row is what one element of a record must become in the store: an event, or a reject.
type row struct {
	id     string // event_id; empty where the auditor makes one of its own
	reason string // why it is rejected; empty for an event
	raw    string // the element's bytes, of a reject
}

// content is what a record's bytes must become. Records with the same bytes become the same.
type content struct {
	rows []row
}

// record is one record that the producer sends.
type record struct {
	at    time.Duration // since the start of the stream
	key   string        // which decides its partition
	value []byte
	content
}

// print identifies a record's value.
type print uint64

var printSeed = maphash.MakeSeed()

func printOf(value []byte) print { return print(maphash.Bytes(printSeed, value)) }

// expected is a finding that must be there at the end. Every other is false.
type expected struct {
	rule      string
	namespace string
	key       string // business key
	cause     string // of a repeated effect; empty otherwise
}
