-- name: store/held
-- What lies in the tables of each offset of a range.
-- params: topic String, partition Int32, first Int64, last Int64
-- returns: kafka_offset, rows, positions, top (the highest index) of each offset that has rows, in order
-- cost: the offsets of the parts that reach into the range
-- example: {"topic": "task-events", "partition": 0, "first": 0, "last": 100}
SELECT kafka_offset, count() AS rows, uniqExact(kafka_index) AS positions, max(kafka_index) AS top
FROM
(
    SELECT kafka_offset, kafka_index
    FROM events
    WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
        AND kafka_offset BETWEEN {first:Int64} AND {last:Int64}
    UNION ALL
    SELECT kafka_offset, kafka_index
    FROM rejects
    WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
        AND kafka_offset BETWEEN {first:Int64} AND {last:Int64}
)
GROUP BY kafka_offset
ORDER BY kafka_offset
SETTINGS max_threads = 2
