-- name: store/ledger
-- The rows of a partition's ledger that begin at or after an offset and reach beyond another.
-- params: topic String, partition Int32, from Int64, after Int64, limit UInt64
-- returns: first, last, records, events, rejects, lost, kafka_time, oldest of each row, by where it begins
-- cost: one key range
-- example: {"topic": "task-events", "partition": 0, "from": 0, "after": 99, "limit": 1000}
SELECT first, last, records, events, rejects, lost, kafka_time, oldest
FROM ingest_ledger FINAL
WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32} AND first >= {from:Int64} AND last > {after:Int64}
ORDER BY first, last
LIMIT {limit:UInt64}
