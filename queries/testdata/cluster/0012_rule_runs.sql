-- What became of the newest evaluation of each rule that users wrote.
CREATE TABLE IF NOT EXISTS auditor.rule_runs_local ON CLUSTER 'main'
(
    rule    LowCardinality(String),
    time    DateTime64(6, 'UTC'),
    seconds Float64,
    found   UInt32,
    error   String,
    version UInt64 DEFAULT toUnixTimestamp64Micro(now64(6))
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}', version)
ORDER BY rule;

CREATE TABLE IF NOT EXISTS auditor.rule_runs ON CLUSTER 'main' AS auditor.rule_runs_local
ENGINE = Distributed('main', 'auditor', 'rule_runs_local', 0);
