-- name: rules/first_change
-- The lowest offset of a partition, at or after a given one, at which a key changed.
-- params: topic String, partition Int32, from Int64
-- returns: one offset, or no row
-- cost: the head of one key range
-- example: {"topic": "task-events", "partition": 0, "from": 0}
SELECT kafka_offset
FROM changed_keys
WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32} AND kafka_offset >= {from:Int64}
ORDER BY kafka_topic, kafka_partition, kafka_offset
LIMIT 1
