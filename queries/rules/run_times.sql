-- name: rules/run_times
-- How long the runs of each task take that succeed, measured in a share of all keys: key_hash is spread evenly.
-- params: top UInt64, since DateTime64(6, 'UTC'), until DateTime64(6, 'UTC'), arrived DateTime64(6, 'UTC'), runs UInt64
-- returns: one row a task with at least so many runs, in order: the 99th percentile in seconds
-- cost: the keys up to top
-- example: {"top": 18446744073709551615, "since": "2026-11-01 00:00:00", "until": "2026-11-03 00:00:00", "arrived": "2026-11-03 00:00:00", "runs": 100}
SELECT toString(name) AS name, count() AS runs, quantileExact(0.99)(seconds) AS p99
FROM
(
    SELECT max(task) AS name,
        if(max(runtime) > 0, max(runtime), dateDiff('microsecond', minIf(time, type = 'started'), maxIf(time, type = 'succeeded')) / 1e6) AS seconds
    FROM events
    WHERE key_hash <= {top:UInt64} AND task_id != '' AND type IN ('started', 'succeeded')
        AND kafka_time >= {since:DateTime64(6, 'UTC')} AND time <= {until:DateTime64(6, 'UTC')} AND kafka_time <= {arrived:DateTime64(6, 'UTC')}
    GROUP BY namespace, task_id, retries, worker
    HAVING countIf(type = 'succeeded') > 0 AND (max(runtime) > 0 OR countIf(type = 'started') > 0)
)
WHERE seconds >= 0
GROUP BY name
HAVING runs >= {runs:UInt64}
ORDER BY name
