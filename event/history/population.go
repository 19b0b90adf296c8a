package history

import "time"

// Task is the name of a task in its namespace.
type Task struct {
	Namespace string
	Name      string
}

// Population is the runs of some tasks within a stretch of time.
type Population struct {
	Tasks       []Task // nil: every task
	From, Until time.Time
}

// Crowd is how many ids of one task retried, or came to their next attempt, close together within one minute.
type Crowd struct {
	Namespace string
	Task      string
	Minute    time.Time
	IDs       int  // the most of them
	FreshIDs  int  // the most of them where something was new
	Fresh     bool // a retry, or an attempt after one, was new
	Retries   int
}

// ErrorType is a type of error in the namespace of the tasks that fail with it.
type ErrorType struct {
	Namespace string
	Type      string
}

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
