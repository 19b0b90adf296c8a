package history

import "time"

// Told is what the events of one task id told under one subject, in numbers: enough to say whether its key may be in trouble. Each
// event counts once, however often it arrived. Times that nothing was told of are zero.
type Told struct {
	Subject
	KeyHash uint64
	ID      string
	Task    string

	Successes int
	Effects   int      // that were done, not deduplicated
	Kinds     []uint64 // which effects on which targets, by hash; at most a thousand of them
	Retries   int

	Starts, Receipts, Attempts             int  // starts and receipts that tell their attempt, and the attempts that they tell
	UnnumberedStarts, UnnumberedReceipts   int  // those that do not
	Ends, EndedAttempts                    int  // the same of ends: retried, succeeded, failed
	FirstAttempt                           int  // the lowest that was told
	Received, ReceivedAgain                int  // with the broker's flag that it was delivered before
	Ran, Did                               bool // it was at work; it had an effect
	Skips                                  int
	FirstSkip, LastSkip                    time.Time
	FirstSuccess, LastSuccess              time.Time
	GoodAttempts, BadAttempts              []int32 // that succeeded, that failed; at most a thousand of each
	Expires, LastStart, Deadline, LastWork time.Time
	LastStep, ETA                          time.Time // the last word that is no effect; when its sender wants it to begin

	Last    string // the type of its last word
	Requeue bool   // that says that it was put back
	RetryIn int    // or is tried again in so many seconds; Unknown

	Waited bool // it was noted to have no end
	Found  bool // there is a finding about its subject
}
