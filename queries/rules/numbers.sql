-- name: rules/numbers
-- The numbers that emitters have given to events, in blocks of 128.
-- params: namespace String, emitters Array(String), since DateTime64(6, 'UTC')
-- returns: one row a block that was heard of since then, in order; low and high are the least and the greatest of its numbers that
--    were heard of, and missing those between them that were not
-- cost: one key range an emitter, a row for each 128 of its events
-- example: {"namespace": "", "emitters": ["w1@host-a"], "since": "2026-11-01 00:00:00"}
WITH blocks AS
(
    SELECT emitter, block, groupBitmapMergeState(numbers) AS heard, min(first) AS first_heard, max(last) AS last_heard
    FROM emitter_numbers
    WHERE namespace = {namespace:String} AND emitter IN {emitters:Array(String)} AND kafka_time >= {since:DateTime64(6, 'UTC')}
    GROUP BY emitter, block
)
SELECT emitter, block * 128 + bitmapMin(heard) AS low, block * 128 + bitmapMax(heard) AS high,
    if(bitmapCardinality(heard) = bitmapMax(heard) - bitmapMin(heard) + 1, [],
        arrayFilter(n -> NOT bitmapContains(heard, toUInt8(n - block * 128)), range(low, high))) AS missing,
    first_heard, last_heard
FROM blocks
ORDER BY emitter, low
