package rules

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
)

// mostRemembered bounds the findings, and the tasks that are due, that a memory holds: at some kilobytes each, no more than a
// few hundred megabytes.
const mostRemembered = 100_000

// memory stands in for a store: it reads the past from one, and keeps in memory what the rules write. It serves one engine,
// for one judgement as of one moment.
type memory struct {
	Past
	until     time.Time // the moment of judgement: what is due later never comes
	next, end event.Cursor
	pending   map[pendingPlace]history.Pending
	found     map[string]finding.Finding
	about     map[history.Subject]map[string]bool // ids of the findings about each subject
}

type pendingPlace struct {
	history.Subject
	task string
}

func newMemory(past Past, until time.Time) *memory {
	return &memory{Past: past, until: until, next: event.Cursor{}, end: event.Cursor{}, pending: map[pendingPlace]history.Pending{}, found: map[string]finding.Finding{},
		about: map[history.Subject]map[string]bool{}}
}

// choose sets what the rules will take for new: the changes that reached Kafka from begin to the end of the window, and the
// tasks that were told earlier to begin within the window.
func (m *memory) choose(ctx context.Context, begin time.Time, w Window) error {
	confirmed, err := m.Past.Confirmed(ctx)
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	if m.next, m.end, err = m.Arrivals(ctx, begin, w.To); err != nil {
		return fmt.Errorf("find the changes of the window: %w", err)
	}
	for of, end := range m.end {
		m.end[of] = min(end, confirmed[of])
	}
	awaited, err := m.Awaited(ctx, begin, w.To, begin, mostRemembered+1)
	if err != nil {
		return fmt.Errorf("find the tasks that were to begin: %w", err)
	}
	for i := range awaited {
		awaited[i].Due = w.To
	}
	return m.SavePending(ctx, awaited)
}

// Cursor gives how far the replay has come.
func (m *memory) Cursor(context.Context, string) (event.Cursor, error) {
	return maps.Clone(m.next), nil
}

// SaveCursor stores it.
func (m *memory) SaveCursor(_ context.Context, _ string, at event.Cursor) error {
	maps.Copy(m.next, at)
	return nil
}

// Confirmed gives where the window ends.
func (m *memory) Confirmed(context.Context) (event.Cursor, error) { return m.end, nil }

// OpenPending is asked by none that judges the past.
func (m *memory) OpenPending(context.Context, int) ([]history.Pending, error) {
	return slices.Collect(maps.Values(m.pending)), nil
}

// DuePending gives the tasks that are due, the longest due first.
func (m *memory) DuePending(_ context.Context, _ []history.Subject, now time.Time, limit int) ([]history.Pending, error) {
	var due []history.Pending
	for _, t := range m.pending {
		if !t.Due.After(now) {
			due = append(due, t)
		}
	}
	slices.SortFunc(due, func(a, b history.Pending) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.BusinessKey, b.BusinessKey),
			cmp.Compare(a.PendingTaskID, b.PendingTaskID))
	})
	return due[:min(limit, len(due))], nil
}

// SavePending stores how tasks stand, as far as they are due at the moment of judgement.
func (m *memory) SavePending(_ context.Context, tasks []history.Pending) error {
	for _, t := range tasks {
		place := placeOf(t)
		if t.Open && !t.Due.After(m.until) {
			m.pending[place] = t
		} else {
			delete(m.pending, place)
		}
	}
	return m.bounded(len(m.pending), "tasks that are due")
}

// Findings gives those of the ids that were found.
func (m *memory) Findings(_ context.Context, ids []string) (map[string]finding.Finding, error) {
	found := map[string]finding.Finding{}
	for _, id := range ids {
		if f, ok := m.found[id]; ok {
			found[id] = f
		}
	}
	return found, nil
}

// Unresolved gives the findings about the subjects that are not resolved.
func (m *memory) Unresolved(_ context.Context, subjects []history.Subject) ([]finding.Finding, error) {
	var all []finding.Finding
	for _, s := range subjects {
		for _, id := range slices.Sorted(maps.Keys(m.about[s])) {
			if f := m.found[id]; f.State != finding.Resolved {
				all = append(all, f)
			}
		}
	}
	return all, nil
}

// SaveFindings stores findings; their log is not kept.
func (m *memory) SaveFindings(_ context.Context, findings []finding.Finding, _ []finding.Change) error {
	for _, f := range findings {
		f.Version++
		m.found[f.ID] = f
		if s, ok := subjectOf(f); ok {
			if m.about[s] == nil {
				m.about[s] = map[string]bool{}
			}
			m.about[s][f.ID] = true
		}
	}
	return m.bounded(len(m.found), "findings")
}

// FreshRoots gives the first and the last moment of what findings come from that changed since a time.
func (m *memory) FreshRoots(_ context.Context, since time.Time) (first, last time.Time, any bool, err error) {
	for _, f := range m.found {
		if r, ok := rootOf(f); ok && !f.UpdatedAt.Before(since) {
			if !any || r.At.Before(first) {
				first = r.At
			}
			last, any = later(last, r.At), true
		}
	}
	return first, last, any, nil
}

// Rooted gives the findings that tell a root between two moments.
func (m *memory) Rooted(_ context.Context, from, until time.Time) ([]finding.Finding, error) {
	var all []finding.Finding
	for _, id := range slices.Sorted(maps.Keys(m.found)) {
		f := m.found[id]
		if r, ok := rootOf(f); ok && !r.At.Before(from) && !r.At.After(until) {
			all = append(all, f)
		}
	}
	return all, nil
}

// AllFindings gives the findings that hold, in order of id.
func (m *memory) AllFindings(context.Context) ([]finding.Finding, error) {
	var all []finding.Finding
	for _, id := range slices.Sorted(maps.Keys(m.found)) {
		if f := m.found[id]; f.State != finding.Resolved {
			all = append(all, f)
		}
	}
	return all, nil
}

// OpenFindings is AllFindings: what does not hold is not kept.
func (m *memory) OpenFindings(ctx context.Context) ([]finding.Finding, error) {
	return m.AllFindings(ctx)
}

func (m *memory) bounded(n int, what string) error {
	if n > mostRemembered {
		return fmt.Errorf("the window has more than %d %s: choose a shorter one", mostRemembered, what)
	}
	return nil
}
