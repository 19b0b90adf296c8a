package main

import (
	"context"
	"fmt"
	"strings"
)

// Two ways in which ClickHouse can read the topic by itself, into every column of events, each field of docs/events.md in
// the type of its column. What may be not told, and is then -1 in events, is nullable until then.
//
// Parsed by the table is what ClickHouse's documentation shows. But a Kafka table makes and merges a block of all its columns
// for each message, so that it is several times faster to hand messages on as text, and to parse a block of them in the view.
const (
	parseInView  = "view"
	parseInTable = "table"
)

const (
	textTable = `CREATE TABLE kafka_events (message String) ENGINE = Kafka SETTINGS kafka_format = 'JSONAsString'`
	jsonTable = `CREATE TABLE kafka_events (` + fields + `) ENGINE = Kafka SETTINGS kafka_format = 'JSONEachRow',
    date_time_input_format = 'best_effort', input_format_skip_unknown_fields = 1`
	kafkaSettings = `, kafka_broker_list = '%s', kafka_topic_list = '%s', kafka_group_name = '%s', kafka_num_consumers = %d,
    kafka_thread_per_consumer = 1, kafka_max_block_size = %d, kafka_poll_max_batch_size = %[5]d, kafka_consumer_reschedule_ms = 50,
    kafka_flush_interval_ms = 1000`
)

// fields are plain texts and times, for a table: there, LowCardinality takes three times as long.
const fields = `
    event_id String, type String, time DateTime64(6, 'UTC'), namespace String, system String, task String, task_id String,
    business_key String, execution_id String, retries Nullable(Int32), max_retries Nullable(Int32), retry_in Nullable(Int32),
    queue String, worker String, pid UInt32, redelivered Nullable(Bool), acks_late Nullable(Bool),
    effect Tuple(name String, target String, idempotency_key String, deduplicated Bool, amount String, currency String),
    error Tuple(type String, message String, permanent Bool), skip Tuple(reason String, holder String),
    eta DateTime64(6, 'UTC'), expires DateTime64(6, 'UTC'), deadline DateTime64(6, 'UTC'), first_sent DateTime64(6, 'UTC'),
    runtime Float64, requeue Bool, terminated Bool, expired Bool, active Nullable(Int32), request_id String, root_id String,
    parent_id String, traceparent String, args_digest String, emitter String, seq Nullable(Int64)`

// viewOf is the materialized view from the Kafka table into events: what comes before SELECT, how a field and a time are read.
func viewOf(with string, field, moment func(string) string) string {
	var columns []string
	add := func(name, expression string) { columns = append(columns, expression+" AS "+name) }
	for _, name := range strings.Fields("event_id type namespace system task task_id business_key execution_id queue worker pid redelivered " +
		"acks_late runtime requeue terminated expired request_id root_id parent_id traceparent args_digest emitter") {
		add(name, field(name))
	}
	for _, name := range strings.Fields("time eta expires deadline first_sent") {
		add(name, moment(name))
	}
	for _, name := range strings.Fields("retries max_retries retry_in active seq") {
		add(name, "ifNull("+field(name)+", -1)")
	}
	for _, part := range []struct{ object, member, column string }{
		{"effect", "name", "effect_name"}, {"effect", "target", "effect_target"}, {"effect", "idempotency_key", "idempotency_key"},
		{"effect", "deduplicated", "deduplicated"}, {"effect", "amount", "amount"}, {"effect", "currency", "currency"},
		{"error", "type", "error_type"}, {"error", "message", "error_message"}, {"error", "permanent", "error_permanent"},
		{"skip", "reason", "skip_reason"}, {"skip", "holder", "skip_holder"},
	} {
		add(part.column, field(part.object)+"."+part.member)
	}
	add("attributes", "''")
	add("kafka_topic", "_topic")
	add("kafka_partition", "toInt32(_partition)")
	add("kafka_offset", "toInt64(_offset)")
	add("kafka_index", "toInt32(0)")
	add("kafka_time", "ifNull(_timestamp_ms, toDateTime64(0, 3, 'UTC'))")
	return "CREATE MATERIALIZED VIEW kafka_events_view TO events AS " + with + " SELECT " + strings.Join(columns, ", ") + " FROM kafka_events"
}

func kafkaStatements(parse string) (table, view string) {
	if parse == parseInTable {
		same := func(name string) string { return name }
		return jsonTable, viewOf("", same, same)
	}
	texts := strings.ReplaceAll(strings.Join(strings.Fields(fields), " "), "DateTime64(6, 'UTC')", "String")
	field := func(name string) string { return "e." + name }
	return textTable, viewOf("WITH JSONExtract(message, 'Tuple("+texts+")') AS e", field, func(name string) string {
		return "parseDateTime64BestEffortOrZero(e." + name + ", 6, 'UTC')"
	})
}

// startKafkaTable makes ClickHouse read the topic into a database's tables, until stopKafkaTable.
func (b *bench) startKafkaTable(ctx context.Context, database string) error {
	table, view := kafkaStatements(b.options.parse)
	table += fmt.Sprintf(kafkaSettings, b.broker.address, b.topic.name, "clickhouse-"+database, b.options.consumers, b.options.blockSize)
	if err := b.engine.exec(ctx, database, table); err != nil {
		return err
	}
	return b.engine.exec(ctx, database, view)
}

func (b *bench) stopKafkaTable(ctx context.Context, database string) error {
	if err := b.engine.exec(ctx, database, "DROP TABLE kafka_events_view SYNC"); err != nil {
		return err
	}
	return b.engine.exec(ctx, database, "DROP TABLE kafka_events SYNC")
}
