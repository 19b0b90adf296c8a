-- name: web/task_events
-- The events of one task id, in any namespace.
-- params: task_id String, limit UInt64
-- returns: every column of events, the newest first
-- cost: the bloom filters of all parts, and the granules that may hold the id
-- example: {"task_id": "a1", "limit": 100}
SELECT *
FROM events
WHERE task_id = {task_id:String}
ORDER BY time DESC, kafka_topic, kafka_partition, kafka_offset, kafka_index
LIMIT 1 BY kafka_topic, kafka_partition, kafka_offset, kafka_index
LIMIT {limit:UInt64}
