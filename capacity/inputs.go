package main

import (
	"errors"
	"flag"
	"fmt"

	"auditor/ingest"
)

// inputs are the figures that the model reckons with. list tells what each is, in which unit, and where it comes from.
type inputs struct {
	// what an event takes
	ingest, insert, merge, runMerges, runEvents, perBatch, broker, partitionRate, rules, look, fullRows float64
	wire, block, bytesEvents, bytesAll, bytesKeys                                                       float64
	rowMemory, processPerMemory, processBase, roundTrips                                                float64

	// how the program and its servers are set
	maxRows, maxMiB, maxWait, memory, session, rebalance, heartbeat, deal                 float64
	tables, ledgers, window, retention, keysDays, delayAt, largestPart, kafkaDays         float64
	keeper, perPart, stall, utilisation, outage, replicas, kafkaCopies, cores, disk, full float64
}

// How an input is known.
const (
	measured = "measured" // on two cores, with the embedded engine; docs/scaling.md says which beside other work
	derived  = "derived"  // from what was measured, or from the code
	setting  = "default"  // of the program, its tables or its servers
	wanted   = "choice"   // yours
	assumed  = "assumed"  // not measured: measure your own
)

// input is one figure: where it goes, its flag, default, unit, bounds, and how it is known.
type input struct {
	to          *float64
	name        string
	value       float64
	unit        string
	least, most float64
	known       string
	source      string
}

const mib = 1 << 20

