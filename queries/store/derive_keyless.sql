-- name: store/derive_keyless
-- Derives the namespaces with keyless events from the events of a range of offsets again, as keyless_view does when they
-- arrive.
-- params: topic String, partition Int32, first Int64, last Int64
-- returns: nothing
-- cost: the offsets of the parts that reach into the range, and the range's events
-- example: {"topic": "task-events", "partition": 0, "first": 0, "last": 100}
-- replicas: all
INSERT INTO keyless (namespace, kafka_time)
SELECT namespace, max(kafka_time) AS kafka_time
FROM events
WHERE (task_id != '' AND business_key = '')
    AND kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
    AND kafka_offset BETWEEN {first:Int64} AND {last:Int64}
GROUP BY namespace
