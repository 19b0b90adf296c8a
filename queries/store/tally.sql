-- name: store/tally
-- How many rows lie in the tables of each of some adjoining stretches of a partition's offsets, and how many places they
-- take. The counts are exact; bitmaps keep them, of a bit or so an offset, whatever is merged or not.
-- params: topic String, partition Int32, first Int64, firsts Array(Int64), last Int64
-- returns: stretch (where it begins), rows, positions, offsets of each stretch that has rows, in no order
-- cost: the offsets of the parts that reach into the stretches
-- example: {"topic": "task-events", "partition": 0, "first": 0, "firsts": [0, 100], "last": 199}
SELECT stretch, sum(n) AS rows, groupBitmapMerge(whole) + groupBitmapMerge(elements) AS positions, groupBitmapMerge(places) AS offsets
FROM
(
    SELECT
        roundDown(kafka_offset, {firsts:Array(Int64)}) AS stretch,
        count() AS n,
        groupBitmapStateIf(toUInt64(kafka_offset - {first:Int64}), kafka_index = 0) AS whole,
        groupBitmapStateIf(bitShiftLeft(toUInt64(kafka_offset - {first:Int64}), 20) + toUInt64(kafka_index), kafka_index != 0) AS elements,
        groupBitmapState(toUInt64(kafka_offset - {first:Int64})) AS places
    FROM events
    WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
        AND kafka_offset BETWEEN {first:Int64} AND {last:Int64}
    GROUP BY stretch
    UNION ALL
    SELECT
        roundDown(kafka_offset, {firsts:Array(Int64)}) AS stretch,
        count() AS n,
        groupBitmapStateIf(toUInt64(kafka_offset - {first:Int64}), kafka_index = 0) AS whole,
        groupBitmapStateIf(bitShiftLeft(toUInt64(kafka_offset - {first:Int64}), 20) + toUInt64(kafka_index), kafka_index != 0) AS elements,
        groupBitmapState(toUInt64(kafka_offset - {first:Int64})) AS places
    FROM rejects
    WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
        AND kafka_offset BETWEEN {first:Int64} AND {last:Int64}
    GROUP BY stretch
)
GROUP BY stretch
SETTINGS max_threads = 2
