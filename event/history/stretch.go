package history

import (
	"time"

	"auditor/event"
)

// Stretch is a range of offsets of one partition whose changed keys are asked for.
type Stretch struct {
	Of             event.PartitionID
	From, To       int64                    // To is excluded
	Keys           []uint64                 // the keys that are asked for, by their hashes; nil: all that changed in the stretch
	Quiet          Arrival                  // nothing of these keys reached Kafka between the two moments
	Since          time.Time                // events that reached Kafka before count for nothing
	Until          time.Time                // events that happened later count for nothing
	LoopRetries    int                      // a task id with so many retries is suspect
	SwallowedAfter time.Duration            // a key of which a run stood aside is suspect when nothing succeeded so soon
	StuckAfter     map[string]time.Duration // by task, how long after it was due a task without an end is stuck
	StuckPatterns  []string                 // patterns of the names of other tasks, * for any text; the first that fits counts, and the last fits all
	StuckByPattern []time.Duration          // the same by pattern
}

// Extent is how much of the past of subjects is asked for.
type Extent struct {
	Since time.Time // events that reached Kafka before are left out
	Limit int       // of each subject at most so many events, the newest
	Tasks []string  // ids of which every event comes before all others, whatever the limit leaves out
}
