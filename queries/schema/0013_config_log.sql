-- What the rules went by: a row each time that they began with another configuration than the one before.
CREATE TABLE IF NOT EXISTS config_log
(
    time    DateTime64(6, 'UTC'),
    digest  String,               -- of section
    section String CODEC(ZSTD(1)), -- rules and tasks, as auditor config print prints them, and a digest of each rule that users wrote
    changed String CODEC(ZSTD(1)), -- what differs from the row before, a line a key: "- key: before", "+ key: now"; empty in the first
    program String                -- the version of the auditor
)
ENGINE = ReplacingMergeTree
ORDER BY (time, digest);
