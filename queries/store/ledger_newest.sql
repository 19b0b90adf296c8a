-- name: store/ledger_newest
-- The row of a partition's ledger that reaches furthest.
-- params: topic String, partition Int32
-- returns: first, last, records, events, rejects, lost, kafka_time, oldest of at most one row
-- cost: the rows of one partition's ledger
-- example: {"topic": "task-events", "partition": 0}
-- replicas: all
SELECT first, last, records, events, rejects, lost, kafka_time, oldest
FROM ingest_ledger
WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
ORDER BY last DESC, first
LIMIT 1
