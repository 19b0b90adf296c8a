-- name: store/ledger_extent
-- From where to where a partition's ledger reaches, and how long its longest range is.
-- params: topic String, partition Int32
-- returns: ranges (0 when there are none), start, next, longest
-- cost: two columns of one partition's ledger
-- example: {"topic": "task-events", "partition": 0}
SELECT count() AS ranges, min(first) AS start, max(last) + 1 AS next, max(last - first + 1) AS longest
FROM ingest_ledger
WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
