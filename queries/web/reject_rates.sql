-- name: web/reject_rates
-- How many records were rejected, and why, as time went.
-- params: from DateTime64(6, 'UTC'), slot UInt32
-- returns: one row a slot of so many seconds and reason, in order of time
-- cost: the rejects since from, but for their bytes
-- example: {"from": "2026-11-02 00:00:00", "slot": 1800}
SELECT
    toDateTime(toStartOfInterval(kafka_time, toIntervalSecond({slot:UInt32})), 'UTC') AS begun, toString(reason) AS why,
    uniqExact(kafka_topic, kafka_partition, kafka_offset, kafka_index) AS found
FROM rejects
WHERE kafka_time >= toStartOfInterval({from:DateTime64(6, 'UTC')}, toIntervalSecond({slot:UInt32}))
GROUP BY begun, why
ORDER BY begun, why
