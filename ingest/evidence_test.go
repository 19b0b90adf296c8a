package ingest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sort"
	"time"

	"auditor/event"
)

// The memory store as the comparison reads it. It counts the questions, so that a test sees what a comparison costs.

func placeOf(of event.PartitionID) place { return place{of.Topic, of.Partition} }

func (s *memoryStore) Settle(context.Context) error { return nil }

func (s *memoryStore) Ledger(_ context.Context, of event.PartitionID, from, after int64, limit int) ([]event.Covered, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	var rows []event.Covered
	for _, b := range s.ledger[placeOf(of)] {
		if b.First >= from && b.Last > after {
			rows = append(rows, event.Covered{First: b.First, Last: b.Last, Records: b.Records, Events: len(b.Events) + b.StoredEvents,
				Rejects: len(b.Rejects) + b.StoredRejects, Lost: b.Lost, Time: b.Time, Oldest: b.Oldest})
		}
	}
	slices.SortFunc(rows, func(a, b event.Covered) int {
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last))
	})
	return rows[:min(limit, len(rows))], nil
}

func (s *memoryStore) LedgerExtent(_ context.Context, of event.PartitionID) (event.Extent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var x event.Extent
	for _, b := range s.ledger[placeOf(of)] {
		if x.Ranges == 0 || b.First < x.Start {
			x.Start = b.First
		}
		x.Ranges++
		x.Next, x.Longest = max(x.Next, b.Last+1), max(x.Longest, b.Last-b.First+1)
	}
	return x, nil
}

func (s *memoryStore) rows(of event.PartitionID, first, last int64) map[event.Position]int {
	all := make(map[event.Position]int)
	for _, table := range []map[event.Position]int{s.events, s.rejects} {
		for at, n := range table {
			if at.Topic == of.Topic && at.Partition == of.Partition && first <= at.Offset && at.Offset <= last {
				all[at] += n
			}
		}
	}
	return all
}

func (s *memoryStore) Tally(_ context.Context, of event.PartitionID, firsts []int64, last int64) ([]event.Tally, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	tallies := make([]event.Tally, len(firsts))
	offsets := make(map[int64]bool)
	for i, first := range firsts {
		tallies[i].First = first
	}
	for at, n := range s.rows(of, firsts[0], last) {
		t := &tallies[sort.Search(len(firsts), func(i int) bool { return firsts[i] > at.Offset })-1]
		t.Rows += int64(n)
		t.Positions++
		if !offsets[at.Offset] {
			offsets[at.Offset] = true
			t.Offsets++
		}
	}
	return tallies, nil
}

func (s *memoryStore) Held(_ context.Context, of event.PartitionID, first, last int64) ([]event.Held, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	all := make(map[int64]event.Held)
	for at, n := range s.rows(of, first, last) {
		h := all[at.Offset]
		all[at.Offset] = event.Held{Offset: at.Offset, Rows: h.Rows + int64(n), Positions: h.Positions + 1, Top: max(h.Top, at.Index)}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b event.Held) int { return cmp.Compare(a.Offset, b.Offset) }), nil
}

func (s *memoryStore) KeptFrom(context.Context) (time.Time, error) { return s.kept, nil }

// remove deletes rows behind the store's back.
func (s *memoryStore) remove(offset int64, index int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := event.Position{Topic: topic, Offset: offset, Index: index}
	delete(s.events, at)
	delete(s.rejects, at)
}
