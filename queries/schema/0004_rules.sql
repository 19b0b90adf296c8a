-- How far the ledger reaches in each partition. The rules ask at every look, and the ledger grows with every batch.
CREATE TABLE IF NOT EXISTS ledger_ends
(
    kafka_topic     LowCardinality(String),
    kafka_partition Int32,
    last            SimpleAggregateFunction(max, Int64)
)
ENGINE = AggregatingMergeTree
ORDER BY (kafka_topic, kafka_partition)
SETTINGS non_replicated_deduplication_window = 10000;

CREATE MATERIALIZED VIEW IF NOT EXISTS ledger_ends_view TO ledger_ends AS
SELECT kafka_topic, kafka_partition, max(last) AS last
FROM ingest_ledger
GROUP BY kafka_topic, kafka_partition;

-- The namespaces with events of tasks that carry no business key. Where there are none, the rules need not look for such
-- events of the keys that changed, which would take as long again.
CREATE TABLE IF NOT EXISTS keyless
(
    namespace  LowCardinality(String),
    kafka_time SimpleAggregateFunction(max, DateTime64(3, 'UTC'))
)
ENGINE = AggregatingMergeTree
ORDER BY namespace
TTL toDateTime(kafka_time) + INTERVAL 90 DAY
SETTINGS non_replicated_deduplication_window = 10000;

CREATE MATERIALIZED VIEW IF NOT EXISTS keyless_view TO keyless AS
SELECT namespace, max(kafka_time) AS kafka_time
FROM events
WHERE task_id != '' AND business_key = ''
GROUP BY namespace;
