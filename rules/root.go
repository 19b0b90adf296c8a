package rules

import (
	"encoding/json"
	"time"

	"auditor/event/finding"
	"auditor/event/history"
)

// root is what a finding comes from, as far as other findings may come from the same. Findings with one root are one
// incident.
type root struct {
	Kind   rootKind  `json:"kind"`
	About  string    `json:"about"` // what besides the kind must be alike, for a person
	At     time.Time `json:"at"`
	Worker string    `json:"worker"` // that was lost, or whose tasks were delivered again
}

type rootKind string

// The kinds of root that many findings may share.
const (
	rootWorkerLost rootKind = "worker_lost" // workers that were gone at about the same time: a deploy, a host, a kill
	rootRedelivery rootKind = "redelivery"  // deliveries that came again at about the same time: a broker's restart, the visibility time-out of a cohort
	rootRetry      rootKind = "retry"       // one step of one task that fails after the effect
	rootPublished  rootKind = "published"   // work that was published again at about the same time
	rootStuck      rootKind = "stuck"       // tasks that came to a halt at about the same time
)

// root tells what two runs of one effect come from.
func (j *judge) root(c cause, first, again *history.Run) (root, bool) {
	switch c {
	case workerLost:
		l := j.pulse.of(j.history.Subject.Namespace, first, again.Begin())
		return root{rootWorkerLost, "", later(first.LastSeen(), l.lastHeard), first.Worker}, true
	case redeliveredWhileRunning, redeliveredAfterSuccess:
		return root{rootRedelivery, "", again.Begin(), first.Worker}, true
	case retriedAfterEffect:
		about := nameOf(first.Task)
		if first.End != nil && errorType(first.End) != "" {
			about += ", " + errorType(first.End)
		}
		return root{rootRetry, about, first.LastSeen(), ""}, true
	case publishedTwice:
		return root{rootPublished, nameOf(again.Task), j.publishedAt(again), ""}, true
	}
	return root{}, false
}

// publishedAt is when a task id was put into the queue, as far as is known.
func (j *judge) publishedAt(r *history.Run) time.Time {
	for _, e := range j.history.Sent {
		if e.TaskID == r.TaskID {
			return e.Time
		}
	}
	return r.Begin()
}

// into tells the finding what it comes from, in the form in which it is read again.
func (r root) into(f *finding.Finding) {
	f.Fields["root"] = map[string]any{"kind": string(r.Kind), "about": r.About, "at": r.At, "worker": r.Worker}
}

// rootOf gives the root that a finding tells, be it new or read from the store.
func rootOf(f finding.Finding) (r root, ok bool) {
	text, err := json.Marshal(f.Fields["root"])
	if err != nil || json.Unmarshal(text, &r) != nil {
		return root{}, false
	}
	return r, r.Kind != ""
}
