-- How far the ledger reaches in each partition. The rules ask at every look, and the ledger grows with every batch.
CREATE TABLE IF NOT EXISTS auditor.ledger_ends_local ON CLUSTER 'main'
(
    kafka_topic     LowCardinality(String),
    kafka_partition Int32,
    last            SimpleAggregateFunction(max, Int64)
)
ENGINE = ReplicatedAggregatingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}')
ORDER BY (kafka_topic, kafka_partition)
SETTINGS replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800;

CREATE TABLE IF NOT EXISTS auditor.ledger_ends ON CLUSTER 'main' AS auditor.ledger_ends_local
ENGINE = Distributed('main', 'auditor', 'ledger_ends_local', 0);

CREATE MATERIALIZED VIEW IF NOT EXISTS auditor.ledger_ends_view ON CLUSTER 'main' TO auditor.ledger_ends_local AS
SELECT kafka_topic, kafka_partition, max(last) AS last
FROM auditor.ingest_ledger_local
GROUP BY kafka_topic, kafka_partition;

-- The namespaces with events of tasks that carry no business key. Where there are none, the rules need not look for such
-- events of the keys that changed, which would take as long again.
CREATE TABLE IF NOT EXISTS auditor.keyless_local ON CLUSTER 'main'
(
    namespace  LowCardinality(String),
    kafka_time SimpleAggregateFunction(max, DateTime64(3, 'UTC'))
)
ENGINE = ReplicatedAggregatingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}')
ORDER BY namespace
TTL toDateTime(kafka_time) + INTERVAL 90 DAY
SETTINGS replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800;

CREATE TABLE IF NOT EXISTS auditor.keyless ON CLUSTER 'main' AS auditor.keyless_local
ENGINE = Distributed('main', 'auditor', 'keyless_local', rand());

CREATE MATERIALIZED VIEW IF NOT EXISTS auditor.keyless_view ON CLUSTER 'main' TO auditor.keyless_local AS
SELECT namespace, max(kafka_time) AS kafka_time
FROM auditor.events_local
WHERE task_id != '' AND business_key = ''
GROUP BY namespace;
