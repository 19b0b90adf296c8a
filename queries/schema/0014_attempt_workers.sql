-- Which worker told a retry, or the attempt after it: the clocks of two hosts may differ. Older rows tell none.
ALTER TABLE attempts ADD COLUMN IF NOT EXISTS worker LowCardinality(String);

ALTER TABLE attempts_view MODIFY QUERY
SELECT toDateTime(toStartOfMinute(time), 'UTC') AS minute, namespace, task, task_id, type, retries, time, error_type, event_id, kafka_time, worker
FROM events
WHERE task_id != '' AND (type = 'retried' OR (type IN ('received', 'started') AND retries > 0));
