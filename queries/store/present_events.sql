-- name: store/present_events
-- Which rows of a range of offsets are among the events.
-- params: topic String, partition Int32, first Int64, last Int64
-- returns: kafka_offset, kafka_index of each row, once, in no order
-- cost: the offsets of the parts that reach into the range: with offsets that grow in time, the newest
-- example: {"topic": "task-events", "partition": 0, "first": 0, "last": 100}
-- replicas: all
SELECT DISTINCT kafka_offset, kafka_index
FROM events
WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
    AND kafka_offset BETWEEN {first:Int64} AND {last:Int64}
