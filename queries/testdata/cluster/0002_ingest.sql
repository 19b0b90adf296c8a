-- What could not be read, and the proof of what was.

-- Records, or elements of a record's array, that are no events. Nothing is ever dropped.
CREATE TABLE IF NOT EXISTS auditor.rejects_local ON CLUSTER 'main'
(
    kafka_topic     LowCardinality(String),
    kafka_partition Int32,
    kafka_offset    Int64,
    kafka_index     Int32,
    kafka_time      DateTime64(3, 'UTC'),
    reason          LowCardinality(String),
    detail          String,
    key             String CODEC(ZSTD(1)),
    header_names    Array(String) CODEC(ZSTD(1)),
    header_values   Array(String) CODEC(ZSTD(1)),
    raw             String CODEC(ZSTD(1))
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}')
PARTITION BY toMonday(kafka_time)
ORDER BY (kafka_topic, kafka_partition, kafka_offset, kafka_index)
TTL toDateTime(kafka_time) + INTERVAL 90 DAY
SETTINGS ttl_only_drop_parts = 1, replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800;

CREATE TABLE IF NOT EXISTS auditor.rejects ON CLUSTER 'main' AS auditor.rejects_local
ENGINE = Distributed('main', 'auditor', 'rejects_local', sipHash64(kafka_topic, kafka_partition));

-- One row a batch, written after the batch's events and rejects: what it covers is in the store.
CREATE TABLE IF NOT EXISTS auditor.ingest_ledger_local ON CLUSTER 'main'
(
    kafka_topic     LowCardinality(String),
    kafka_partition Int32,
    first           Int64,
    last            Int64,
    records         UInt32,
    events          UInt32,
    rejects         UInt32,
    lost            Int64, -- offsets of the range that Kafka's retention deleted before they were read
    kafka_time      DateTime64(3, 'UTC')
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}')
ORDER BY (kafka_topic, kafka_partition, first, last)
SETTINGS replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800;

CREATE TABLE IF NOT EXISTS auditor.ingest_ledger ON CLUSTER 'main' AS auditor.ingest_ledger_local
ENGINE = Distributed('main', 'auditor', 'ingest_ledger_local', 0);
