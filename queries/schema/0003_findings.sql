-- What the rules know: how far they have read, what is still open, and what they found.

CREATE TABLE IF NOT EXISTS rule_cursors
(
    name            LowCardinality(String),
    kafka_topic     LowCardinality(String),
    kafka_partition Int32,
    next_offset     Int64,
    version         UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (name, kafka_topic, kafka_partition);

-- Tasks whose last word is no end, and when that becomes too long. A task that has ended gets a row with open = false.
CREATE TABLE IF NOT EXISTS pending
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
    version         UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (namespace, business_key, task_id, pending_task_id);

-- The newest version of each finding.
CREATE TABLE IF NOT EXISTS findings
(
    id           String,
    rule         LowCardinality(String),
    severity     LowCardinality(String),
    state        LowCardinality(String),
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
ENGINE = ReplacingMergeTree(version)
ORDER BY id
SETTINGS index_granularity = 1024;

-- Every change of a finding's state: by whom, when, and why.
CREATE TABLE IF NOT EXISTS finding_log
(
    finding_id String,
    time       DateTime64(6, 'UTC'),
    from_state LowCardinality(String),
    to_state   LowCardinality(String),
    by         String,
    note       String
)
ENGINE = ReplacingMergeTree
ORDER BY (finding_id, time, from_state, to_state, by, note);
