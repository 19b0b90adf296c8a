-- What the rules need beyond the histories of keys.

-- Which numbers each emitter has given to events, in blocks of 128: a number that is missing between others is an event that
-- was lost. A set of numbers, so that an event which arrives twice changes nothing.
CREATE TABLE IF NOT EXISTS auditor.emitter_numbers_local ON CLUSTER 'main'
(
    namespace  LowCardinality(String),
    emitter    String,
    block      Int64,
    numbers    AggregateFunction(groupBitmap, UInt8),
    first      SimpleAggregateFunction(min, DateTime64(6, 'UTC')),
    last       SimpleAggregateFunction(max, DateTime64(6, 'UTC')),
    kafka_time SimpleAggregateFunction(max, DateTime64(3, 'UTC'))
)
ENGINE = ReplicatedAggregatingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}')
ORDER BY (namespace, emitter, block)
TTL toDateTime(kafka_time) + INTERVAL 14 DAY
SETTINGS index_granularity = 1024, replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800;

CREATE TABLE IF NOT EXISTS auditor.emitter_numbers ON CLUSTER 'main' AS auditor.emitter_numbers_local
ENGINE = Distributed('main', 'auditor', 'emitter_numbers_local', rand());

CREATE MATERIALIZED VIEW IF NOT EXISTS auditor.emitter_numbers_view ON CLUSTER 'main' TO auditor.emitter_numbers_local AS
SELECT namespace, emitter, intDiv(seq, 128) AS block, groupBitmapState(toUInt8(seq % 128)) AS numbers,
    min(time) AS first, max(time) AS last, max(kafka_time) AS kafka_time
FROM auditor.events_local
WHERE emitter != '' AND seq >= 0
GROUP BY namespace, emitter, block;

-- Attempts that failed, with what they failed of: what the rules about errors read. Its size follows the failures.
CREATE TABLE IF NOT EXISTS auditor.failures_local ON CLUSTER 'main'
(
    minute       DateTime('UTC'),
    namespace    LowCardinality(String),
    task         LowCardinality(String),
    error_type   LowCardinality(String),
    permanent    Bool,
    business_key String,
    task_id      String,
    type         LowCardinality(String), -- retried or failed
    time         DateTime64(6, 'UTC'),
    event_id     String,
    kafka_time   DateTime64(3, 'UTC')
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}')
PARTITION BY toMonday(kafka_time)
ORDER BY (minute, namespace, task, error_type, task_id, time, event_id)
TTL toDateTime(kafka_time) + INTERVAL 14 DAY
SETTINGS ttl_only_drop_parts = 1, replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800;

CREATE TABLE IF NOT EXISTS auditor.failures ON CLUSTER 'main' AS auditor.failures_local
ENGINE = Distributed('main', 'auditor', 'failures_local', rand());

CREATE MATERIALIZED VIEW IF NOT EXISTS auditor.failures_view ON CLUSTER 'main' TO auditor.failures_local AS
SELECT toDateTime(toStartOfMinute(time), 'UTC') AS minute, namespace, task, error_type, error_permanent AS permanent, business_key, task_id, type,
    time, event_id, kafka_time
FROM auditor.events_local
WHERE task_id != '' AND error_type != '' AND type IN ('retried', 'failed');
