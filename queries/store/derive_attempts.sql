-- name: store/derive_attempts
-- Derives retries and the attempts after them from the events of a range of offsets again, as attempts_view does when they arrive.
-- params: topic String, partition Int32, first Int64, last Int64
-- returns: nothing
-- cost: the offsets of the parts that reach into the range, and the range's events
-- example: {"topic": "task-events", "partition": 0, "first": 0, "last": 100}
-- replicas: all
INSERT INTO attempts (minute, namespace, task, task_id, type, retries, time, error_type, event_id, kafka_time, worker)
SELECT toDateTime(toStartOfMinute(time), 'UTC') AS minute, namespace, task, task_id, type, retries, time, error_type, event_id, kafka_time, worker
FROM events
WHERE (task_id != '' AND (type = 'retried' OR (type IN ('received', 'started') AND retries > 0)))
    AND kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
    AND kafka_offset BETWEEN {first:Int64} AND {last:Int64}
