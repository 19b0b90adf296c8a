package rules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
)

// Past is what a replay reads: a store as it stood at the end of the window. Nothing is written to it.
type Past interface {
	Pasts
	// Confirmed is that of Changes.
	Confirmed(ctx context.Context) (event.Cursor, error)
	// Arrivals gives, by partition, the first offset of the changes that reached Kafka from one moment to another, and the
	// offset after the last.
	Arrivals(ctx context.Context, from, to time.Time) (first, next event.Cursor, err error)
	// Awaited gives at most limit of the tasks that were told, before a time, to begin between from and to.
	Awaited(ctx context.Context, from, to, told time.Time, limit int) ([]history.Pending, error)
}

// Window is a stretch of the past, both ends included.
type Window struct{ From, To time.Time }

// Replay tells what the rules would have found in a window of the past, judged by the code that judges the present, as of
// the end of the window: what happened later counts for nothing. It writes nothing, and keeps what it finds in memory.
//
// A finding belongs to the window when it was last seen, or became due, within it. To that end the keys are judged that
// changed within the window or shortly before it, by the time at which their events reached Kafka, and the tasks that were
// to begin within it. "Shortly" is the look-back, a day by default, or the longest time after which a task is stuck.
func Replay(ctx context.Context, config Config, past Past, w Window) ([]finding.Finding, error) {
	if w.To.Before(w.From) {
		return nil, errors.New("the window ends before it begins")
	}
	begin := w.From.Add(-config.leadIn())
	m := newMemory(past, w.To)
	if err := m.choose(ctx, begin, w); err != nil {
		return nil, err
	}
	all, err := judgePast(ctx, config, m, begin)
	if err != nil {
		return nil, err
	}
	held, err := heldBefore(ctx, config, past, all, begin, w)
	if err != nil {
		return nil, err
	}
	incidents := map[any]bool{}
	within := func(f finding.Finding) bool { return !f.LastSeen.Before(w.From) || aboutTasks(f) && !held[f.ID] }
	for _, f := range all {
		if of, ok := f.Fields["incident"]; ok && within(f) {
			incidents[of] = true
		}
	}
	var found []finding.Finding
	for _, f := range all {
		if within(f) || incidents[f.ID] {
			f, err := asStored(f)
			if err != nil {
				return nil, err
			}
			found = append(found, f)
		}
	}
	return found, nil
}

// judgePast judges what a memory has chosen, as of its moment.
func judgePast(ctx context.Context, config Config, m *memory, begin time.Time) ([]finding.Finding, error) {
	e, err := New(config, m, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	return e.evaluate(ctx, moment{now: m.until, known: m.until, past: true, from: begin})
}

// heldBefore tells which of the findings that were last seen before the window held when it began: their subjects are judged once
// more, as of then, with all that has arrived since. The others became due within it.
func heldBefore(ctx context.Context, config Config, past Past, all []finding.Finding, begin time.Time, w Window) (map[string]bool, error) {
	m := newMemory(past, w.From.Add(-time.Microsecond))
	var asked []history.Pending
	for _, f := range all {
		if s, ok := subjectOf(f); ok && aboutTasks(f) && f.LastSeen.Before(w.From) {
			asked = append(asked, history.Pending{Subject: s, PendingTaskID: f.TaskIDs[0], Task: f.Task, Due: m.until, Open: true})
		}
	}
	held := map[string]bool{}
	if len(asked) == 0 {
		return held, nil
	}
	if err := m.SavePending(ctx, asked); err != nil {
		return nil, err
	}
	before, err := judgePast(ctx, config, m, begin)
	for _, f := range before {
		held[f.ID] = true
	}
	return held, err
}

// aboutTasks reports whether a finding is about tasks of one subject, whose silence may have made it due.
func aboutTasks(f finding.Finding) bool {
	_, ok := subjectOf(f)
	return ok && len(f.TaskIDs) > 0 && f.Rule != Incident
}

// asStored gives a finding as a store gives it back: its own fields hold JSON values.
func asStored(f finding.Finding) (finding.Finding, error) {
	text, err := json.Marshal(f.Fields)
	if err == nil {
		f.Fields = nil
		err = json.Unmarshal(text, &f.Fields)
	}
	if err != nil {
		return f, fmt.Errorf("fields of finding %s: %w", f.ID, err)
	}
	return f, nil
}

// leadIn is how long before a window changes are read, to know of the tasks that became due within it.
func (c *Config) leadIn() time.Duration {
	longest := max(c.StuckAfter, c.longestLookBack())
	for _, t := range c.Tasks {
		longest = max(longest, t.StuckAfter)
	}
	return longest
}

// Outcome is what becomes of a finding of the past that is kept.
type Outcome string

// The outcomes.
const (
	IsNew   Outcome = "new"   // nothing was known of it: it is opened
	IsGrown Outcome = "grown" // less was known of it: it grows
	IsKnown Outcome = "known" // as much or more was known: it stays as it is
)

// Outcomes says of each finding of a replay what Keep would do with it.
func Outcomes(ctx context.Context, store lookup, found []finding.Finding) ([]Outcome, error) {
	known, err := knownOf(ctx, store, found)
	if err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, len(found))
	for i, f := range found {
		outcomes[i] = outcome(known, f)
	}
	return outcomes, nil
}

