-- name: rules/numbers
-- The numbers that emitters have not given to any event, by blocks of 128.
-- params: namespace String, emitters Array(String), since DateTime64(6, 'UTC'), most UInt64
-- returns: one row a block that was heard of since then and that lacks a number, or does not follow on the one before, in order; of
--    each emitter at most so many, the newest. low and high are the least and the greatest of its numbers that were heard of, missing
--    those between them that were not, and before the greatest of the block before it, or low - 1
-- cost: one key range an emitter, a row for each 128 of its events
-- example: {"namespace": "", "emitters": ["w1@host-a"], "since": "2026-11-01 00:00:00", "most": 1000}
WITH
    blocks AS
    (
        SELECT emitter, block, groupBitmapMergeState(numbers) AS heard, min(first) AS first_heard, max(last) AS last_heard
        FROM emitter_numbers
        WHERE namespace = {namespace:String} AND emitter IN {emitters:Array(String)} AND kafka_time >= {since:DateTime64(6, 'UTC')}
        GROUP BY emitter, block
    ),
    ordered AS
    (
        SELECT emitter, block, heard, block * 128 + bitmapMin(heard) AS low, block * 128 + bitmapMax(heard) AS high, first_heard, last_heard,
            lagInFrame(high, 1, low - 1) OVER w AS before, lagInFrame(last_heard, 1, first_heard) OVER w AS before_heard
        FROM blocks
        WINDOW w AS (PARTITION BY emitter ORDER BY block ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
    )
SELECT * FROM
(
    SELECT emitter, low, high,
        if(bitmapCardinality(heard) = high - low + 1, [], arrayFilter(n -> NOT bitmapContains(heard, toUInt8(n - block * 128)), range(low, high))) AS missing,
        first_heard, last_heard, before, before_heard
    FROM ordered
    WHERE before + 1 < low OR bitmapCardinality(heard) != high - low + 1
    ORDER BY emitter, low DESC
    LIMIT {most:UInt64} BY emitter
)
ORDER BY emitter, low
