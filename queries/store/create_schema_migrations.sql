-- name: store/create_schema_migrations
-- Makes the table that records which migrations were applied.
-- params: none
-- returns: nothing
-- cost: none
CREATE TABLE IF NOT EXISTS schema_migrations
(
    name       String,
    checksum   String,
    applied_at DateTime64(6, 'UTC') DEFAULT now64(6, 'UTC')
)
ENGINE = ReplacingMergeTree
ORDER BY name
