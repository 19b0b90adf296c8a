package rules

import (
	"context"
	"fmt"
	"maps"
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
	now      time.Time         // when the oldest change arrived
	fresh    []uint64          // keys of which nothing arrived before that
	young    []history.Arrived // those of which nothing arrived before the recent past, with when their events arrived since
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
	var young []history.Arrived
	for _, key := range keys {
		if past, any := e.pastOf(key, q.Since, recent); any {
			n.old = append(n.old, history.Arrived{Hash: key.Hash, Arrival: past})
		} else if past, any := e.pastOf(key, recent, oldest); any {
			young = append(young, history.Arrived{Hash: key.Hash, Arrival: past})
		} else {
			n.fresh = append(n.fresh, key.Hash)
		}
		e.known.add(key.Hash, key.Arrival)
		for _, task := range key.Tasks {
			e.known.add(task, key.Arrival)
		}
	}
	if keyless {
		if young, err = e.withAllTasks(ctx, n, young, q.Since, recent, oldest); err != nil {
			return err
		}
	}
	if n.recent.IsZero() {
		n.since, n.recent, n.now, n.drifting = q.Since, recent, oldest, map[uint64]history.Subject{}
	}
	n.ask, n.young = q, append(n.young, young...)
	n.since, n.recent, n.now = earlier(n.since, q.Since), earlier(n.recent, recent), earlier(n.now, oldest)
	maps.Copy(n.drifting, drifting)
	if len(n.fresh)+len(n.young)+len(n.old) < newsAtOnce {
		return nil
	}
	err = e.judgeNews(ctx, n, at)
	*n = news{}
	return err
}

// pastOf is when the events of a key, and those of its tasks that carry no key, arrived from one moment to before another; any is
// false when there were none.
func (e *Engine) pastOf(key history.Arrived, from, to time.Time) (past history.Arrival, any bool) {
	own, any := e.known.before(key.Hash, from, to)
	past = own
	for _, task := range key.Tasks {
		if more, has := e.known.before(task, from, to); has {
			past, any = past.And(more), true
		}
	}
	if past != own {
		e.known.add(key.Hash, past)
	}
	return past, any
}

// withAllTasks takes into account that young keys may have further tasks of which events arrived earlier that carry no key. Those of
// the keys that turn out to be old it adds to the news, and gives the others.
func (e *Engine) withAllTasks(ctx context.Context, n *news, young []history.Arrived, since, recent, oldest time.Time) ([]history.Arrived, error) {
	hashes := make([]uint64, len(young))
	for i := range young {
		hashes[i] = young[i].Hash
	}
	keys, err := e.store.KeyTasks(ctx, hashes, recent)
	if err != nil {
		return nil, fmt.Errorf("read the tasks of the changed keys: %w", err)
	}
	tasks := map[uint64][]uint64{}
	for _, key := range keys {
		tasks[key.Hash] = key.Tasks
	}
	var still []history.Arrived
	for _, key := range young {
		key.Tasks = tasks[key.Hash]
		if past, any := e.pastOf(key, since, recent); any {
			n.old = append(n.old, history.Arrived{Hash: key.Hash, Arrival: past})
			continue
		}
		if past, any := e.pastOf(key, recent, oldest); any {
			key.Arrival = key.Arrival.And(past)
		}
		still = append(still, key)
	}
	return still, nil
}

// judgeNews judges the keys that changed: the fresh and the young ones by what arrived of late, the old ones in groups.
func (e *Engine) judgeNews(ctx context.Context, n *news, at moment) error {
	fresh, young := n.ask, n.ask
	fresh.Keys, fresh.Since, young.Since = n.fresh, n.now, n.now
	for _, key := range n.young {
		young.Keys, young.Since = append(young.Keys, key.Hash), earlier(young.Since, key.First)
	}
	stretches := []history.Stretch{fresh, young}
	for _, group := range n.groups() {
		q := n.ask
		q.Since, q.Quiet.Last = group[0].First, n.recent
		for _, key := range group {
			q.Keys, q.Since, q.Quiet.First = append(q.Keys, key.Hash), earlier(q.Since, key.First), later(q.Quiet.First, key.Last)
		}
		stretches = append(stretches, q)
	}
	stretches = slices.DeleteFunc(stretches, func(q history.Stretch) bool { return len(q.Keys) == 0 })
	return e.judgeChanged(ctx, n.since, at, slices.Collect(maps.Values(n.drifting)), stretches...)
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
