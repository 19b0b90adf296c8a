package rules

import (
	"context"
	"fmt"
	"slices"
	"time"

	"auditor/event/history"
)

// news is the keys that changed, in as many partitions as one look takes together, those with an older past apart: where that
// can be is known (see knownKeys), so that each key is looked for where it is and nowhere else. The zero value has none.
type news struct {
	ask      history.Stretch   // how to ask for them, but for which they are
	since    time.Time         // what arrived before counts for nothing
	recent   time.Time         // when the recent past begins
	young    []uint64          // keys of which nothing arrived before that
	old      []history.Arrived // the others, with when their older events arrived
	drifting map[uint64]history.Subject
}

const (
	oldPeriods  = 6             // into which the older past is cut
	newsAtOnce  = 100_000       // keys that are gathered before they are judged
	loadsALook  = 4             // shards of the known keys that are filled in by one look
	loadedSlice = 3 * time.Hour // how exactly it is known when the events that were stored at the start had arrived
)

// note adds the keys that changed in a stretch, of which the oldest change arrived then. When there are many it judges them.
func (e *Engine) note(ctx context.Context, n *news, q history.Stretch, oldest time.Time, at moment) error {
	keys, drifting, keyless, err := e.store.StretchKeys(ctx, q)
	if err != nil {
		return fmt.Errorf("read which keys changed: %w", err)
	}
	if err := e.loadKeys(ctx, q.Since); err != nil {
		return err
	}
	recent := later(oldest.Add(-youth), q.Since)
	var young []uint64
	for _, key := range keys {
		past, any := e.pastOf(key, q.Since, recent)
		if any {
			n.old = append(n.old, history.Arrived{Hash: key.Hash, Arrival: past})
		} else {
			young = append(young, key.Hash)
		}
		e.known.add(key.Hash, key.Arrival)
		for _, task := range key.Tasks {
			e.known.add(task, key.Arrival)
		}
	}
	if keyless {
		if young, err = e.withoutOldTasks(ctx, n, young, q.Since, recent); err != nil {
			return err
		}
	}
	if n.recent.IsZero() {
		n.since, n.recent, n.drifting = q.Since, recent, map[uint64]history.Subject{}
	}
	n.ask, n.since, n.recent = q, earlier(n.since, q.Since), earlier(n.recent, recent)
	n.young = append(n.young, young...)
	for hash, s := range drifting {
		n.drifting[hash] = s
	}
	if len(n.young)+len(n.old) < newsAtOnce {
		return nil
	}
	err = e.judgeNews(ctx, n, at)
	*n = news{}
	return err
}

// pastOf is when the events of a key, and those of its tasks that carry no key, arrived before the recent past; any is false when
// there were none.
func (e *Engine) pastOf(key history.Arrived, since, recent time.Time) (past history.Arrival, any bool) {
	past, any = e.known.before(key.Hash, since, recent)
	for _, task := range key.Tasks {
		if more, old := e.known.before(task, since, recent); old {
			past, any = past.And(more), true
		}
	}
	return past, any
}

// withoutOldTasks moves those of the young keys to the old ones of which another task has events without a key that are older.
func (e *Engine) withoutOldTasks(ctx context.Context, n *news, young []uint64, since, recent time.Time) ([]uint64, error) {
	keys, err := e.store.KeyTasks(ctx, young, recent)
	if err != nil {
		return nil, fmt.Errorf("read the tasks of the changed keys: %w", err)
	}
	moved := map[uint64]bool{}
	for _, key := range keys {
		if past, any := e.pastOf(key, since, recent); any {
			e.known.add(key.Hash, past)
			n.old, moved[key.Hash] = append(n.old, history.Arrived{Hash: key.Hash, Arrival: past}), true
		}
	}
	return slices.DeleteFunc(young, func(hash uint64) bool { return moved[hash] }), nil
}

// judgeNews judges the keys that changed: the young ones by what arrived of late, the old ones in groups.
func (e *Engine) judgeNews(ctx context.Context, n *news, at moment) error {
	if len(n.young) > 0 {
		q := n.ask
		q.Keys, q.Since = n.young, n.recent
		if err := e.judgeChanged(ctx, q, n.since, at); err != nil {
			return err
		}
	}
	for _, group := range n.groups() {
		q := n.ask
		q.Since, q.Quiet.Last = group[0].First, n.recent
		for _, key := range group {
			q.Keys, q.Since, q.Quiet.First = append(q.Keys, key.Hash), earlier(q.Since, key.First), later(q.Quiet.First, key.Last)
		}
		if err := e.judgeChanged(ctx, q, n.since, at); err != nil {
			return err
		}
	}
	var drifting []history.Subject
	for _, s := range n.drifting {
		drifting = append(drifting, s)
	}
	_, err := e.judgeAll(ctx, drifting, reach{since: n.since}, at)
	return err
}

// groups puts the old keys together whose past lies in the same period, and those of which it lies in several.
func (n *news) groups() [][]history.Arrived {
	length := n.recent.Sub(n.since)/oldPeriods + 1
	period := func(t time.Time) int { return int(t.Sub(n.since) / length) }
	groups := make([][]history.Arrived, oldPeriods+1)
	for _, key := range n.old {
		at := min(period(key.First), oldPeriods)
		if period(key.Last) != at {
			at = oldPeriods
		}
		groups[at] = append(groups[at], key)
	}
	return slices.DeleteFunc(groups, func(group []history.Arrived) bool { return len(group) == 0 })
}

// loadKeys fills in some of the known keys from the store, if there are some left.
func (e *Engine) loadKeys(ctx context.Context, since time.Time) error {
	e.known.ready(since)
	for range loadsALook {
		shard, any := e.known.unloaded()
		if !any {
			return nil
		}
		first, last := shardHashes(shard)
		arrivals, err := e.store.KeyArrivals(ctx, first, last, e.known.horizon, loadedSlice)
		if err != nil {
			return fmt.Errorf("read which keys there are: %w", err)
		}
		for arrived, hashes := range arrivals {
			e.known.keep(shard, arrived, hashes)
		}
		e.known.loaded[shard] = true
	}
	return nil
}
