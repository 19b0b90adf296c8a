-- name: store/derive_changed_keys
-- Derives which keys changed from the events of a range of offsets again, as changed_keys_view does when they arrive.
-- params: topic String, partition Int32, first Int64, last Int64
-- returns: nothing
-- cost: the offsets of the parts that reach into the range, and the range's events
-- example: {"topic": "task-events", "partition": 0, "first": 0, "last": 100}
-- replicas: all
INSERT INTO changed_keys (kafka_topic, kafka_partition, kafka_offset, namespace, business_key, task_id, kafka_time)
SELECT kafka_topic, kafka_partition, kafka_offset, namespace, business_key, task_id, kafka_time
FROM events
WHERE task_id != ''
    AND kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
    AND kafka_offset BETWEEN {first:Int64} AND {last:Int64}
