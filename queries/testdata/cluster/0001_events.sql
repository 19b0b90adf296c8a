-- Events, and what is derived from them as they arrive.
--
-- Every derived table is fed by a materialized view and built so that a block which arrives twice changes no answer:
-- it replaces by full identity, or aggregates with min, max and distinct counts only. No partition depends on a sender's
-- clock: a worker whose clock is years off would otherwise make years of partitions.

CREATE TABLE IF NOT EXISTS auditor.events_local ON CLUSTER 'main'
(
    key_hash         UInt64 MATERIALIZED sipHash64(namespace, business_key, multiIf(business_key != '', '', task_id != '', task_id, worker)),
    namespace        LowCardinality(String),
    business_key     String,
    task_id          String,
    event_id         String,
    type             LowCardinality(String),
    time             DateTime64(6, 'UTC') CODEC(Delta, ZSTD(1)),
    system           LowCardinality(String),
    task             LowCardinality(String),
    execution_id     String,
    retries          Int32,
    max_retries      Int32,
    retry_in         Int32,
    queue            LowCardinality(String),
    worker           LowCardinality(String),
    pid              UInt32,
    redelivered      Nullable(Bool),
    acks_late        Nullable(Bool),
    effect_name      LowCardinality(String),
    effect_target    String,
    idempotency_key  String,
    deduplicated     Bool,
    amount           String,
    currency         LowCardinality(String),
    error_type       LowCardinality(String),
    error_message    String CODEC(ZSTD(1)),
    error_permanent  Bool,
    skip_reason      LowCardinality(String),
    skip_holder      String,
    eta              DateTime64(6, 'UTC'),
    expires          DateTime64(6, 'UTC'),
    deadline         DateTime64(6, 'UTC'),
    first_sent       DateTime64(6, 'UTC'),
    runtime          Float64,
    requeue          Bool,
    terminated       Bool,
    expired          Bool,
    active           Int32,
    request_id       String,
    root_id          String,
    parent_id        String,
    traceparent      String,
    args_digest      String,
    emitter          LowCardinality(String),
    seq              Int64,
    attributes       String CODEC(ZSTD(1)),
    kafka_topic      LowCardinality(String),
    kafka_partition  Int32,
    kafka_offset     Int64,
    kafka_index      Int32,
    kafka_time       DateTime64(3, 'UTC') CODEC(Delta, ZSTD(1)),
    INDEX task_id_bloom task_id TYPE bloom_filter(0.01) GRANULARITY 4,
    INDEX request_id_bloom request_id TYPE bloom_filter(0.01) GRANULARITY 4,
    INDEX kafka_offset_range kafka_offset TYPE minmax GRANULARITY 1024
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}')
PARTITION BY toMonday(kafka_time)
PRIMARY KEY key_hash
ORDER BY (key_hash, business_key, time, kafka_topic, kafka_partition, kafka_offset, kafka_index)
TTL toDateTime(kafka_time) + INTERVAL 90 DAY
SETTINGS index_granularity = 1024, ttl_only_drop_parts = 1, replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800;

CREATE TABLE IF NOT EXISTS auditor.events ON CLUSTER 'main' AS auditor.events_local
ENGINE = Distributed('main', 'auditor', 'events_local', key_hash);

-- What the rules read: which keys changed, by Kafka offset, so that a late event cannot be missed.
CREATE TABLE IF NOT EXISTS auditor.changed_keys_local ON CLUSTER 'main'
(
    kafka_topic     LowCardinality(String),
    kafka_partition Int32,
    kafka_offset    Int64,
    namespace       LowCardinality(String),
    business_key    String,
    task_id         String,
    kafka_time      DateTime64(3, 'UTC')
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}')
PARTITION BY toMonday(kafka_time)
ORDER BY (kafka_topic, kafka_partition, kafka_offset, namespace, business_key, task_id)
TTL toDateTime(kafka_time) + INTERVAL 14 DAY
SETTINGS ttl_only_drop_parts = 1, replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800;

CREATE TABLE IF NOT EXISTS auditor.changed_keys ON CLUSTER 'main' AS auditor.changed_keys_local
ENGINE = Distributed('main', 'auditor', 'changed_keys_local', sipHash64(namespace, business_key, if(business_key != '', '', task_id)));

CREATE MATERIALIZED VIEW IF NOT EXISTS auditor.changed_keys_view ON CLUSTER 'main' TO auditor.changed_keys_local AS
SELECT kafka_topic, kafka_partition, kafka_offset, namespace, business_key, task_id, kafka_time
FROM auditor.events_local
WHERE task_id != '';

-- From a task id to its name and business key, for events that carry neither (raw Celery events after task-received).
CREATE TABLE IF NOT EXISTS auditor.task_keys_local ON CLUSTER 'main'
(
    namespace    LowCardinality(String),
    task_id      String,
    task         LowCardinality(String),
    business_key String,
    kafka_time   DateTime64(3, 'UTC')
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}', kafka_time)
ORDER BY (namespace, task_id, task, business_key)
TTL toDateTime(kafka_time) + INTERVAL 90 DAY
SETTINGS index_granularity = 1024, replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800;

CREATE TABLE IF NOT EXISTS auditor.task_keys ON CLUSTER 'main' AS auditor.task_keys_local
ENGINE = Distributed('main', 'auditor', 'task_keys_local', sipHash64(namespace, business_key, if(business_key != '', '', task_id)));

