-- name: store/retention
-- For how many days each table keeps its rows.
-- params: none
-- returns: table, days (0: for ever) of each table that goes by the Kafka timestamp, by name
-- cost: none
SELECT
    t.name AS table,
    toUInt32OrZero(extract(t.engine_full, 'TTL toDateTime\\(kafka_time\\) \\+ toIntervalDay\\((?:_CAST\\()?([0-9]+)')) AS days
FROM system.tables AS t
WHERE t.database = currentDatabase() AND t.engine LIKE '%MergeTree' AND t.name NOT LIKE 'ingest_ledger%'
    AND t.name IN (SELECT c.table FROM system.columns AS c WHERE c.database = currentDatabase() AND c.name = 'kafka_time')
ORDER BY table