// lookup gives findings by id.
type lookup interface {
	Findings(ctx context.Context, ids []string) (map[string]finding.Finding, error)
}

func knownOf(ctx context.Context, store lookup, found []finding.Finding) (map[string]finding.Finding, error) {
	ids := make([]string, len(found))
	for i, f := range found {
		ids[i] = f.ID
	}
	known, err := store.Findings(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("read known findings: %w", err)
	}
	return known, nil
}

func outcome(known map[string]finding.Finding, f finding.Finding) Outcome {
	old, exists := known[f.ID]
	switch {
	case !exists:
		return IsNew
	case newer(old, f):
		return IsGrown
	}
	return IsKnown
}

// Keeper stores what a replay found.
type Keeper interface {
	Findings
	SavePending(ctx context.Context, tasks []history.Pending) error
}

// Keep writes the findings of a replay into a store as the rules would have: what was not known is opened, with the note
// "replay"; what rests on evidence that was not known grows, and is opened again if it was resolved; nothing is resolved.
// The same call again changes nothing. The rules that run on the store judge the keys of what was written once more, within
// ten minutes, and resolve what holds no longer. It says what became of each finding.
func Keep(ctx context.Context, store Keeper, found []finding.Finding, now time.Time) ([]Outcome, error) {
	known, err := knownOf(ctx, store, found)
	if err != nil {
		return nil, err
	}
	outcomes := make([]Outcome, len(found))
	var changed []finding.Finding
	var log []finding.Change
	var again []history.Pending
	for i, f := range found {
		if outcomes[i] = outcome(known, f); outcomes[i] == IsKnown {
			continue
		}
		old, exists := known[f.ID]
		if exists && old.FirstSeen.Before(f.FirstSeen) {
			f.FirstSeen = old.FirstSeen
		}
		f.Version = 0
		next, _, _, err := grow(old, exists, f)
		if err != nil {
			return nil, err
		}
		next.UpdatedAt = now
		changed = append(changed, next)
		if next.State != old.State {
			log = append(log, finding.Change{FindingID: f.ID, Time: now, From: old.State, To: next.State, By: byAuditor, Note: "replay"})
		}
		if s, ok := subjectOf(f); ok && len(f.TaskIDs) > 0 {
			again = append(again, history.Pending{Subject: s, PendingTaskID: f.TaskIDs[0], Task: f.Task, Phase: history.PhaseStarted,
				Since: f.FirstSeen, Due: now, Open: true})
		}
	}
	if len(changed) == 0 {
		return outcomes, nil
	}
	if err := store.SaveFindings(ctx, changed, log); err != nil {
		return nil, fmt.Errorf("store findings: %w", err)
	}
	if err := store.SavePending(ctx, again); err != nil {
		return nil, fmt.Errorf("note the keys that are to be judged again: %w", err)
	}
	return outcomes, nil
}

// subjectOf is the subject that a finding is about; false for one about a population.
func subjectOf(f finding.Finding) (history.Subject, bool) {
	switch {
	case f.BusinessKey != "":
		return history.Subject{Namespace: f.Namespace, BusinessKey: f.BusinessKey}, true
	case len(f.TaskIDs) == 1:
		return history.Subject{Namespace: f.Namespace, TaskID: f.TaskIDs[0]}, true
	}
	return history.Subject{}, false
}
