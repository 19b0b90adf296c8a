-- name: store/derive_task_minutes
-- Derives the counts of each minute from the events of a range of offsets again, as task_minutes_view does when they arrive.
-- params: topic String, partition Int32, first Int64, last Int64
-- returns: nothing
-- cost: the offsets of the parts that reach into the range, and the range's events
-- example: {"topic": "task-events", "partition": 0, "first": 0, "last": 100}
-- replicas: all
INSERT INTO task_minutes (minute, namespace, task, type, events, kafka_time)
SELECT toDateTime(toStartOfMinute(time), 'UTC') AS minute, namespace, task, type,
    uniqCombined64State(13)(event_id) AS events, max(kafka_time) AS kafka_time
FROM events
WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
    AND kafka_offset BETWEEN {first:Int64} AND {last:Int64}
GROUP BY minute, namespace, task, type
