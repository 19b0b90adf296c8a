package shop

import (
	"slices"
	"time"
)

// The rules that the shop's troubles are made for.
const (
	RepeatedEffect = "repeated_effect"
	RetryStorm     = "retry_storm"
	StuckPending   = "stuck_pending"
	PermanentError = "permanent_error_retried"
	SwallowedWork  = "swallowed_work"
)

// Trouble is one thing that went wrong, and what should be found of it.
type Trouble struct {
	Rule        string
	Cause       string // of a repeated effect; empty otherwise
	Task        string
	BusinessKey string    // empty for trouble of a whole population
	Effect      string    // that happened more than once; empty otherwise
	At          time.Time // from when on it can be known
}

// Truth is what a shop knows of its own troubles. A key that is in none of them is healthy.
type Truth struct {
	troubles []Trouble
	keys     map[string]bool
}

// Troubles lists everything that went wrong so far, in the order in which it could be known.
func (t *Truth) Troubles() []Trouble {
	sorted := slices.Clone(t.troubles)
	slices.SortStableFunc(sorted, func(a, b Trouble) int { return a.At.Compare(b.At) })
	return sorted
}

// Healthy reports whether nothing is wrong with a business key.
func (t *Truth) Healthy(businessKey string) bool { return !t.keys[businessKey] }

func (t *Truth) add(trouble Trouble) {
	t.troubles = append(t.troubles, trouble)
	if trouble.BusinessKey == "" {
		return
	}
	if t.keys == nil {
		t.keys = make(map[string]bool)
	}
	t.keys[trouble.BusinessKey] = true
}