CREATE MATERIALIZED VIEW IF NOT EXISTS auditor.task_keys_view ON CLUSTER 'main' TO auditor.task_keys_local AS
SELECT namespace, task_id, task, business_key, max(kafka_time) AS kafka_time
FROM auditor.events_local
WHERE task_id != '' AND (task != '' OR business_key != '')
GROUP BY namespace, task_id, task, business_key;

-- When each worker process was heard of, in slices of ten seconds: shows that a worker was gone, or that it lives.
CREATE TABLE IF NOT EXISTS auditor.worker_signals_local ON CLUSTER 'main'
(
    namespace  LowCardinality(String),
    worker     LowCardinality(String),
    slice      DateTime('UTC'),
    pid        UInt32,
    first      SimpleAggregateFunction(min, DateTime64(6, 'UTC')),
    last       SimpleAggregateFunction(max, DateTime64(6, 'UTC')),
    idle       SimpleAggregateFunction(max, DateTime64(6, 'UTC')),
    lost       SimpleAggregateFunction(max, DateTime64(6, 'UTC')),
    kafka_time SimpleAggregateFunction(max, DateTime64(3, 'UTC'))
)
ENGINE = ReplicatedAggregatingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}')
ORDER BY (namespace, worker, slice, pid)
TTL toDateTime(kafka_time) + INTERVAL 90 DAY
SETTINGS index_granularity = 1024, replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800;

CREATE TABLE IF NOT EXISTS auditor.worker_signals ON CLUSTER 'main' AS auditor.worker_signals_local
ENGINE = Distributed('main', 'auditor', 'worker_signals_local', rand());

CREATE MATERIALIZED VIEW IF NOT EXISTS auditor.worker_signals_view ON CLUSTER 'main' TO auditor.worker_signals_local AS
SELECT
    namespace,
    worker,
    toDateTime(toStartOfInterval(time, INTERVAL 10 SECOND), 'UTC') AS slice,
    pid,
    min(time) AS first,
    max(time) AS last,
    max(if(active = 0 AND type = 'heartbeat', time, toDateTime64(0, 6, 'UTC'))) AS idle,
    max(if(type = 'worker_lost' AND task_id = '', time, toDateTime64(0, 6, 'UTC'))) AS lost,
    max(kafka_time) AS kafka_time
FROM auditor.events_local
WHERE worker != '' AND type NOT IN ('sent')
GROUP BY namespace, worker, slice, pid;

-- Retries and the attempts that follow them: what the rules about a population of tasks read. Its size follows the
-- retries, not the events.
CREATE TABLE IF NOT EXISTS auditor.attempts_local ON CLUSTER 'main'
(
    minute     DateTime('UTC'),
    namespace  LowCardinality(String),
    task       LowCardinality(String),
    task_id    String,
    type       LowCardinality(String),
    retries    Int32,
    time       DateTime64(6, 'UTC'),
    error_type LowCardinality(String),
    event_id   String,
    kafka_time DateTime64(3, 'UTC')
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}')
PARTITION BY toMonday(kafka_time)
ORDER BY (minute, namespace, task_id, type, retries, time, event_id)
TTL toDateTime(kafka_time) + INTERVAL 14 DAY
SETTINGS ttl_only_drop_parts = 1, replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800;

CREATE TABLE IF NOT EXISTS auditor.attempts ON CLUSTER 'main' AS auditor.attempts_local
ENGINE = Distributed('main', 'auditor', 'attempts_local', rand());

CREATE MATERIALIZED VIEW IF NOT EXISTS auditor.attempts_view ON CLUSTER 'main' TO auditor.attempts_local AS
SELECT toDateTime(toStartOfMinute(time), 'UTC') AS minute, namespace, task, task_id, type, retries, time, error_type, event_id, kafka_time
FROM auditor.events_local
WHERE task_id != '' AND (type = 'retried' OR (type IN ('received', 'started') AND retries > 0));

-- How many distinct events of each task and type a minute saw: rates and charts. The count is an estimate within about
-- one per cent, of bounded size whatever the load, and a repeated event counts once.
CREATE TABLE IF NOT EXISTS auditor.task_minutes_local ON CLUSTER 'main'
(
    minute     DateTime('UTC'),
    namespace  LowCardinality(String),
    task       LowCardinality(String),
    type       LowCardinality(String),
    events     AggregateFunction(uniqCombined64(13), String),
    kafka_time SimpleAggregateFunction(max, DateTime64(3, 'UTC'))
)
ENGINE = ReplicatedAggregatingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}')
ORDER BY (minute, namespace, task, type)
TTL toDateTime(kafka_time) + INTERVAL 90 DAY
SETTINGS replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800;

CREATE TABLE IF NOT EXISTS auditor.task_minutes ON CLUSTER 'main' AS auditor.task_minutes_local
ENGINE = Distributed('main', 'auditor', 'task_minutes_local', rand());

CREATE MATERIALIZED VIEW IF NOT EXISTS auditor.task_minutes_view ON CLUSTER 'main' TO auditor.task_minutes_local AS
SELECT toDateTime(toStartOfMinute(time), 'UTC') AS minute, namespace, task, type,
    uniqCombined64State(13)(event_id) AS events, max(kafka_time) AS kafka_time
FROM auditor.events_local
GROUP BY minute, namespace, task, type;
