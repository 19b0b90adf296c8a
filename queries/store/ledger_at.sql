-- name: store/ledger_at
-- Between which offsets the ranges of a partition's ledger lie whose last record reached Kafka within a stretch of time.
-- params: topic String, partition Int32, from DateTime64(6, 'UTC'), to DateTime64(6, 'UTC')
-- returns: ranges (0 when there are none), first, last
-- cost: three columns of one partition's ledger
-- example: {"topic": "task-events", "partition": 0, "from": "2026-11-01 00:00:00", "to": "2026-11-02 00:00:00"}
SELECT count() AS ranges, min(first) AS first, max(last) AS last
FROM ingest_ledger
WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32} AND records > 0
    AND kafka_time BETWEEN {from:DateTime64(6, 'UTC')} AND {to:DateTime64(6, 'UTC')}
