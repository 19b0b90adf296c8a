-- name: store/arrived
-- The first event that was stored of a partition from an offset on under one of some ids.
-- params: topic String, partition Int32, from Int64, ids Array(String)
-- returns: kafka_offset of at most one row
-- cost: the offsets of the parts that reach beyond the offset, and their ids
-- example: {"topic": "task-events", "partition": 0, "from": 100, "ids": ["e1"]}
-- replicas: all
SELECT kafka_offset
FROM events
WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32} AND kafka_offset >= {from:Int64}
    AND event_id IN {ids:Array(String)}
ORDER BY kafka_offset
LIMIT 1
