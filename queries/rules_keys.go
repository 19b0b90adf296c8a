package queries

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"iter"
	"slices"
	"time"

	"auditor/event"
	"auditor/event/history"
)

// NextChange gives the first offset of a partition from one offset to before another at which a key changed; false when there
// is none.
func (s *Store) NextChange(ctx context.Context, of event.PartitionID, from, end int64) (int64, bool, error) {
	return selectOne[int64](ctx, s, "rules/next_change", params{"topic": of.Topic, "partition": of.Partition, "from": from, "end": end})
}

// StretchKeys gives the keys that changed in a range of offsets of a partition, each once, with the tasks that changed them. A task
// that changed by an event without a key counts for the keys that it is known to stand under, or else for itself.
func (s *Store) StretchKeys(ctx context.Context, of event.PartitionID, from, to int64) ([]history.Arrived, error) {
	type row struct {
		Hash    uint64    `ch:"key_hash"`
		Keyless bool      `ch:"keyless"`
		Tasks   []uint64  `ch:"tasks"`
		First   time.Time `ch:"first_arrival"`
		Last    time.Time `ch:"last_arrival"`
	}
	p := params{"topic": of.Topic, "partition": of.Partition, "from": from, "to": to}
	rows, err := selectAll[row](ctx, s, "rules/stretch_keys", p)
	if err != nil {
		return nil, err
	}
	linked := map[uint64][]uint64{}
	if slices.ContainsFunc(rows, func(r row) bool { return r.Keyless }) {
		if linked, err = s.linked(ctx, p); err != nil {
			return nil, err
		}
	}
	keys := make([]history.Arrived, 0, len(rows))
	place := make(map[uint64]int, len(rows))
	for _, r := range rows {
		under := linked[r.Hash]
		if len(under) == 0 {
			under = []uint64{r.Hash}
		}
		for _, hash := range under {
			i, seen := place[hash]
			if !seen {
				i = len(keys)
				place[hash], keys = i, append(keys, history.Arrived{Hash: hash})
			}
			keys[i].Tasks = append(keys[i].Tasks, r.Tasks...)
			keys[i].Arrival = keys[i].And(history.Arrival{First: r.First, Last: r.Last})
		}
	}
	return keys, nil
}

// linked gives the keys of the tasks that changed by an event without a key, all by their hashes.
func (s *Store) linked(ctx context.Context, p params) (map[uint64][]uint64, error) {
	type row struct {
		Task uint64 `ch:"task_hash"`
		Key  uint64 `ch:"key_hash"`
	}
	rows, err := selectAll[row](ctx, s, "rules/linked", p)
	keys := make(map[uint64][]uint64, len(rows))
	for _, r := range rows {
		keys[r.Task] = append(keys[r.Task], r.Key)
	}
	return keys, err
}

// Plain gives those of some keys of which all that reached Kafka since then is the plain life of one task, which no rule finds
// anything in. Where events come without a key, the hashes of the keys' tasks belong to those that are asked for.
func (s *Store) Plain(ctx context.Context, hashes []uint64, since, until time.Time) ([]uint64, error) {
	var all []uint64
	for some := range hashChunks(hashes) {
		plain, err := selectAll[uint64](ctx, s, "rules/plain", params{"hashes": hashText(some), "since": since, "until": until})
		if err != nil {
			return nil, err
		}
		all = append(all, plain...)
	}
	return all, nil
}

// Works gives the names of the tasks that worked for some keys, and of the effects that they had, by what reached Kafka from one
// time to before another; a zero one is the end of time.
func (s *Store) Works(ctx context.Context, hashes []uint64, from, to time.Time) (map[uint64]history.Works, error) {
	type row struct {
		Hash    uint64   `ch:"key_hash"`
		Tasks   []string `ch:"tasks"`
		Effects []string `ch:"effects"`
	}
	if to.IsZero() {
		to = latest
	}
	works := make(map[uint64]history.Works, len(hashes))
	for some := range hashChunks(hashes) {
		rows, err := selectAll[row](ctx, s, "rules/works", params{"hashes": hashText(some), "from": from, "to": to})
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			works[r.Hash] = history.Works{Tasks: r.Tasks, Effects: r.Effects}
		}
	}
	return works, nil
}

// KeyTasks gives the tasks of the business keys of some hashes, by the hashes under which events of these tasks stand that carry no
// key, as far as events that carry it reached Kafka since then.
func (s *Store) KeyTasks(ctx context.Context, hashes []uint64, since time.Time) ([]history.Arrived, error) {
	type row struct {
		Hash  uint64   `ch:"key_hash"`
		Tasks []uint64 `ch:"tasks"`
	}
	var all []history.Arrived
	for some := range hashChunks(hashes) {
		rows, err := selectAll[row](ctx, s, "rules/key_tasks", params{"hashes": hashText(some), "since": since})
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			all = append(all, history.Arrived{Hash: r.Hash, Tasks: r.Tasks})
		}
	}
	return all, nil
}

// hashesAtOnce are as many hashes as fit into one request: parameters travel in the address of an HTTP request, and ClickHouse takes
// 128 KiB for one of them.
const hashesAtOnce = 12_000

// hashChunks cuts hashes into as many as are asked for at once, each of them from a stretch of its own of the order in which events
// lie, so that all together read no more than one would.
func hashChunks(hashes []uint64) iter.Seq[[]uint64] {
	return slices.Chunk(slices.Sorted(slices.Values(hashes)), hashesAtOnce)
}

// hashText writes hashes as the statements read them, in less than half of the room that a list of numbers takes.
func hashText(hashes []uint64) string {
	bytes := make([]byte, 0, 8*len(hashes))
	for _, h := range hashes {
		bytes = binary.LittleEndian.AppendUint64(bytes, h)
	}
	return base64.StdEncoding.EncodeToString(bytes)
}

// KeyArrivals gives the hashes, from first to last, of the keys that have events which reached Kafka since then, by slices of time.
func (s *Store) KeyArrivals(ctx context.Context, first, last uint64, since time.Time, slice time.Duration) (map[history.Arrival][]uint64, error) {
	type row struct {
		First  time.Time `ch:"first_arrival"`
		Last   time.Time `ch:"last_arrival"`
		Hashes []uint64  `ch:"hashes"`
	}
	rows, err := selectAll[row](ctx, s, "rules/key_arrivals", params{"first": first, "last": last, "since": since,
		"slice": uint32(slice.Seconds())})
	if err != nil {
		return nil, err
	}
	bySlice := make(map[history.Arrival][]uint64, len(rows))
	for _, r := range rows {
		bySlice[history.Arrival{First: r.First, Last: r.Last}] = r.Hashes
	}
	return bySlice, nil
}
