package queries

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"time"

	"auditor/event/history"
)

// StretchKeys gives the keys that changed in a stretch, and by their hash the subjects among them that are suspect for that
// alone: a task stands under several of them. With keyless, events of the same tasks may stand under hashes of their own.
func (s *Store) StretchKeys(ctx context.Context, q history.Stretch) (keys []history.Arrived, suspects map[uint64]history.Subject, keyless bool, err error) {
	type row struct {
		Hash        uint64    `ch:"key_hash"`
		First       time.Time `ch:"first_arrival"`
		Last        time.Time `ch:"last_arrival"`
		Tasks       []uint64  `ch:"tasks"`
		Drifts      uint8     `ch:"drifts"`
		Namespace   string    `ch:"namespace"`
		BusinessKey string    `ch:"business_key"`
	}
	if keyless, err = s.anyKeyless(ctx); err != nil {
		return nil, nil, false, err
	}
	rows, err := selectAll[row](ctx, s, "rules/stretch_keys", params{"topic": q.Of.Topic, "partition": q.Of.Partition,
		"from": q.From, "to": q.To, "keyless": keyless})
	if err != nil {
		return nil, nil, false, err
	}
	suspects = map[uint64]history.Subject{}
	for _, r := range rows {
		keys = append(keys, history.Arrived{Hash: r.Hash, Tasks: r.Tasks, Arrival: history.Arrival{First: r.First, Last: r.Last}})
		if r.Drifts > 0 {
			suspects[r.Hash] = history.Subject{Namespace: r.Namespace, BusinessKey: r.BusinessKey}
		}
	}
	return keys, suspects, keyless, nil
}

// KeyTasks gives the tasks of the business keys of some hashes, by the hashes under which events of these tasks stand that carry no
// key, as far as events that carry it reached Kafka since then.
func (s *Store) KeyTasks(ctx context.Context, hashes []uint64, since time.Time) ([]history.Arrived, error) {
	type row struct {
		Hash  uint64   `ch:"key_hash"`
		Tasks []uint64 `ch:"tasks"`
	}
	var all []history.Arrived
	for some := range slices.Chunk(hashes, hashesAtOnce) {
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
