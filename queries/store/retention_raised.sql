-- name: store/retention_raised
-- The time by the server's clock, and the latest moment before which rows of the events or the rejects had been deleted when
-- those began to be kept for longer.
-- params: none
-- returns: now, deleted (the epoch when there is none)
-- cost: none
SELECT now64(3, 'UTC') AS now, max(at - toIntervalDay(days_before)) AS deleted
FROM retention_raised
WHERE table_name IN ('events', 'rejects')
