package history

import "time"

// Wave is how many task ids of one task came to their next retry within one second, and how alike the gaps before it
// were, among them and among all that had failed in the same seconds.
type Wave struct {
	Namespace string
	Task      string
	Measure   string // what lies at the ends of the gap: "attempt" (a retry and the attempt after it) or "retry" (two retries)
	Second    time.Time
	IDs       int
	GapLow    float64 // seconds, tenth percentile
	Gap       float64 // seconds, median
	GapHigh   float64 // seconds, ninetieth percentile
	Breadth   float64 // seconds between the tenth and the ninetieth percentile of the moment within the second
	First     time.Time
	Last      time.Time
	ErrorType string
	TaskIDs   []string // some of them
}

// Minute is what one task did within one minute.
type Minute struct {
	Namespace string
	Task      string
	Minute    time.Time
	Runs      int // attempts that began, retries included
	Retries   int // attempts that ended in a retry
}

// Failing is what became of the ids of one task that were tried again after one type of error, or of a sample of them.
type Failing struct {
	Namespace string
	Task      string
	ErrorType string
	Declared  int // ids of which the error was declared permanent, and that were tried again all the same
	Exhausted int // ids that failed of it in the end
	Healed    int // ids that succeeded in the end
	IDs       int
	Retries   int // of all of them
	First     time.Time
	Last      time.Time
	TaskIDs   []string // some of them
}
