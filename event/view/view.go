// Package view holds what the pages and the API ask of the store, and what it answers: plain data, no behaviour of its
// own, so that the package that draws and the package that queries need not know each other.
package view

import (
	"errors"
	"time"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/reject"
)

// ErrNotFound says that the store holds nothing of that name.
var ErrNotFound = errors.New("not found")

// ErrCursor says that a cursor was not one that the store gave out.
var ErrCursor = errors.New("cursor is not one that was given out")

// Order is how a list of findings is sorted.
type Order string

// The orders of a list of findings. Each is total: ties are broken by id.
const (
	BySeverity Order = "severity" // incidents that alarm first, then the gravest, then the newest
	ByRecent   Order = "recent"   // last seen first
	ByOldest   Order = "oldest"   // first seen first
	ByEffects  Order = "effects"  // the most repeated first
)

// Orders lists the orders, the default first.
var Orders = []Order{BySeverity, ByRecent, ByOldest, ByEffects}

// FindingFilter chooses findings. An empty field chooses all.
type FindingFilter struct {
	Rule        string
	States      []finding.State
	Severity    finding.Severity
	Cause       string
	Namespace   *string // nil: all, for the default namespace is the empty one
	Task        string  // a task's name, or a task id
	BusinessKey string
	Text        string    // part of the title, key or cause, whatever its case
	Since       time.Time // last seen then or later
	Assignee    string    // who shall see to it
	Silenced    *bool     // whether a silence keeps it silent now; nil: all
	Silence     string    // the id of one that does
	Incident    string    // the id of the incident that they belong to
	Fold        bool      // leave out the findings of an incident that is chosen itself
	Order       Order     // empty: BySeverity
	Limit       int       // how many at most; at least 1
	Cursor      string    // NextCursor of the page before
}

// FindingPage is one page of a list of findings.
type FindingPage struct {
	Items      []finding.Finding
	NextCursor string // empty on the last page
	Total      int    // how many the filter chooses, all pages together
	Folded     int    // how many it would choose besides, had it not left out the findings of incidents; 0 on an empty page
}

// FindingCount is how many findings a rule has of one severity and state.
type FindingCount struct {
	Rule     string
	Severity finding.Severity
	State    finding.State
	Silenced bool // whether a silence keeps them silent now
	Folded   bool // whether an incident in the same state stands for them
	Count    int
	Oldest   time.Time // when the first of them was first seen
}

// FindingValues is what the filters of the list of findings can be set to.
type FindingValues struct {
	Rules, Causes, Namespaces, Tasks, Assignees []string
}

// LoggedChange is an entry of a finding's log beside what the finding is about.
type LoggedChange struct {
	finding.Change
	Title    string
	Rule     string
	Severity finding.Severity
}

// ExtraEffects is how many effects beyond the first a task did within one slot of time.
type ExtraEffects struct {
	Slot    time.Time
	Task    string
	Extra   int // beyond the first
	Guarded int // those of them whose finding says that every copy carried the same idempotency key
}

// Activity is what one task did within one slot of time. The counts are of distinct events.
type Activity struct {
	Slot      time.Time
	Latest    time.Time // the latest minute of the slot in which it did something
	Namespace string
	Task      string
	Events    int
	Runs      int // starts or, where a task emits none, deliveries or ends
	Retries   int
	Succeeded int
	Failed    int
}

// HitKind says what a searched text turned out to be.
type HitKind string

// What a searched text can be.
const (
	HitKey     HitKind = "business key"
	HitTask    HitKind = "task id"
	HitRequest HitKind = "request id"
	HitWorker  HitKind = "worker"
)

// Hit is one answer to a search.
type Hit struct {
	Kind        HitKind
	Exact       bool // the text is the whole of it, not only its beginning
	Namespace   string
	BusinessKey string
	TaskID      string
	Worker      string
	Task        string
	Last        time.Time // when it was last heard of
}

// Worker is when a worker was heard of, all its processes together.
type Worker struct {
	Namespace string
	Name      string
	Processes int
	First     time.Time
	Last      time.Time
	Idle      time.Time // when it last said that it runs nothing; zero when it never did
	Lost      time.Time // when it was last reported lost; zero when it never was
}

// Ledger is what the ledger proves of one partition: which offsets are in the store.
type Ledger struct {
	Topic     string
	Partition int32
	First     int64 // first offset covered
	Last      int64 // last offset covered, inclusive
	Batches   int
	Records   int
	Events    int
	Rejects   int
	Missing   int64     // offsets between First and Last that no batch covers
	KafkaTime time.Time // timestamp of the newest record
	Judged    int64     // the offset before which the rules have read everything; 0 when they have not begun
}

// Partition is where ingest stands in one partition that it reads.
type Partition struct {
	Topic     string
	Partition int32
	Next      int64     // the next offset to read
	End       int64     // the high watermark
	Lag       int64     // records not yet in the store
	Newest    time.Time // timestamp of the newest record in the store; zero before the first
	Checked   time.Time // when End was read
	Problem   string    // why the partition stands still; empty when it does not
}

// RejectFilter chooses rejects. An empty field chooses all.
type RejectFilter struct {
	Topic     string
	Partition *int32 // nil: all
	Reasons   []event.Reason
	States    []reject.State
	Since     time.Time // of the record's Kafka timestamp: then or later
	Until     time.Time // before then
}

// RejectList asks for one page of the rejects that a filter chooses, the newest first.
type RejectList struct {
	RejectFilter
	Limit    int
	RawLimit int      // bytes of each record's key and value, and of each of its headers, that are wanted
	Before   Position // the last of the page before; zero for the first page
}

// Position is where a reject stands in the order of its list.
type Position struct {
	KafkaTime time.Time
	event.Position
}

// RejectCount is how many records of a topic were rejected for one reason, and are in one state.
type RejectCount struct {
	Topic  string       `json:"topic"`
	Reason event.Reason `json:"reason"`
	State  reject.State `json:"state"`
	Count  int          `json:"count"`
	Bytes  int          `json:"bytes"` // of their values
	First  time.Time    `json:"first"` // Kafka timestamps
	Last   time.Time    `json:"last"`
}

// RejectRate is how many records were rejected for one reason within one slot of time.
type RejectRate struct {
	Slot   time.Time
	Reason event.Reason
	Count  int
}

// ConfigChange is a configuration that the rules began to go by, where it was another than before.
type ConfigChange struct {
	Time    time.Time `json:"time"`
	Digest  string    `json:"digest"`
	Section string    `json:"section"` // what they go by, as YAML
	Changed string    `json:"changed"` // what differs from before, a line a key; empty in the first
	Program string    `json:"program"` // version of the auditor
}
