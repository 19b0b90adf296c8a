package history

import "time"

// Arrival is when the events of a key reached Kafka: the first and the last of them. The zero value is of no event.
type Arrival struct{ First, Last time.Time }

// And is when the events of both arrived.
func (a Arrival) And(b Arrival) Arrival {
	switch {
	case a.First.IsZero():
		return b
	case b.First.IsZero():
		return a
	}
	if b.First.Before(a.First) {
		a.First = b.First
	}
	if b.Last.After(a.Last) {
		a.Last = b.Last
	}
	return a
}

// Arrived is a key of which events arrived, by its hash.
type Arrived struct {
	Hash  uint64
	Tasks []uint64 // the hashes under which events of the same tasks stand that carry no business key
	Arrival
}
