-- name: rules/next_change
-- The first offset of a partition, in a range, at which a key changed.
-- params: topic String, partition Int32, from Int64, end Int64
-- returns: one row, or none
-- cost: one key look-up
-- example: {"topic": "task-events", "partition": 0, "from": 0, "end": 1000}
SELECT kafka_offset
FROM changed_keys
WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
    AND kafka_offset >= {from:Int64} AND kafka_offset < {end:Int64}
ORDER BY kafka_topic, kafka_partition, kafka_offset
LIMIT 1
