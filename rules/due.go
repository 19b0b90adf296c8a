package rules

import (
	"context"
	"fmt"
	"slices"
	"time"

	"auditor/event/history"
)

const (
	dueAtOnce = 2000        // due tasks that one look judges
	recheck   = time.Minute // until a due task that could not be judged, or is stuck, is looked at again
	dueShare  = 50          // of the events of a key that are read, each due task gets one in so many
)

// due judges the tasks without an end whose time has come, from all that is kept of them: they may have begun long ago.
// It reports whether more of them are left.
func (e *Engine) due(ctx context.Context, at moment) (more bool, err error) {
	tasks, more, err := e.duePending(ctx, at, dueAtOnce)
	if err != nil {
		return false, fmt.Errorf("read the tasks without an end: %w", err)
	}
	for _, some := range rounds(tasks, max(1, e.config.MaxKeyEvent/dueShare)) {
		var subjects []history.Subject
		ids := make([]string, len(some))
		for i, t := range some {
			ids[i] = t.PendingTaskID
			if s := subjectNow(t); !slices.Contains(subjects, s) {
				subjects = append(subjects, s)
			}
		}
		judged, err := e.judgeAll(ctx, subjects, reach{first: ids}, at)
		if err != nil {
			return false, err
		}
		if err := e.savePending(ctx, unjudged(some, judged, at)); err != nil {
			return false, err
		}
	}
	return more, nil
}

// subjectNow is the subject that a noted task is known under now: its key may have become known.
func subjectNow(t history.Pending) history.Subject {
	if t.KnownKey != "" {
		return history.Subject{Namespace: t.Namespace, BusinessKey: t.KnownKey}
	}
	return t.Subject
}

// rounds deals tasks out so that each round has at most so many of one subject: their events are read before all others,
// and must not leave each other out.
func rounds(tasks []history.Pending, ofSubject int) [][]history.Pending {
	var all [][]history.Pending
	dealt := map[history.Subject]int{}
	for _, t := range tasks {
		s := subjectNow(t)
		round := dealt[s] / ofSubject
		dealt[s]++
		if round == len(all) {
			all = append(all, nil)
		}
		all[round] = append(all[round], t)
	}
	return all
}

// unjudged says what becomes of the noted tasks that were not judged under the subject they were noted for: their key has
// become known, or their events are kept no longer, so that they would be due for ever; or their subject has more events
// than are read at once, and they are looked at again.
func unjudged(noted []history.Pending, judged told, at moment) []history.Pending {
	type place struct {
		history.Subject
		task string
	}
	seen := make(map[place]bool, len(judged.tasks))
	for _, t := range judged.tasks {
		seen[place{t.Subject, t.PendingTaskID}] = true
	}
	var left []history.Pending
	for _, t := range noted {
		if seen[place{t.Subject, t.PendingTaskID}] {
			continue
		}
		t.Open = slices.Contains(judged.cut, t.Subject)
		t.Due = at.known.Add(recheck)
		left = append(left, t)
	}
	return left
}
