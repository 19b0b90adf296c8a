-- name: store/config_log
-- What the rules went by, the newest first.
-- params: limit UInt64
-- returns: one row a configuration that they began with, where it was another than before
-- cost: the whole table: a row a change
-- example: {"limit": 20}
SELECT time, digest, section, changed, program
FROM config_log FINAL
ORDER BY time DESC, digest
LIMIT {limit:UInt64}
