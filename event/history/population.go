package history

import "time"

// Wave is how many task ids of one task came to their next retry within one second, and how alike the gaps before it
// were.
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
