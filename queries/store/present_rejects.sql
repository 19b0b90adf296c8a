-- name: store/present_rejects
-- Which rows of a range of offsets are among the rejects.
-- params: topic String, partition Int32, first Int64, last Int64
-- returns: kafka_offset, kafka_index of each row, once, in no order
-- cost: one key range
-- example: {"topic": "task-events", "partition": 0, "first": 0, "last": 100}
-- replicas: all
SELECT DISTINCT kafka_offset, kafka_index
FROM rejects
WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
    AND kafka_offset BETWEEN {first:Int64} AND {last:Int64}
