package review

import "time"

// Measure is what was measured of one task, on the keys of its sample. Lengths of time are in seconds.
type Measure struct {
	Namespace string
	Task      string
	Sample    Sample

	IDs      int // task ids
	KeyedIDs int // those of them with a business key

	TriedAgain  int // ids with a key that were retried or delivered again, and were asked about
	DriftedIDs  int // those of them with more than one business key
	EffectAgain int // ids that did one effect more than once, under an idempotency key
	DriftedKeys int // those of them that used more than one for it

	Runs         int // starts or, where none are told, deliveries or ends
	FirstRuns    int // ids that ran
	Retries      int
	RetriedIDs   int
	Redeliveries int // of an attempt that had been delivered before
	RepeatedIDs  int // ids that worked on a key on which another id of the task had worked within the look-back

	BoundedIDs  int // ids of which max_retries was told
	MaxRetries  int // the highest that was told; event.Unknown when none was
	BeyondBound int // ids that were retried more often than their max_retries
	Highest     int // the highest number of a retry
	Exhausted   int // ids that failed for good after at least one retry
	GaveUpAt    int // the highest number of a retry after which an id failed for good

	SucceededIDs int
	FailedIDs    int // that failed for good
	LostIDs      int // that were lost with their worker and never succeeded
	LateIDs      int // of which late acknowledgement was told
	EarlyIDs     int // of which early acknowledgement was told

	Took     Lengths   // of runs, from start to end
	Held     Lengths   // of deliveries, from arrival to acknowledgement
	Timeouts []Against // in order of length
	Errors   []Error   // the most frequent first
	Gaps     []Gap     // between retries and the attempts after them, by attempt
	Course   []Bucket  // a histogram of all gaps, in order
	Together int       // retries that came back within the same second, at most

	Effects        int // that were told
	KeyedEffects   int // those with an idempotency key
	DroppedEffects int // those that their receiver dropped as copies
	Skips          int // runs that stood aside
	ExtraEffects   int // effects beyond the first, for one key and target within the look-back, that no receiver dropped
	GuardedEffects int // those of them under the idempotency key of the one before
	ExtraSuccesses int // successes beyond the first of a key
	Failures       int // runs that failed or were retried
	FailuresAfter  int // those of them that had done an effect before
}

// Lengths is how long some things took.
type Lengths struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// Against is how many ids of a task outlasted a time-out.
type Against struct {
	Timeout
	Over  int // ids that ran or were held for longer
	Again int // those of them that were delivered again
}

// Error is what became of the ids that were retried on one type of error.
type Error struct {
	Type      string `json:"type"`
	IDs       int    `json:"ids"`       // that were retried on it
	Healed    int    `json:"healed"`    // that succeeded later
	GaveUp    int    `json:"gave_up"`   // that failed for good
	Permanent int    `json:"permanent"` // that were retried though the error was told to be permanent
}

// Gap is how long after a retry an attempt came, as it was planned where that was told, or else as it was.
type Gap struct {
	Attempt int     `json:"attempt"` // 1: the first retry
	Count   int     `json:"count"`
	Low     float64 `json:"p10"`
	Median  float64 `json:"p50"`
	High    float64 `json:"p90"`
}

// Bucket is how many gaps were of one length.
type Bucket struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"` // exclusive
	Count int     `json:"count"`
}

// Longer gives the lengths that count against time-outs: of runs or, where deliveries are held for longer, of those.
func (m *Measure) Longer() Lengths {
	if m.Held.Max > m.Took.Max {
		return m.Held
	}
	return m.Took
}

// Longest is how long a run took or a delivery was held, at most.
func (m *Measure) Longest() time.Duration {
	return time.Duration(m.Longer().Max * float64(time.Second))
}

// Extra is how many effects happened beyond the first and could have been told from it by nobody. Where the task tells no
// effects its success is one.
func (m *Measure) Extra() int {
	if m.Effects == 0 {
		return m.ExtraSuccesses
	}
	return m.ExtraEffects - m.GuardedEffects
}

// PerFirstRun is how many retries there were for each first run; 0 where nothing ran.
func (m *Measure) PerFirstRun() float64 {
	if m.FirstRuns == 0 {
		return 0
	}
	return float64(m.Retries) / float64(m.FirstRuns)
}
