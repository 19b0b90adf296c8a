package queries

import (
	"context"
	"fmt"
	"strings"
)

// layout is how the tables lie on the servers.
//
// Without a cluster they are what the migrations say. On a cluster each table is two: NAME_local, on every server, a
// Replicated table that holds the rows of one shard; and NAME, a Distributed table that reads and writes all shards. So
// every other statement is the same in both layouts. Materialized views read and fill local tables, within a shard.
type layout struct {
	cluster    string // empty: no cluster
	database   string
	path       string // of a table in Keeper, with macros
	replica    string // the macro that names a server within its shard
	onCluster  bool   // statements reach the other servers by ON CLUSTER; false where the database replicates them itself
	arguments  bool   // Replicated engines name path and replica; false where the database decides on them
	replicated bool   // false in tests alone, on servers that cannot exchange parts
}

func newLayout(c Config) layout {
	return layout{cluster: c.Cluster, database: c.Database, path: c.KeeperPath, replica: c.Replica,
		onCluster: true, arguments: true, replicated: true}
}

// localSuffix ends the name of a table that holds the rows of one shard.
const localSuffix = "_local"

// firstShard is the sharding key of tables whose rows all lie on one shard, the first of the cluster. They are small, and
// their rows replace one another: a row that moved to another shard, because there are more shards now than before, would
// stand beside the one that it replaces.
const firstShard = "0"

// anyShard is the sharding key of tables that are aggregates of one shard's events. Where the view of a shard puts such a
// row follows from the event, not from the row, so no key would be true, and ClickHouse may take it for true (see
// optimize_distributed_group_by_sharding_key).
const anyShard = "rand()"

// keyShard is the sharding key of tables that hold what events of a task say. It is what key_hash of events comes to, so
// that all there is of a key is on one shard, where FINAL and merges see it together.
const keyShard = "sipHash64(namespace, business_key, if(business_key != '', '', task_id))"

// partitionShard is the sharding key of what became of a partition's records otherwise.
const partitionShard = "sipHash64(kafka_topic, kafka_partition)"

// shardedBy holds the sharding key of each table. A table that is not here cannot be made on a cluster: whoever adds one
// decides where its rows lie, and whether every statement that reads it is right where they lie on several shards.
var shardedBy = map[string]string{
	"schema_migrations": firstShard,

	"events":          "key_hash",
	"changed_keys":    keyShard,
	"task_keys":       keyShard,
	"worker_signals":  anyShard,
	"attempts":        anyShard,
	"task_minutes":    anyShard,
	"keyless":         anyShard,
	"emitter_numbers": anyShard,
	"failures":        anyShard,

	"rejects":       partitionShard,
	"reject_log":    partitionShard,
	"ingest_ledger": firstShard,
	"ledger_ends":   firstShard,

	"ingest_progress":  firstShard,
	"ingest_proofs":    firstShard,
	"retention_raised": firstShard,

	"rule_cursors":     firstShard,
	"pending":          firstShard, // which waiting_tasks has taken the place of
	"waiting_tasks":    firstShard,
	"finding_versions": firstShard,
	"finding_log":      firstShard,
	"silence_log":      firstShard,
	"config_log":       firstShard,
	"rule_runs":        firstShard,
	"finding_subjects": firstShard,
}

// windowSeconds is how long a Replicated table remembers a token. Servers since 26 forget after an hour by default, and an
// ingest that was away for a weekend must still find its last batch known.
const windowSeconds = 7 * 24 * 3600

// here is the name of what holds a table's rows on a server: what ALTER and views are about.
func (l layout) here(table string) string {
	if l.cluster == "" {
		return table
	}
	return table + localSuffix
}

// plain is the table's name, of here's.
func (l layout) plain(name string) string {
	if l.cluster == "" {
		return name
	}
	return strings.TrimSuffix(name, localSuffix)
}

// qualified names a table with its database: the other servers' default is another one.
func (l layout) qualified(name string) string { return l.database + "." + name }

func (l layout) on() string {
	if l.cluster == "" || !l.onCluster {
		return ""
	}
	return " ON CLUSTER " + l.clusterText()
}

// clusterText is the cluster's name as a literal. Config.Validate allows no character that would have to be escaped.
func (l layout) clusterText() string { return "'" + l.cluster + "'" }

// statements gives what a statement of a migration comes to: itself, or what it is on a cluster.
func (l layout) statements(statement string) ([]string, error) {
	if l.cluster == "" {
		return []string{statement}, nil
	}
	objects, err := schemaObjects()
	if err != nil {
		return nil, err
	}
	p, err := newDDL(l, objects, statement)
	if err != nil {
		return nil, err
	}
	all, err := p.statement()
	if err != nil {
		return nil, fmt.Errorf("%w in a statement that is to run on a cluster: %.80s", err, statement)
	}
	return all, nil
}

// createDatabase makes the database when it is missing. Config.Validate allows plain names only.
func (l layout) createDatabase() string {
	return "CREATE DATABASE IF NOT EXISTS " + l.database + l.on()
}

// findLayout tells whether the database exists, and asks how it does what the layout leaves to it: a database of the
// Replicated engine brings each statement to all servers itself, and gives its tables their paths.
func (s *Store) findLayout(ctx context.Context) (exists bool, err error) {
	err = s.withoutDatabase(func(bare *Store) error {
		var engine string
		engine, exists, err = selectOne[string](ctx, bare, "store/database_engine", params{"database": s.config.Database})
		if err == nil && s.layout.cluster != "" && s.layout.replicated {
			s.layout.onCluster, s.layout.arguments = engine != "Replicated", engine != "Replicated"
		}
		return err
	})
	return exists, err
}