// list names every input with its default. What a new measurement changes is changed here alone; `make scaling ARGS=--write`
// then puts what follows from it into docs/scaling.md.
func (in *inputs) list() []input {
	c := ingest.DefaultConfig()
	return []input{
		{&in.ingest, "ingest", 4.7, "µs of a core an event", 0.01, 1000, measured,
			"performance.md, the auditor's turn: 4.7 s a million"},
		{&in.insert, "insert", 5.0, "µs of a core an event", 0.01, 1000, measured,
			"performance.md: `events` 2.1, all that is derived from it 2.9"},
		{&in.merge, "merge", 2.9, "µs of a core each time that an event is merged", 0, 1000, measured,
			"performance.md. In parts beyond 256 MiB it was up to 4.8"},
		{&in.runMerges, "run-merges", 3.6, "times that an event was merged in a run", 0.1, 100, measured,
			"performance.md, batches of 8 MiB"},
		{&in.runEvents, "run-events", 1e6, "events of that run", 1e5, 1e12, measured, "performance.md"},
		{&in.perBatch, "per-batch", 60, "ms of a core a batch and shard, however few rows", 0, 10_000, measured,
			"`go test -bench InsertBatch ./queries`, merges included: 45 to 120"},
		{&in.broker, "broker", 0.3, "µs of a core an event, to be read", 0.001, 1000, measured,
			"performance.md. What producers and copies take is not in it"},
		{&in.partitionRate, "partition-rate", 38_000, "events/s of a partition, at least", 1, 1e7, measured,
			"performance.md: 152,000 over 4, for want of cores, not of partitions"},
		{&in.rules, "rules", 6.6, "µs an event, of the one process that judges", 0, 1000, measured,
			"`go test -bench Changed ./queries`, among a million events: 6.6 to 22"},
		{&in.look, "look", 0.27, "s that a look of the rules takes a partition", 0, 60, measured,
			"the same, of four events: 0.27 to 0.53"},
		{&in.fullRows, "full-rows", 18_000, "rows of a full batch of 8 MiB", 1, 1e6, measured, "performance.md"},
		{&in.wire, "wire", 103, "bytes an event in Kafka", 1, mib, measured,
			"the benchmark's events of 336 bytes, lz4, 1,000 at a time"},
		{&in.block, "block", 201, "bytes an event on the way to ClickHouse", 1, mib, measured,
			"its block, not compressed; the native protocol compresses it"},
		{&in.bytesEvents, "bytes-events", 37.1, "bytes an event in `events`", 1, mib, measured, "performance.md"},
		{&in.bytesAll, "bytes-all", 55.4, "bytes an event in all tables", 1, mib, measured, "performance.md"},
		{&in.bytesKeys, "bytes-keys", 11.4, "bytes of these in `changed_keys`", 0, mib, measured, "performance.md"},

		{&in.rowMemory, "row-memory", 2320, "bytes of `memory` an event in flight", 1, mib, derived,
			"ingest/budget.go: 160, 640, 512 and 3 times its record of 336 bytes"},
		{&in.processPerMemory, "process-per-memory", 2, "bytes of a process a byte of `memory`", 1, 100, derived,
			"the runtime's limit, up to which the collector lets garbage grow"},
		{&in.processBase, "process-base", 128, "MiB of a process besides", 0, mib, assumed, "so that the defaults come to 512 MiB"},
		{&in.roundTrips, "round-trips", 0.05, "s that a batch waits for answers", 0, 60, assumed,
			"a fetch, an intent, two inserts; a quorum takes longer"},
		{&in.deal, "deal", 5, "s to deal partitions once all know", 0, 3600, assumed,
			"batches end, the group is joined, the ledger read"},
		{&in.perPart, "keeper-per-part", 10, "writes in Keeper a part", 0, 1000, assumed,
			"\"about ten entries\" (ClickHouse's documentation); merges come on top"},
		{&in.keeper, "keeper", 10_000, "writes/s that one Keeper bears", 1, 1e9, assumed, "none was tried"},

		{&in.maxRows, "max-rows", float64(c.MaxRows), "rows", 1, 1e6, setting, "`ingest.max_rows`"},
		{&in.maxMiB, "max-mib", float64(c.MaxBytes) / mib, "MiB", 0.0625, 256, setting, "`ingest.max_bytes`"},
		{&in.maxWait, "max-wait", c.MaxWait.Seconds(), "s", 0.001, 60, setting, "`ingest.max_wait`"},
		{&in.memory, "memory", float64(c.Memory) / mib, "MiB", 1, mib, setting, "`ingest.memory`"},
		{&in.session, "session", c.SessionTimeout.Seconds(), "s", 6, 1800, setting, "`ingest.session_timeout`"},
		{&in.rebalance, "rebalance", c.RebalanceTimeout.Seconds(), "s", 6, 3600, setting, "`ingest.rebalance_timeout`"},
		{&in.heartbeat, "heartbeat", 3, "s until all know that partitions are dealt", 0, 60, setting, "ingest/group.go"},
		{&in.tables, "tables", 8, "tables that get a part of a batch on each shard", 1, 20, setting,
			"`events` and what is derived; `keyless` seldom gets a row"},
		{&in.ledgers, "ledgers", 2, "the same, on the first shard only", 0, 20, setting, "`ingest_ledger`, `ledger_ends`"},
		{&in.window, "window", 10_000, "blocks of which a table knows the token", 1, 1e9, setting,
			"queries/schema, `..._deduplication_window`"},
		{&in.retention, "retention", 90, "days", 0.1, 10_950, setting, "`clickhouse.retention_days`"},
		{&in.keysDays, "keys-retention", 14, "days", 0.1, 36_500, setting, "of `changed_keys`"},
		{&in.delayAt, "delay-at", 1000, "parts at which inserts are delayed", 1, 1e9, setting, "ClickHouse's `parts_to_delay_insert`"},
		{&in.largestPart, "largest-part", 150, "GiB up to which parts are merged", 0.001, 1e6, setting,
			"ClickHouse's `max_bytes_to_merge_at_max_space_in_pool`"},
		{&in.kafkaDays, "kafka-retention", 7, "days", 0.01, 36_500, setting, "Kafka's `log.retention.hours`"},

		{&in.utilisation, "utilisation", 0.5, "of what is bought, at the usual load", 0.01, 1, wanted,
			"half: an hour's outage is caught up within an hour"},
		{&in.outage, "outage", 3600, "s", 1, 30 * 86_400, wanted, "what is simulated"},
		{&in.stall, "stall", 30, "s for which merges may stand still", 0, 86_400, wanted, "a busy disk, all threads at large parts"},
		{&in.replicas, "replicas", 2, "of each shard", 1, 10, wanted, "each merges for itself"},
		{&in.kafkaCopies, "kafka-copies", 3, "of each partition in Kafka", 1, 10, wanted, ""},
		{&in.cores, "cores", 2, "cores of an ingest process", 0.1, 1000, wanted, ""},
		{&in.disk, "disk", 16, "TB of a server's disk", 0.01, 10_000, wanted, "ClickHouse's and Kafka's"},
		{&in.full, "full", 0.7, "of a disk that may be full", 0.05, 1, wanted, "merges need room for what they write"},
	}
}

// defaults gives the inputs as they are listed.
func defaults() inputs {
	var in inputs
	for _, i := range in.list() {
		*i.to = i.value
	}
	return in
}

// register makes a flag of each input.
func (in *inputs) register(flags *flag.FlagSet) {
	for _, i := range in.list() {
		flags.Float64Var(i.to, i.name, i.value, i.unit+" ("+i.known+")")
	}
}

// validate names each input that is out of its bounds.
func (in *inputs) validate() error {
	var errs []error
	for _, i := range in.list() {
		if !(*i.to >= i.least && *i.to <= i.most) { // so put, it refuses NaN as well
			errs = append(errs, fmt.Errorf("--%s must be from %v to %v (%s), not %v", i.name, i.least, i.most, i.unit, *i.to))
		}
	}
	if in.bytesAll < in.bytesEvents+in.bytesKeys {
		errs = append(errs, errors.New("--bytes-all must be at least --bytes-events and --bytes-keys together"))
	}
	if in.runEvents <= in.fullRows {
		errs = append(errs, errors.New("--run-events must be more than --full-rows: a run of one batch merges nothing"))
	}
	return errors.Join(errs...)
}
