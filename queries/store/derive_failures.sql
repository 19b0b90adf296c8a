-- name: store/derive_failures
-- Derives the attempts that failed from the events of a range of offsets again, as failures_view does when they arrive.
-- params: topic String, partition Int32, first Int64, last Int64
-- returns: nothing
-- cost: the offsets of the parts that reach into the range, and the range's events
-- example: {"topic": "task-events", "partition": 0, "first": 0, "last": 100}
-- replicas: all
INSERT INTO failures (minute, namespace, task, error_type, permanent, business_key, task_id, type, time, event_id, kafka_time)
SELECT toDateTime(toStartOfMinute(time), 'UTC') AS minute, namespace, task, error_type, error_permanent AS permanent, business_key, task_id, type,
    time, event_id, kafka_time
FROM events
WHERE (task_id != '' AND error_type != '' AND type IN ('retried', 'failed'))
    AND kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
    AND kafka_offset BETWEEN {first:Int64} AND {last:Int64}
