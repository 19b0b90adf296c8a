package rules

import (
	"slices"
	"time"

	"auditor/event/history"
)

// knownKeys knows of every key whether it has had events, and when these arrived, so that nobody need look for the past of a key
// that has none: most keys are new, and to learn that from the store takes a look into each part of it. It may take a key for
// older than it is, never for younger: what it does not know for sure, it says may be as old as can be.
//
// The last half hour it knows exactly, and all before by Bloom filters. It is filled from the store at the start, one shard
// after another, and then with the keys of each look. The zero value knows nothing.
type knownKeys struct {
	limit   int       // what the filters may take, in bytes: of more keys the oldest are forgotten, and looked for again
	horizon time.Time // what arrived before is not known; zero: nothing is
	loaded  [keyShards]bool
	filters [keyShards][]*generation      // by the first bits of the hash; the oldest first but for loaded ones
	size    int                           // of the filters, in bytes
	young   [2]map[uint64]history.Arrival // the present one, and the one before
	begun   time.Time                     // when the oldest in the present one arrived
}

// generation is the keys of a time.
type generation struct {
	history.Arrival
	keys bloom
}

const (
	keyShardBits = 6
	keyShards    = 1 << keyShardBits
	keySlack     = 24 * time.Hour   // how much further back than it is asked for the memory reaches
	youth        = 15 * time.Minute // that keys are known exactly, or twice as long
	youngest     = 1 << 18          // keys that are known exactly in one such time
)

// shardHashes gives the first and the last hash of a shard.
func shardHashes(shard int) (first, last uint64) {
	const width = 64 - keyShardBits
	return uint64(shard) << width, uint64(shard)<<width | 1<<width - 1
}

func shardOf(hash uint64) int { return int(hash >> (64 - keyShardBits)) }

// ready prepares the memory for questions about what arrived from floor on.
func (k *knownKeys) ready(floor time.Time) {
	if k.horizon.IsZero() {
		k.horizon = floor.Add(-keySlack)
		k.young = [2]map[uint64]history.Arrival{{}, {}}
	}
	if floor.Add(-2 * keySlack).After(k.horizon) {
		k.forget(floor.Add(-keySlack))
	}
}

// unloaded gives a shard that is to be filled from the store.
func (k *knownKeys) unloaded() (shard int, any bool) {
	shard = slices.Index(k.loaded[:], false)
	return max(shard, 0), shard >= 0
}

// before tells when the events of a key arrived that did so from floor on and before a time; any is false when there were
// none. The times may lie further apart than those of the events.
func (k *knownKeys) before(hash uint64, floor, end time.Time) (a history.Arrival, any bool) {
	shard := shardOf(hash)
	if !k.loaded[shard] || floor.Before(k.horizon) {
		return history.Arrival{First: floor, Last: end}, true
	}
	for _, young := range k.young {
		if t, known := young[hash]; known && t.First.Before(end) {
			a, any = a.And(t), true
		}
	}
	for _, g := range k.filters[shard] {
		if !g.Last.Before(floor) && g.First.Before(end) && g.keys.has(hash) {
			a, any = a.And(g.Arrival), true
		}
	}
	if !any {
		return history.Arrival{}, false
	}
	return history.Arrival{First: later(a.First, floor), Last: earlier(a.Last, end)}, true
}

// add notes that a key has events that arrived in a time.
func (k *knownKeys) add(hash uint64, a history.Arrival) {
	if k.begun.IsZero() || len(k.young[0]) >= youngest || a.Last.Sub(k.begun) > youth {
		k.age()
		k.begun = a.Last
	}
	k.young[0][hash] = k.young[0][hash].And(a)
}

// age makes filters of what was known exactly for longest.
func (k *knownKeys) age() {
	var hashes [keyShards][]uint64
	var all history.Arrival
	for hash, a := range k.young[1] {
		hashes[shardOf(hash)] = append(hashes[shardOf(hash)], hash)
		all = all.And(a)
	}
	for shard, some := range hashes {
		k.keep(shard, all, some)
	}
	k.young = [2]map[uint64]history.Arrival{{}, k.young[0]}
}

// keep makes a filter of some keys of a shard that had events which arrived in a time.
func (k *knownKeys) keep(shard int, a history.Arrival, hashes []uint64) {
	if len(hashes) == 0 {
		return
	}
	g := &generation{Arrival: a, keys: newBloom(len(hashes))}
	for _, h := range hashes {
		g.keys.add(h)
	}
	k.filters[shard] = append(k.filters[shard], g)
	k.size += g.keys.bytes()
	for k.size > k.limit {
		k.forget(k.oldest())
	}
}

// oldest is when the events of the generation that ended first had all arrived.
func (k *knownKeys) oldest() (end time.Time) {
	for _, of := range k.filters {
		for _, g := range of {
			if end.IsZero() || g.Last.Before(end) {
				end = g.Last
			}
		}
	}
	return end
}

// forget forgets what arrived until a time.
func (k *knownKeys) forget(until time.Time) {
	k.horizon = later(k.horizon, until.Add(time.Millisecond))
	for shard, of := range k.filters {
		k.filters[shard] = slices.DeleteFunc(of, func(g *generation) bool {
			if !g.Last.Before(k.horizon) {
				return false
			}
			k.size -= g.keys.bytes()
			return true
		})
	}
}
