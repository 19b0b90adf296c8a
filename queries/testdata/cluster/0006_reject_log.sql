-- What people did with rejects.

-- The bytes of a reject were deleted: reason, place and time are all that is left, so that the ledger still adds up. Set
-- by the same change that deletes them.
ALTER TABLE auditor.rejects_local ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS purged Bool DEFAULT false;

-- What people did with rejects.

-- The bytes of a reject were deleted: reason, place and time are all that is left, so that the ledger still adds up. Set
-- by the same change that deletes them.
ALTER TABLE auditor.rejects ON CLUSTER 'main' ADD COLUMN IF NOT EXISTS purged Bool DEFAULT false;

-- Rows are only added. A replay is written down before it is sent and once its outcome is known, under one attempt, so that
-- one which was cut off shows. Rows go when the reject goes: kafka_time is the reject's.
CREATE TABLE IF NOT EXISTS auditor.reject_log_local ON CLUSTER 'main'
(
    kafka_topic     LowCardinality(String),
    kafka_partition Int32,
    kafka_offset    Int64,
    kafka_index     Int32,
    kafka_time      DateTime64(3, 'UTC'),
    time            DateTime64(6, 'UTC'),
    action          LowCardinality(String), -- intended, sent, not_sent, unclear, purge
    attempt         String,
    by              String,
    note            String,
    to_topic        LowCardinality(String),
    to_partition    Int32,
    to_offset       Int64, -- intended: the first at which it can arrive; sent: where it arrived
    mended          Bool,
    digest          String,
    event_ids       Array(String)
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}')
PARTITION BY toMonday(kafka_time)
ORDER BY (kafka_topic, kafka_partition, kafka_offset, kafka_index, time, action, attempt)
TTL toDateTime(kafka_time) + INTERVAL 90 DAY
SETTINGS ttl_only_drop_parts = 1, replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800;

CREATE TABLE IF NOT EXISTS auditor.reject_log ON CLUSTER 'main' AS auditor.reject_log_local
ENGINE = Distributed('main', 'auditor', 'reject_log_local', sipHash64(kafka_topic, kafka_partition));

-- The state of each reject that was ever sent again, or about to be. Counts are of attempts, so that a row which comes
-- twice changes nothing.
CREATE VIEW IF NOT EXISTS auditor.reject_states ON CLUSTER 'main' AS
SELECT
    kafka_topic,
    kafka_partition,
    kafka_offset,
    kafka_index,
    multiIf(countIf(action = 'sent') > 0, 'replayed',
        uniqExactIf(attempt, action = 'intended') > uniqExactIf(attempt, action = 'not_sent'), 'unknown',
        'open') AS state
FROM auditor.reject_log
WHERE action IN ('intended', 'sent', 'not_sent')
GROUP BY kafka_topic, kafka_partition, kafka_offset, kafka_index;
