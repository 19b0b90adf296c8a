-- What the rules ask at every look they find by the hash of a key, the same that events are sorted by.

-- Which findings there are about a subject.
CREATE TABLE IF NOT EXISTS auditor.finding_subjects_local ON CLUSTER 'main'
(
    key_hash UInt64,
    id       String
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}')
ORDER BY (key_hash, id)
SETTINGS index_granularity = 1024;

CREATE TABLE IF NOT EXISTS auditor.finding_subjects ON CLUSTER 'main' AS auditor.finding_subjects_local
ENGINE = Distributed('main', 'auditor', 'finding_subjects_local', 0);

CREATE MATERIALIZED VIEW IF NOT EXISTS auditor.finding_subjects_view ON CLUSTER 'main' TO auditor.finding_subjects_local AS
SELECT sipHash64(namespace, business_key, if(business_key = '', task_ids[1], '')) AS key_hash, id
FROM auditor.finding_versions_local
WHERE business_key != '' OR length(task_ids) = 1;

INSERT INTO auditor.finding_subjects (key_hash, id)
SELECT sipHash64(namespace, business_key, if(business_key = '', task_ids[1], '')) AS key_hash, id
FROM auditor.finding_versions
WHERE business_key != '' OR length(task_ids) = 1;

-- Tasks whose last word is no end, and when that becomes too long. It takes the place of pending, which nothing writes any
-- longer. A task that has ended gets a row with open = false. Such rows go after some hours, or the table would grow with
-- every task there ever was; should one go before the row that it closes, then the rules look at that task once more, and
-- close it again. The index passes over the granules where all have ended, which are nearly all.
CREATE TABLE IF NOT EXISTS auditor.waiting_tasks_local ON CLUSTER 'main'
(
    key_hash        UInt64 MATERIALIZED sipHash64(namespace, business_key, task_id),
    namespace       LowCardinality(String),
    business_key    String CODEC(ZSTD(1)),
    task_id         String CODEC(ZSTD(1)),
    pending_task_id String CODEC(ZSTD(1)),
    task            LowCardinality(String),
    phase           LowCardinality(String),
    since           DateTime64(6, 'UTC'),
    due             DateTime64(6, 'UTC'),
    open            Bool,
    version         UInt64 DEFAULT toUnixTimestamp64Micro(now64(6)),
    written         DateTime('UTC') DEFAULT now(),
    INDEX open_range open TYPE minmax GRANULARITY 1
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}', version)
PRIMARY KEY key_hash
ORDER BY (key_hash, namespace, business_key, task_id, pending_task_id)
TTL written + INTERVAL 4 HOUR DELETE WHERE NOT open
SETTINGS index_granularity = 256;

CREATE TABLE IF NOT EXISTS auditor.waiting_tasks ON CLUSTER 'main' AS auditor.waiting_tasks_local
ENGINE = Distributed('main', 'auditor', 'waiting_tasks_local', 0);

INSERT INTO auditor.waiting_tasks (namespace, business_key, task_id, pending_task_id, task, phase, since, due, open, version)
SELECT namespace, business_key, task_id, pending_task_id, task, phase, since, due, open, version
FROM auditor.pending FINAL
WHERE open;
