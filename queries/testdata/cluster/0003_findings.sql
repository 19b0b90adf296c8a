-- What the rules know: how far they have read, what is still open, and what they found.
--
-- A version that is not told is ClickHouse's clock, in microseconds, when the row is written: the later row counts.

CREATE TABLE IF NOT EXISTS auditor.rule_cursors_local ON CLUSTER 'main'
(
    name            LowCardinality(String),
    kafka_topic     LowCardinality(String),
    kafka_partition Int32,
    next_offset     Int64,
    version         UInt64 DEFAULT toUnixTimestamp64Micro(now64(6))
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}', version)
ORDER BY (name, kafka_topic, kafka_partition);

CREATE TABLE IF NOT EXISTS auditor.rule_cursors ON CLUSTER 'main' AS auditor.rule_cursors_local
ENGINE = Distributed('main', 'auditor', 'rule_cursors_local', 0);

-- Tasks whose last word is no end, and when that becomes too long. A task that has ended gets a row with open = false. Such
-- rows go after a day, or the table would grow with every task there ever was; should one go before the row that it
-- closes, then the rules look at that task once more, and close it again.
CREATE TABLE IF NOT EXISTS auditor.pending_local ON CLUSTER 'main'
(
    namespace       LowCardinality(String),
    business_key    String,
    task_id         String,
    pending_task_id String,
    task            LowCardinality(String),
    phase           LowCardinality(String),
    since           DateTime64(6, 'UTC'),
    due             DateTime64(6, 'UTC'),
    open            Bool,
    version         UInt64 DEFAULT toUnixTimestamp64Micro(now64(6)),
    written         DateTime('UTC') DEFAULT now()
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}', version)
ORDER BY (namespace, business_key, task_id, pending_task_id)
TTL written + INTERVAL 1 DAY DELETE WHERE NOT open;

CREATE TABLE IF NOT EXISTS auditor.pending ON CLUSTER 'main' AS auditor.pending_local
ENGINE = Distributed('main', 'auditor', 'pending_local', 0);

-- What the rules say of each finding. The newest version counts. Only the rules write it, so that it holds no state: that
-- is what people change too.
CREATE TABLE IF NOT EXISTS auditor.finding_versions_local ON CLUSTER 'main'
(
    id           String,
    rule         LowCardinality(String),
    severity     LowCardinality(String),
    namespace    LowCardinality(String),
    task         LowCardinality(String),
    business_key String,
    task_ids     Array(String),
    cause        LowCardinality(String),
    effects      UInt32,
    first_seen   DateTime64(6, 'UTC'),
    last_seen    DateTime64(6, 'UTC'),
    title        String,
    explanation  String CODEC(ZSTD(1)),
    remedy       String CODEC(ZSTD(1)),
    fields       String CODEC(ZSTD(1)),
    evidence     String CODEC(ZSTD(1)),
    updated_at   DateTime64(6, 'UTC'),
    version      UInt64
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}', version)
ORDER BY id
SETTINGS index_granularity = 1024;

CREATE TABLE IF NOT EXISTS auditor.finding_versions ON CLUSTER 'main' AS auditor.finding_versions_local
ENGINE = Distributed('main', 'auditor', 'finding_versions_local', 0);

-- Every change of a finding's state: by whom, when, and why.
CREATE TABLE IF NOT EXISTS auditor.finding_log_local ON CLUSTER 'main'
(
    finding_id String,
    time       DateTime64(6, 'UTC'),
    from_state LowCardinality(String),
    to_state   LowCardinality(String),
    by         String,
    note       String
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}')
ORDER BY (finding_id, time, from_state, to_state, by, note);

CREATE TABLE IF NOT EXISTS auditor.finding_log ON CLUSTER 'main' AS auditor.finding_log_local
ENGINE = Distributed('main', 'auditor', 'finding_log_local', 0);

-- The state of each finding: that of its last change, save that an acknowledgement counts for an open finding only. So
-- one that crosses a resolution, neither knowing of the other, does not bring the finding back.
CREATE VIEW IF NOT EXISTS auditor.finding_states ON CLUSTER 'main' AS
SELECT
    finding_id,
    argMaxIf(to_state, (time, to_state), to_state != 'acknowledged') AS decided,
    maxIf(time, to_state != 'acknowledged') AS decided_at,
    maxIf(time, to_state = 'acknowledged') AS acknowledged_at,
    if(decided IN ('', 'open') AND acknowledged_at > decided_at, 'acknowledged', if(decided = '', 'open', decided)) AS state,
    max(time) AS changed_at
FROM auditor.finding_log
GROUP BY finding_id;

-- Each finding once, as it is now.
CREATE VIEW IF NOT EXISTS auditor.findings ON CLUSTER 'main' AS
SELECT
    v.id AS id,
    v.rule AS rule,
    v.severity AS severity,
    if(s.state = '', 'open', s.state) AS state,
    v.namespace AS namespace,
    v.task AS task,
    v.business_key AS business_key,
    v.task_ids AS task_ids,
    v.cause AS cause,
    v.effects AS effects,
    v.first_seen AS first_seen,
    v.last_seen AS last_seen,
    v.title AS title,
    v.explanation AS explanation,
    v.remedy AS remedy,
    v.fields AS fields,
    v.evidence AS evidence,
    greatest(v.updated_at, s.changed_at) AS updated_at,
    v.version AS version
FROM auditor.finding_versions AS v FINAL
LEFT JOIN auditor.finding_states AS s ON s.finding_id = v.id;
