-- What the rules need beyond the histories of keys.

-- Which numbers each emitter has given to events, in blocks of 128: a number that is missing between others is an event that
-- was lost. A set of numbers, so that an event which arrives twice changes nothing.
CREATE TABLE IF NOT EXISTS emitter_numbers
(
    namespace  LowCardinality(String),
    emitter    String,
    block      Int64,
    numbers    AggregateFunction(groupBitmap, UInt8),
    first      SimpleAggregateFunction(min, DateTime64(6, 'UTC')),
    last       SimpleAggregateFunction(max, DateTime64(6, 'UTC')),
    kafka_time SimpleAggregateFunction(max, DateTime64(3, 'UTC'))
)
ENGINE = AggregatingMergeTree
ORDER BY (namespace, emitter, block)
TTL toDateTime(kafka_time) + INTERVAL 14 DAY
SETTINGS index_granularity = 1024, non_replicated_deduplication_window = 10000;

CREATE MATERIALIZED VIEW IF NOT EXISTS emitter_numbers_view TO emitter_numbers AS
SELECT namespace, emitter, intDiv(seq, 128) AS block, groupBitmapState(toUInt8(seq % 128)) AS numbers,
    min(time) AS first, max(time) AS last, max(kafka_time) AS kafka_time
FROM events
WHERE emitter != '' AND seq >= 0
GROUP BY namespace, emitter, block;

-- Attempts that failed, with what they failed of: what the rules about errors read. Its size follows the failures.
CREATE TABLE IF NOT EXISTS failures
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
ENGINE = ReplacingMergeTree
PARTITION BY toMonday(kafka_time)
ORDER BY (minute, namespace, task, error_type, task_id, time, event_id)
TTL toDateTime(kafka_time) + INTERVAL 14 DAY
SETTINGS ttl_only_drop_parts = 1, non_replicated_deduplication_window = 10000;

CREATE MATERIALIZED VIEW IF NOT EXISTS failures_view TO failures AS
SELECT toDateTime(toStartOfMinute(time), 'UTC') AS minute, namespace, task, error_type, error_permanent AS permanent, business_key, task_id, type,
    time, event_id, kafka_time
FROM events
WHERE task_id != '' AND error_type != '' AND type IN ('retried', 'failed');
