-- name: rules/next_stretch
-- Where the next changes of a partition begin, and when the oldest of them reached Kafka: at most so many offsets of them.
-- params: topic String, partition Int32, from Int64, end Int64, most Int64
-- returns: one row; first is 0 and changes is 0 when no key changed at or after from
-- cost: one key range
-- example: {"topic": "task-events", "partition": 0, "from": 0, "end": 1000, "most": 100}
WITH (
    SELECT min(kafka_offset)
    FROM
    (
        SELECT kafka_offset
        FROM changed_keys
        WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
            AND kafka_offset >= {from:Int64} AND kafka_offset < {end:Int64}
        ORDER BY kafka_topic, kafka_partition, kafka_offset
        LIMIT 1
    )
) AS first_change
SELECT min(kafka_offset) AS first, min(kafka_time) AS oldest, count() AS changes
FROM changed_keys
WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
    AND kafka_offset >= {from:Int64} AND kafka_offset < least({end:Int64}, assumeNotNull(first_change) + {most:Int64})
