// Package proof holds what comparing Kafka, the ledger and the tables comes to: plain data, and how lists of troubles are
// kept short. Like all below event it is pure: no I/O, no clock.
package proof

import (
	"cmp"
	"slices"
	"time"

	"auditor/event"
)

// Span is a range of offsets, both ends inclusive. It is empty when Last is below First.
type Span struct {
	First int64 `json:"first"`
	Last  int64 `json:"last"`
}

// Len is how many offsets there are in s.
func (s Span) Len() int64 { return max(s.Last-s.First+1, 0) }

// Contains reports whether every offset of o is in s.
func (s Span) Contains(o Span) bool { return s.First <= o.First && o.Last <= s.Last }

// Meets reports whether an offset is in both.
func (s Span) Meets(o Span) bool { return s.First <= o.Last && o.First <= s.Last }

// Kind is what is wrong with a span.
type Kind string

// The kinds of trouble.
const (
	Missing Kind = "missing" // records of which rows are not in the tables
	Doubled Kind = "doubled" // rows that lie in the tables more than once
	Hole    Kind = "hole"    // offsets that the ledger does not cover
	Lost    Kind = "lost"    // offsets that Kafka's retention deleted before they were read
)

// Kinds lists every kind.
var Kinds = []Kind{Missing, Doubled, Hole, Lost}

// Trouble is something wrong within a span.
type Trouble struct {
	Kind Kind `json:"kind"`
	Span
	Count int64     `json:"count"`           // records missing, rows too many, offsets not covered, offsets lost
	Exact bool      `json:"exact"`           // every record of the span is meant; otherwise Count of them, and no more is known
	Among []Span    `json:"among,omitempty"` // where it is not exact: the offsets of which Count are meant, as far as that is known
	Time  time.Time `json:"time,omitzero"`   // about when these offsets reached Kafka
}

// Bound sorts troubles by kind and place, joins those that adjoin, drops what is told twice, and keeps at most most of each kind: the last one then
// stands for all that follow, by their count.
func Bound(all []Trouble, most int) []Trouble {
	slices.SortFunc(all, func(a, b Trouble) int {
		return cmp.Or(cmp.Compare(slices.Index(Kinds, a.Kind), slices.Index(Kinds, b.Kind)), cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last))
	})
	kept := all[:0]
	ofKind := 0
	for _, t := range all {
		last := len(kept) - 1
		switch {
		case last < 0 || kept[last].Kind != t.Kind:
			ofKind = 1
		case kept[last].Exact && t.Exact && kept[last].Contains(t.Span):
			continue // seen in two ranges that overlap
		case kept[last].Exact && t.Exact && kept[last].Last+1 == t.First && t.Kind != Lost:
			kept[last].Last, kept[last].Count = t.Last, kept[last].Count+t.Count
			continue
		case ofKind == most:
			kept[last].Last, kept[last].Count = max(kept[last].Last, t.Last), kept[last].Count+t.Count
			kept[last].Exact, kept[last].Among = false, nil
			kept[last].Time = t.Time
			continue
		default:
			ofKind++
		}
		kept = append(kept, t)
	}
	return kept
}

// Verdict is what comparing one partition came to.
type Verdict struct {
	event.PartitionID
	Span               // of the offsets that were compared: whole ranges of the ledger, and what lies between them
	Ranges   int       // of the ledger
	Records  int64     // in them, as the ledger counts, and so on
	Events   int64     //
	Rejects  int64     //
	Expired  int64     // records that may have been deleted from the tables by their retention
	Newest   time.Time // Kafka timestamp of the last record in them; zero when there is none
	Troubles []Trouble // by kind and place, a bounded number of each kind
	Unread   string    // why Kafka could not be asked for what would have named the missing offsets; empty otherwise
}

// Count sums what is wrong of one kind.
func Count(troubles []Trouble, k Kind) (n int64) {
	for _, t := range troubles {
		if t.Kind == k {
			n += t.Count
		}
	}
	return n
}

// Head gives the troubles of one kind, at most n of them; of the others how much is wrong, and the last offset.
func Head(troubles []Trouble, k Kind, n int) (head []Trouble, more, last int64) {
	for _, t := range troubles {
		switch {
		case t.Kind != k:
		case len(head) < n:
			head = append(head, t)
		default:
			more, last = more+t.Count, t.Last
		}
	}
	return head, more, last
}

// Proof is what is known of a partition from all comparisons so far, as the process that reads it stores it.
type Proof struct {
	event.PartitionID
	First    int64     // the first offset that was compared
	Next     int64     // the one after the last
	Again    int64     // the offsets before it have been compared once more, from First on
	Passed   time.Time // when all of them had last been; zero: not yet
	Newest   time.Time // Kafka timestamp of the last record before Next
	Checked  time.Time // when the last comparison ended
	Troubles []Trouble // as in Verdict
}
