package rules

import (
	"context"
	"fmt"
	"slices"
	"time"

	"auditor/event/history"
)

// news is the keys that changed, in as many partitions as one look takes together, those with an older past apart: where that
// can be is known (see knownKeys), so that each key is looked for where it is and nowhere else.
type news struct {
	keyless  bool              // events of their tasks may stand under the hashes of the tasks
	since    time.Time         // what arrived before counts for nothing
	recent   time.Time         // when the recent past begins
	now      time.Time         // when the oldest change arrived
	fresh    []history.Arrived // keys of which nothing arrived before that
	young    []history.Arrived // those of which nothing arrived before the recent past, with when their events arrived since
	old      []history.Arrived // the others, with when their older events arrived
	home     map[uint64]uint64 // the key under which each task changed
	drifting map[uint64]bool   // the keys of tasks that changed under several
}

const (
	oldPeriods  = 8             // into which the older past is cut
	fewOld      = 100           // keys that may lie anywhere in it
	newsAtOnce  = 100_000       // keys that are gathered before they are judged
	loadsALook  = 4             // shards of the known keys that are filled in by one look
	underWay    = time.Minute   // that most tasks take: the youngest keys have arrived since then
	loadedSlice = 3 * time.Hour // how exactly it is known when the events that were stored at the start had arrived
)

func newNews(keyless bool) *news {
	return &news{keyless: keyless, home: map[uint64]uint64{}, drifting: map[uint64]bool{}}
}

// note adds the keys that changed in a stretch, of which the oldest change arrived then. When there are many it judges them. Those
// of the past it judges at once.
func (e *Engine) note(ctx context.Context, n *news, keys []history.Arrived, oldest time.Time, at moment) error {
	since := e.since(oldest, at)
	if at.past {
		of := newNews(n.keyless)
		q := history.Stretch{Keyless: n.keyless, Since: since, Until: at.limit()}
		for _, key := range keys {
			of.drift(key)
			q.Keys = append(q.Keys, key.Hash)
		}
		return e.judgeChanged(ctx, since, at, of.drifting, q)
	}
	if err := e.loadKeys(ctx, since); err != nil {
		return err
	}
	recent := later(oldest.Add(-youth), since)
	n.widen(since, recent, oldest)
	var young []history.Arrived
	for _, key := range keys {
		n.drift(key)
		if !n.keyless {
			key.Tasks = nil
		}
		if past, any := e.pastOf(key, since, recent); any {
			n.old = append(n.old, history.Arrived{Hash: key.Hash, Tasks: key.Tasks, Arrival: past})
		} else if past, any := e.pastOf(key, recent, oldest); any {
			young = append(young, history.Arrived{Hash: key.Hash, Tasks: key.Tasks, Arrival: past})
		} else {
			n.fresh = append(n.fresh, key)
		}
		e.known.add(key.Hash, key.Arrival)
		for _, task := range key.Tasks {
			e.known.add(task, key.Arrival)
		}
	}
	if n.keyless {
		var err error
		if young, err = e.withAllTasks(ctx, n, young, since, recent, oldest); err != nil {
			return err
		}
	}
	n.young = append(n.young, young...)
	if len(n.fresh)+len(n.young)+len(n.old) < newsAtOnce {
		return nil
	}
	err := e.judgeNews(ctx, n, at)
	*n = *newNews(n.keyless)
	return err
}

// widen takes in the times of one more stretch.
func (n *news) widen(since, recent, now time.Time) {
	n.since, n.recent, n.now = earliest(n.since, since), earliest(n.recent, recent), earliest(n.now, now)
}

// drift notes under which key tasks changed.
func (n *news) drift(key history.Arrived) {
	for _, task := range key.Tasks {
		if task == key.Hash { // the task has no key
			continue
		}
		if home, known := n.home[task]; known && home != key.Hash {
			n.drifting[home], n.drifting[key.Hash] = true, true
		}
		n.home[task] = key.Hash
	}
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
	keys, err := e.store.KeyTasks(ctx, hashesOf(young), recent)
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
			n.old = append(n.old, history.Arrived{Hash: key.Hash, Tasks: key.Tasks, Arrival: past})
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
	if err := e.sift(ctx, n, at); err != nil {
		return err
	}
	fresh := history.Stretch{Keys: hashesOf(n.fresh), Keyless: n.keyless, Since: n.now, Until: at.limit()}
	young := history.Stretch{Keyless: n.keyless, Since: n.now, Until: at.limit()}
	for _, key := range n.young {
		q := &young
		if key.First.After(n.now.Add(-underWay)) {
			q = &fresh
		}
		q.Keys, q.Since = append(q.Keys, key.Hash), earlier(q.Since, key.First)
	}
	stretches := []history.Stretch{fresh, young}
	for _, group := range n.groups() {
		span := arrivalOf(group)
		stretches = append(stretches, history.Stretch{Keys: hashesOf(group), Keyless: n.keyless, Since: span.First, Until: at.limit(),
			Quiet: history.Arrival{First: span.Last, Last: n.recent}})
	}
	return e.judgeChanged(ctx, n.since, at, n.drifting, stretches...)
}

func hashesOf(keys []history.Arrived) []uint64 {
	hashes := make([]uint64, len(keys))
	for i := range keys {
		hashes[i] = keys[i].Hash
	}
	return hashes
}

func arrivalOf(keys []history.Arrived) (all history.Arrival) {
	for _, key := range keys {
		all = all.And(key.Arrival)
	}
	return all
}

// groups puts the old keys together whose past begins in the same period, and those of which it is longer than a period; few of them
// it puts all together, for each group is asked for by itself.
func (n *news) groups() [][]history.Arrived {
	if len(n.old) == 0 {
		return nil
	}
	if len(n.old) <= fewOld {
		return [][]history.Arrived{n.old}
	}
	length := n.recent.Sub(n.since)/oldPeriods + 1
	period := func(t time.Time) int { return int(t.Sub(n.since) / length) }
	groups := make([][]history.Arrived, oldPeriods+1)
	for _, key := range n.old {
		at := min(period(key.First), oldPeriods)
		if key.Last.Sub(key.First) > length {
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
