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
