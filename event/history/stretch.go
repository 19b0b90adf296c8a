package history

import (
	"slices"
	"time"
)

// Stretch is a stretch of the past of some keys.
type Stretch struct {
	Keys    []uint64  // by their hashes
	Keyless bool      // events of their tasks may stand under the tasks' own hashes, for they carry no key
	Quiet   Arrival   // nothing of these keys reached Kafka between the two moments
	Since   time.Time // events that reached Kafka before count for nothing
	Until   time.Time // events that happened later count for nothing
}

// Extent is how much of the past of subjects is asked for.
type Extent struct {
	Since time.Time // events that reached Kafka before are left out
	Limit int       // of each subject at most so many events, the newest
	Tasks []string  // ids of which every event comes before all others, whatever the limit leaves out
}

// Works is which tasks worked for a key, and which effects they had, by name. A name that was not told is empty.
type Works struct{ Tasks, Effects []string }

// mostWorks is how many names of each kind Works can hold: of more, some are left out.
const mostWorks = 100

// Meet reports whether work of the one may have to do with work of the other: the same task, or the same effect.
func (w Works) Meet(other Works) bool {
	meet := func(some, others []string) bool {
		return len(some) >= mostWorks || len(others) >= mostWorks ||
			slices.ContainsFunc(some, func(name string) bool { return slices.Contains(others, name) })
	}
	return slices.Contains(w.Tasks, "") || slices.Contains(other.Tasks, "") || meet(w.Tasks, other.Tasks) || meet(w.Effects, other.Effects)
}
