-- How far ingest is, for the processes that do not ingest.

-- When the oldest record of a range reached Kafka: rows that are kept no longer are not missing. The epoch where the range
-- held no record, or was read before this column was there.
ALTER TABLE auditor.ingest_ledger_local ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS oldest DateTime64(3, 'UTC') AFTER kafka_time;

-- How far ingest is, for the processes that do not ingest.

-- When the oldest record of a range reached Kafka: rows that are kept no longer are not missing. The epoch where the range
-- held no record, or was read before this column was there.
ALTER TABLE auditor.ingest_ledger ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS oldest DateTime64(3, 'UTC') AFTER kafka_time;

-- Where each partition stands, as the process that reads it tells every few seconds.
CREATE TABLE IF NOT EXISTS auditor.ingest_progress_local ON CLUSTER 'main'
(
    kafka_topic     LowCardinality(String),
    kafka_partition Int32,
    topics          Array(String),        -- that the consumer group reads, all of them
    partitions      Int32,                -- how many the topic has
    next_offset     Int64,                -- the next to read
    end_offset      Int64,                -- the one after the partition's last
    log_start       Int64,                -- the first that Kafka still holds
    newest          DateTime64(3, 'UTC'), -- timestamp of the newest record in the store
    checked         DateTime64(3, 'UTC'), -- when end_offset was asked for, by the clock of the process
    problem         String,               -- why the partition stands still; empty when it does not
    version         UInt64 DEFAULT toUnixTimestamp64Micro(now64(6))
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}', version)
ORDER BY (kafka_topic, kafka_partition);

CREATE TABLE IF NOT EXISTS auditor.ingest_progress ON CLUSTER 'main' AS auditor.ingest_progress_local
ENGINE = Distributed('main', 'auditor', 'ingest_progress_local', 0);
