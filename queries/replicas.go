package queries

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"auditor/event"
)

// What has to be seen on replicas
//
// An insert is acknowledged once it is on a quorum of its shard's replicas. The others get it later, so that one of them,
// asked, does not know yet what was acknowledged. Three things keep that from doing harm:
//
//   - Reads go where the inserts went, to the first replica of a shard that answers (load_balancing = in_order), and never
//     to one that is replicaDelay behind. Replicas are there to take over.
//   - What decides whether rows are inserted, or derived, once more reads every replica that answers: a statement with
//     "replicas: all". What a quorum has is on one of them. Rows come once from each replica, so such a statement bears it.
//   - The rules judge what was confirmed settleTime ago, when every replica that may be asked has it.
//
// select_sequential_consistency would need quorum inserts one after another: with insert_quorum_parallel, without which two
// partitions cannot be inserted at the same time, it does not hold (https://clickhouse.com/docs/operations/settings/settings,
// select_sequential_consistency). SYSTEM SYNC REPLICA waits on the server that it is sent to, which is not the one in another
// shard that a Distributed table will ask.
const (
	replicaDelay = 2 * time.Second
	settleTime   = 5 * time.Second // ClickHouse tells the delay in whole seconds, and looks at it once in a while
)

// sessionSettings hold for every request. On a cluster they also make sure that no profile makes an answer partial, or an
// insert one that is still on its way when it is acknowledged.
func (l layout) sessionSettings() clickhouse.Settings {
	// Servers gather inserts by default since 26.2; a gathered insert has no token and no certain outcome.
	settings := clickhouse.Settings{"async_insert": 0}
	if l.cluster == "" {
		return settings
	}
	for name, value := range (clickhouse.Settings{
		"distributed_foreground_insert":                      1, // an insert is over when the shards have it
		"distributed_product_mode":                           "global",
		"skip_unavailable_shards":                            0,
		"load_balancing":                                     "in_order",
		"prefer_localhost_replica":                           0, // else it, and not the first, is asked
		"max_replica_delay_for_distributed_queries":          int(replicaDelay.Seconds()),
		"fallback_to_stale_replicas_for_distributed_queries": 0,
		"parallel_distributed_insert_select":                 0, // it would read from one replica what is told to read all
		// Rows stay where they are when there are more shards than before, so that no key is proof of a place.
		"optimize_distributed_group_by_sharding_key": 0,
		"optimize_skip_unused_shards":                0,
	}) {
		settings[name] = value
	}
	return settings
}

// SettleTime is how long ago something has to have been acknowledged for whoever asks to see it. On one server that is at once.
func (s *Store) SettleTime() time.Duration {
	if s.layout.cluster == "" {
		return 0
	}
	return settleTime
}

// quorumSettings make an insert wait for replicas.
func (s *Store) quorumSettings() clickhouse.Settings {
	if s.layout.cluster == "" || !s.layout.replicated {
		return nil
	}
	return clickhouse.Settings{
		"insert_quorum":          s.config.InsertQuorum,
		"insert_quorum_parallel": 1, // partitions are inserted side by side
		"insert_quorum_timeout":  s.config.InsertTimeout.Milliseconds(),
	}
}

// everyReplica makes a statement read all replicas of the tables that it reads.
func (l layout) everyReplica(text string) (string, error) {
	objects, err := schemaObjects()
	if err != nil {
		return "", err
	}
	all, err := tokens(text)
	if err != nil {
		return "", err
	}
	var edits []edit
	for i, t := range all[:len(all)-1] {
		if name := all[i+1]; t.is("FROM") || t.is("JOIN") {
			if name.is("clusterAllReplicas") {
				continue
			}
			if objects[name.text] != aTable {
				return "", fmt.Errorf("%q is no table that has replicas", name.text)
			}
			edits = append(edits, edit{name.start, name.end,
				fmt.Sprintf("clusterAllReplicas(%s, '%s', '%s')", l.clusterText(), l.database, l.here(name.text))})
		}
	}
	return edited(text, edits), nil
}

// everyReplicaSettings let a replica be away; everyShard tells when all of a shard are.
var everyReplicaSettings = clickhouse.Settings{"skip_unavailable_shards": 1, "max_replica_delay_for_distributed_queries": 0}

// everyShard fails when no replica of some shard answers.
func (s *Store) everyShard(ctx context.Context) error {
	_, _, err := selectOne[uint64](ctx, s, "store/every_shard", params{"cluster": s.layout.cluster})
	return err
}

// settling keeps what was confirmed until it has settled.
type settling struct {
	mu   sync.Mutex
	seen []confirmation
}

type confirmation struct {
	at     time.Time
	cursor event.Cursor
}

// settled notes what is confirmed now, and gives what was confirmed settleTime ago; nothing while that is not known.
func (s *settling) settled(now time.Time, cursor event.Cursor) event.Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, confirmation{now, cursor})
	for len(s.seen) > 1 && now.Sub(s.seen[1].at) >= settleTime {
		s.seen = s.seen[1:]
	}
	if now.Sub(s.seen[0].at) < settleTime {
		return event.Cursor{}
	}
	return s.seen[0].cursor
}
