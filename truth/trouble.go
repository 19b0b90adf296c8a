package main

import (
	"cmp"
	"slices"
	"time"
)

// The rules.
const (
	repeatedEffect        = "repeated_effect"
	concurrentRuns        = "concurrent_runs"
	retryStorm            = "retry_storm"
	redeliveryLoop        = "redelivery_loop"
	stuckPending          = "stuck_pending"
	swallowedWork         = "swallowed_work"
	keyDrift              = "key_drift"
	permanentErrorRetried = "permanent_error_retried"
	deadlineMissed        = "deadline_missed"
	partialEffects        = "partial_effects"
	terminalConflict      = "terminal_conflict"
	eventsLost            = "events_lost"
	incident              = "incident"
)

// about is what a trouble, or a finding, is about: two that agree in it are about the same.
type about struct {
	rule      string
	namespace string
	subject   string // business key, task id, task or emitter
	detail    string // what else tells two of them apart
}

// trouble is one thing that went wrong, and what must be found of it.
type trouble struct {
	about
	kind     string   // cause, kind or phase
	also     []string // kinds that the evidence allows as well
	count    int      // effects, deliveries or lost events; 0: not counted
	evidence evidence
	script   string
	task     string
	root     root // what it comes from, if other keys were hit by the same

	last *word         // where it is about silence: what was said before
	due  time.Duration // and when something more was to be said
}

// root is one mishap that hits many keys. The zero value is none.
type root struct {
	kind string // of the incident that should tell of it
	name string
}

// evidence is whether the events show a trouble.
type evidence string

const (
	evident     evidence = "evident"
	hidden      evidence = "hidden"      // events that would show it were lost
	undecidable evidence = "undecidable" // the clocks differ by more than what separates the events that would show whether it is one
)

// truth is all that went wrong.
type truth struct {
	troubles []trouble
	scripts  map[string]int   // how often each happened
	byNumber []*script        // of the stories, nil where there is none
	dark     map[subject]bool // of which events were lost that nothing known of them shows to be missing
}

// subject is a business key or a task id.
type subject struct{ namespace, name string }

func (t *truth) add(all ...trouble) { t.troubles = append(t.troubles, all...) }

// sorted puts the troubles in an order that does not depend on how they came to be known.
func (t *truth) sorted() []trouble {
	slices.SortStableFunc(t.troubles, func(a, b trouble) int {
		return cmp.Or(cmp.Compare(a.rule, b.rule), cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace),
			cmp.Compare(a.subject, b.subject), cmp.Compare(a.detail, b.detail))
	})
	return t.troubles
}

// stuckAfter is when a task without an end counts as stuck.
const stuckAfter = 15 * time.Minute
