-- What became of the newest evaluation of each rule that users wrote.
CREATE TABLE IF NOT EXISTS rule_runs
(
    rule    LowCardinality(String),
    time    DateTime64(6, 'UTC'),
    seconds Float64,
    found   UInt32,
    error   String,
    version UInt64 DEFAULT toUnixTimestamp64Micro(now64(6))
)
ENGINE = ReplacingMergeTree(version)
ORDER BY rule;
