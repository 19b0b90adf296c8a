package rules

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"auditor/event/finding"
	"auditor/event/history"
)

// The auditor's own name in a finding's log.
const byAuditor = "auditor"

// judgement is what a number of subjects came to, or the populations.
type judgement struct {
	whole  []history.Subject // those of which all that the judgement looks back on was read
	cut    []history.Subject // those of which only the newest was read
	former []history.Subject // under which the subjects stood before their key was known
	found  []finding.Finding
	tasks  []history.Pending // how every task of the subjects stands, as far as it was read
	gone   []string          // ids of findings that hold no longer, whatever they are about
	ended  []history.Pending // tasks that have ended, whether they were read or not
	since  time.Time         // what lies before it may not have been seen, and is left as it is
	now    time.Time
}

// ofHistories are the rules whose findings a judgement of histories can end. What users' rules find of the same subjects, or the
// rules about populations of a single task, is not for it to say.
var ofHistories = []string{RepeatedEffect, ConcurrentRuns, RetryStorm, RedeliveryLoop, StuckPending, SwallowedWork, KeyDrift, DeadlineMissed,
	PartialEffects, TerminalConflict}

// over reports whether f, which was not found now, holds no longer. A stuck task must have gone on or ended: that it is not
// due may only mean that less is known than when it was found, as after a start with a backlog.
func (j *judgement) over(f finding.Finding) bool {
	switch {
	case !slices.Contains(ofHistories, f.Rule):
		return false
	case f.Rule != StuckPending:
		return j.sawAll(f)
	}
	moved := func(t history.Pending) bool {
		return t.Namespace == f.Namespace && slices.Contains(f.TaskIDs, t.PendingTaskID) &&
			(!t.Open || t.Since.After(f.FirstSeen) || f.BusinessKey == "" && t.BusinessKey != "")
	}
	return slices.ContainsFunc(j.tasks, moved) || slices.ContainsFunc(j.ended, moved)
}

// sawAll reports whether all was read that f rests on, so that what does not hold now does not hold at all.
func (j *judgement) sawAll(f finding.Finding) bool {
	return !f.FirstSeen.Before(j.since) && !slices.ContainsFunc(j.cut, func(s history.Subject) bool {
		return s.Namespace == f.Namespace && s.BusinessKey == f.BusinessKey && (s.TaskID == "" || slices.Contains(f.TaskIDs, s.TaskID))
	})
}

// settle brings what was found together with what is stored: new findings open, known ones grow, resolved ones open again
// by new evidence, and those about a judged subject that no longer hold resolve by themselves. A finding that has not
// changed is not written.
func (e *Engine) settle(ctx context.Context, j judgement) error {
	ids := make([]string, len(j.found))
	holds := map[string]bool{}
	for i, f := range j.found {
		ids[i], holds[f.ID] = f.ID, true
	}
	known, err := e.store.Findings(ctx, ids)
	if err != nil {
		return fmt.Errorf("read known findings: %w", err)
	}
	var changed []finding.Finding
	var log []finding.Change
	for _, f := range j.found {
		old, exists := known[f.ID]
		if exists && old.FirstSeen.Before(j.since) { // what was seen of it may be less than what is known
			if !newer(old, f) {
				continue
			}
			f.FirstSeen = old.FirstSeen
		}
		next, note, differs, err := grow(old, exists, f)
		if err != nil {
			return err
		}
		if !differs {
			continue
		}
		next.UpdatedAt = j.now
		changed = append(changed, next)
		if !exists || old.State != next.State {
			log = append(log, finding.Change{FindingID: f.ID, Time: j.now, From: old.State, To: next.State, By: byAuditor, Note: note})
		}
		if !exists {
			e.metrics.findings.WithLabelValues(f.Rule, string(f.Severity)).Inc()
		}
	}
	unresolved, err := e.store.Unresolved(ctx, slices.Concat(j.whole, j.cut, j.former))
	if err != nil {
		return fmt.Errorf("read unresolved findings: %w", err)
	}
	for _, f := range unresolved {
		if holds[f.ID] || !j.over(f) {
			continue
		}
		note := cmp.Or(e.config.leftOut(f), goneNote(f, j.former))
		log = append(log, finding.Change{FindingID: f.ID, Time: j.now, From: f.State, To: finding.Resolved, By: byAuditor, Note: note})
		f.State, f.UpdatedAt = finding.Resolved, j.now
		changed = append(changed, f)
	}
	over, err := e.store.Findings(ctx, j.gone)
	if err != nil {
		return fmt.Errorf("read findings that are over: %w", err)
	}
	for _, id := range j.gone {
		f, ok := over[id]
		if !ok || f.State == finding.Resolved || holds[id] {
			continue
		}
		log = append(log, finding.Change{FindingID: id, Time: j.now, From: f.State, To: finding.Resolved, By: byAuditor, Note: cmp.Or(e.config.leftOut(f), goneNote(f, nil))})
		f.State, f.UpdatedAt = finding.Resolved, j.now
		changed = append(changed, f)
	}
	if len(changed) == 0 {
		return nil
	}
	if err := e.store.SaveFindings(ctx, changed, log); err != nil {
		return fmt.Errorf("store findings: %w", err)
	}
	return nil
}

func goneNote(f finding.Finding, former []history.Subject) string {
	formerly := func(s history.Subject) bool {
		return s.Namespace == f.Namespace && slices.Contains(f.TaskIDs, s.TaskID)
	}
	switch {
	case f.BusinessKey == "" && slices.ContainsFunc(former, formerly):
		return "its business key is known now"
	case f.Rule == StuckPending:
		return "the task went on or ended"
	case f.Rule == SwallowedWork:
		return "the work was done"
	case f.Rule == EventsLost:
		return "the missing events arrived"
	case f.Rule == Incident:
		return "its findings are resolved, or belong to another incident"
	}
	return "events that came later show that it did not happen so"
}

// grow makes the next version of a finding of what is known and what was found now, and tells whether it differs from
// the known one. A population is judged over a window that moves, so its finding never loses what it has seen.
func grow(old finding.Finding, exists bool, f finding.Finding) (next finding.Finding, note string, differs bool, err error) {
	if !exists {
		f.State = finding.Open
		return f, "found", true, nil
	}
	f.State, f.Version, f.Assignee = old.State, old.Version, old.Assignee
	if of, ok := old.Fields["incident"]; ok && f.Rule != Incident {
		f.Fields["incident"] = of
	}
	if f.BusinessKey == "" && len(f.Evidence) == 0 && old.FirstSeen.Before(f.FirstSeen) {
		f.FirstSeen = old.FirstSeen
	}
	if old.State == finding.Resolved && newer(old, f) {
		f.State, note = finding.Open, "new evidence"
	}
	same, err := equal(old, f)
	return f, note, !same, err
}

// newer reports whether f rests on evidence that old does not know.
func newer(old, f finding.Finding) bool {
	return f.LastSeen.After(old.LastSeen) || f.Effects > old.Effects
}

// equal compares what findings say, in the form in which they are stored and shown.
func equal(a, b finding.Finding) (bool, error) {
	x, err := json.Marshal(a)
	if err != nil {
		return false, err
	}
	y, err := json.Marshal(b)
	if err != nil {
		return false, err
	}
	return bytes.Equal(x, y), nil
}
