package rules

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"auditor/event/history"
)

// sift leaves out of the news what is healthy at a glance, and the past that has nothing to do with it, by a few columns of the
// events: most keys work once and well, and another task of the same key long ago is none of theirs.
func (e *Engine) sift(ctx context.Context, n *news, at moment) error {
	if err := e.leavePast(ctx, n); err != nil {
		return err
	}
	var hashes []uint64
	for _, key := range n.fresh {
		hashes = append(append(hashes, key.Hash), key.Tasks...)
	}
	if n.keyless {
		slices.Sort(hashes)
		hashes = slices.Compact(hashes)
	}
	plain, err := e.store.Plain(ctx, hashes, n.now, at.limit())
	if err != nil {
		return fmt.Errorf("read which keys are plain: %w", err)
	}
	healthy := make(map[uint64]bool, len(plain))
	for _, hash := range plain {
		healthy[hash] = true
	}
	n.fresh = slices.DeleteFunc(n.fresh, func(key history.Arrived) bool { return healthy[key.Hash] && !n.drifting[key.Hash] })
	return nil
}

// leavePast takes old keys for fresh or young ones where the older past is of other tasks with other effects. Where events come
// without a key or a name, that is not known, and they stay.
func (e *Engine) leavePast(ctx context.Context, n *news) error {
	if n.keyless || len(n.old) == 0 {
		return nil
	}
	late := map[uint64]history.Arrival{} // what may have arrived of old keys in the recent past
	for _, key := range n.old {
		if arrived, any := e.pastOf(key, n.recent, n.now); any {
			late[key.Hash] = arrived
		}
	}
	present, err := e.works(ctx, hashesOf(n.old), n.now, time.Time{})
	if err != nil {
		return err
	}
	lately, err := e.works(ctx, slices.Collect(maps.Keys(late)), n.recent, n.now)
	if err != nil {
		return err
	}
	var old []history.Arrived
	for _, group := range n.groups() {
		span := arrivalOf(group)
		past, err := e.works(ctx, hashesOf(group), span.First, earlier(span.Last.Add(time.Millisecond), n.recent))
		if err != nil {
			return err
		}
		for _, key := range group {
			of, any := lately[key.Hash]
			if past[key.Hash].Meet(present[key.Hash]) || any && past[key.Hash].Meet(of) {
				old = append(old, key)
			} else if any {
				n.young = append(n.young, history.Arrived{Hash: key.Hash, Arrival: late[key.Hash]})
			} else {
				n.fresh = append(n.fresh, key)
			}
		}
	}
	n.old = old
	return nil
}

func (e *Engine) works(ctx context.Context, hashes []uint64, from, to time.Time) (map[uint64]history.Works, error) {
	works, err := e.store.Works(ctx, hashes, from, to)
	if err != nil {
		return nil, fmt.Errorf("read what the changed keys did: %w", err)
	}
	return works, nil
}
