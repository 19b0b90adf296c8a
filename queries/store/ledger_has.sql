-- name: store/ledger_has
-- Whether the ledger has a row for exactly this range of offsets.
-- params: topic String, partition Int32, first Int64, last Int64
-- returns: one number, 0 when it has none
-- cost: one key look-up
-- example: {"topic": "task-events", "partition": 0, "first": 0, "last": 100}
-- replicas: all
SELECT count()
FROM ingest_ledger
WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
    AND first = {first:Int64} AND last = {last:Int64}
