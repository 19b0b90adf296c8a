-- The proof that what ingest read is stored once.

-- What the last comparison of Kafka, the ledger and the tables came to, by partition.
CREATE TABLE IF NOT EXISTS ingest_proofs
(
    kafka_topic     LowCardinality(String),
    kafka_partition Int32,
    first           Int64,                -- the first offset that was compared
    next_offset     Int64,                -- the one after the last
    again           Int64,                -- up to where the offsets have been compared once more
    passed          DateTime64(3, 'UTC'), -- when all of them had last been
    newest          DateTime64(3, 'UTC'), -- timestamp of the last record before next_offset
    checked         DateTime64(3, 'UTC'), -- when the comparison ended, by the clock of the process
    missing         Int64,                -- records of which rows are not in the tables
    doubled         Int64,                -- rows too many
    holes           Int64,                -- offsets that the ledger does not cover
    lost            Int64,                -- offsets that Kafka's retention deleted before they were read
    troubles        String,               -- where, as JSON
    version         UInt64 DEFAULT toUnixTimestamp64Micro(now64(6))
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (kafka_topic, kafka_partition);

-- Each time that the rows of a table began to be kept for longer: what had been deleted by then does not come back.
CREATE TABLE IF NOT EXISTS retention_raised
(
    table_name  LowCardinality(String),
    days_before UInt32,
    at          DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = MergeTree
ORDER BY (table_name, at);
