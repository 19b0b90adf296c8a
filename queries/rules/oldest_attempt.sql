-- name: rules/oldest_attempt
-- The first minute in which a retry, or an attempt after one, happened of those that reached Kafka from a time on.
-- params: since DateTime64(6, 'UTC')
-- returns: one row; attempts is 0 when there are none
-- cost: the arrival times of the retries of the weeks from then on
-- example: {"since": "2026-11-02 00:00:00"}
SELECT min(minute) AS oldest, count() AS attempts
FROM attempts
WHERE kafka_time >= {since:DateTime64(6, 'UTC')}
