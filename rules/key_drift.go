package rules

import (
	"fmt"
	"slices"
	"strings"

	"auditor/event"
	"auditor/event/finding"
)

// The kinds of key drift.
const (
	kindBusinessKey    = "business_key"
	kindIdempotencyKey = "idempotency_key"
)

// keyDrifts finds the keys that are made of time or chance: one task id under several business keys, or one task id that
// does the same effect under several idempotency keys.
func (j *judge) keyDrifts() []finding.Finding {
	var found []finding.Finding
	for _, id := range j.history.TaskIDs() {
		if f, ok := j.effectDrift(id); ok {
			found = append(found, f)
		}
	}
	for _, id := range j.history.TaskIDs() {
		if keys := j.drifted[id]; len(keys) > 1 {
			if f, ok := j.businessKeyDrift(id, keys); ok {
				found = append(found, f)
			}
		}
	}
	return found
}

// effectDrift finds the effect of a task id whose idempotency key differs between its attempts.
func (j *judge) effectDrift(id string) (finding.Finding, bool) {
	type effect struct{ name, target string }
	first := map[effect]*event.Event{}
	var drifted []*event.Event
	keys := []string{}
	for _, r := range j.history.RunsOf(id) {
		for _, e := range r.Effects {
			if j.config.ignoresEffect(r.Task, e.Effect.Name) {
				continue
			}
			of := effect{e.Effect.Name, e.Effect.Target}
			if e.Effect.IdempotencyKey == "" {
				continue
			}
			before := first[of]
			if before == nil {
				first[of] = e
				continue
			}
			if before.Effect.IdempotencyKey != e.Effect.IdempotencyKey {
				if len(drifted) == 0 {
					drifted, keys = append(drifted, before), append(keys, before.Effect.IdempotencyKey)
				}
				drifted = append(drifted, e)
				if !slices.Contains(keys, e.Effect.IdempotencyKey) {
					keys = append(keys, e.Effect.IdempotencyKey)
				}
			}
		}
	}
	if len(drifted) == 0 {
		return finding.Finding{}, false
	}
	a, b := drifted[0], drifted[len(drifted)-1]
	f := j.drift(id, kindIdempotencyKey, a, b, keys)
	f.Fields["effect"], f.Fields["target"] = a.Effect.Name, a.Effect.Target
	f.Title = fmt.Sprintf("%s for %s carries a new idempotency key at each attempt", a.Effect.Name, j.history.Subject)
	f.Explanation = sameDay(fmt.Sprintf("The same task id %s did %s under %d idempotency keys: %s at %s and %s at %s. A receiver can't tell that they are one and the same, so the key protects from nothing.",
		id, a.Effect.Name, len(keys), a.Effect.IdempotencyKey, clock(a.Time), b.Effect.IdempotencyKey, clock(b.Time)))
	return f, true
}

// businessKeyDrift tells of a task id whose events carry several business keys. They are judged together, under the first
// of the keys in the order of the alphabet. Where the events under the others are not there, or not yet, it tells nothing.
func (j *judge) businessKeyDrift(id string, keys []string) (finding.Finding, bool) {
	var first, other *event.Event
	for _, e := range j.history.EventsOf(id) {
		switch {
		case e.BusinessKey == "":
		case first == nil:
			first = e
		case other == nil && e.BusinessKey != first.BusinessKey:
			other = e
		}
	}
	if other == nil {
		return finding.Finding{}, false
	}
	f := j.drift(id, kindBusinessKey, first, other, keys)
	f.Title = fmt.Sprintf("one task id of %s stands under %d business keys", nameOf(f.Task), len(keys))
	f.Explanation = sameDay(fmt.Sprintf("Events of the task id %s carry %d different business keys: %s at %s, %s at %s. Copies of the work can't be recognised by such a key; the auditor judges them together, by the task id.",
		id, len(keys), first.BusinessKey, clock(first.Time), other.BusinessKey, clock(other.Time)))
	return f, true
}

func (j *judge) drift(id, kind string, first, last *event.Event, keys []string) finding.Finding {
	s := j.history.Subject
	task := ""
	for _, e := range j.history.EventsOf(id) {
		if e.Task != "" {
			task = e.Task
			break
		}
	}
	about := kind + "\x00" + id // under whichever of its keys the task id is judged
	if kind == kindIdempotencyKey {
		about = s.String() + "\x00" + about + "\x00" + first.Effect.Name
	}
	f := finding.Finding{
		ID:          finding.ID(KeyDrift, s.Namespace, task, about),
		Rule:        KeyDrift,
		Severity:    finding.Warning,
		Namespace:   s.Namespace,
		Task:        task,
		BusinessKey: s.BusinessKey,
		TaskIDs:     []string{id},
		FirstSeen:   first.Time,
		LastSeen:    last.Time,
		Fields:      map[string]any{"kind": kind, "keys": keys[:min(len(keys), 100)], "key_count": len(keys)},
		Evidence:    []finding.Evidence{quote(first, "one key"), quote(last, "another")},
		Remedy: "Build the key from the arguments that say what the work is about (an order's number), never from the time, a random number or the attempt; " +
			"set it where the task is published, so that every attempt carries the same.",
	}
	doubt{}.into(&f)
	return f
}

// wordsOf lists texts as a person would.
func wordsOf(texts []string) string {
	if len(texts) < 2 {
		return strings.Join(texts, "")
	}
	return strings.Join(texts[:len(texts)-1], ", ") + " and " + texts[len(texts)-1]
}
