-- name: store/derive_emitter_numbers
-- Derives the emitters' numbers from the events of a range of offsets again, as emitter_numbers_view does when they arrive.
-- params: topic String, partition Int32, first Int64, last Int64
-- returns: nothing
-- cost: the offsets of the parts that reach into the range, and the range's events
-- example: {"topic": "task-events", "partition": 0, "first": 0, "last": 100}
-- replicas: all
INSERT INTO emitter_numbers (namespace, emitter, block, numbers, first, last, kafka_time)
SELECT namespace, emitter, intDiv(seq, 128) AS block, groupBitmapState(toUInt8(seq % 128)) AS numbers,
    min(time) AS first, max(time) AS last, max(kafka_time) AS kafka_time
FROM events
WHERE (emitter != '' AND seq >= 0)
    AND kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
    AND kafka_offset BETWEEN {first:Int64} AND {last:Int64}
GROUP BY namespace, emitter, block
