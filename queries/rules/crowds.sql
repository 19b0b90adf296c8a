-- name: rules/crowds
-- How many ids of a task retried, or came to their next attempt, within a short time of each other, minute by minute: what can't be
-- a wave of retries, nor a surge, is left out of account by it.
-- params: from DateTime64(6, 'UTC'), until DateTime64(6, 'UTC'), since DateTime64(6, 'UTC'), arrived DateTime64(6, 'UTC'), within Int64
-- returns: one row a task and minute, in order of time: the most ids within so many microseconds that begin in that minute (or a third
--    more than so many), the same where some of it reached Kafka since then, whether any did, and the retries
-- cost: the retries of the window, each four times, and a key look-up for each id without a name
-- example: {"from": "2026-11-02 00:00:00", "until": "2026-11-03 00:00:00", "since": "2026-11-02 00:00:00", "arrived": "2026-11-03 00:00:00", "within": 5000000}
SELECT toString(namespace) AS namespace, name, minute, max(crowd) AS ids, maxIf(crowd, arrived_since) AS fresh_ids,
    max(arrived_since) AS fresh, sumIf(retried, grid = 0) AS retries
FROM
(
    -- Of four grids of times, each a quarter further than the one before, one has a cell for any stretch of three quarters of a cell.
    SELECT a.namespace AS namespace, if(a.task != '', toString(a.task), toString(k.name)) AS name, arrayJoin([0, 1, 2, 3]) AS grid,
        intDiv(3 * toUnixTimestamp64Micro(a.time) + grid * {within:Int64}, 4 * {within:Int64}) AS cell,
        toStartOfMinute(min(a.time)) AS minute,
        greatest(uniqExactIf(a.task_id, a.type = 'retried'), uniqExactIf(a.task_id, a.type != 'retried')) AS crowd,
        max(a.kafka_time >= {since:DateTime64(6, 'UTC')}) AS arrived_since,
        uniqExactIf(a.event_id, a.type = 'retried') AS retried
    FROM attempts AS a
    LEFT ANY JOIN
    (
        SELECT namespace, task_id, max(task) AS name
        FROM task_keys
        WHERE (namespace, task_id) IN (SELECT namespace, task_id FROM attempts WHERE task = '' AND minute >= toStartOfMinute({from:DateTime64(6, 'UTC')}))
        GROUP BY namespace, task_id
    ) AS k ON k.namespace = a.namespace AND k.task_id = a.task_id
    WHERE a.minute >= toStartOfMinute({from:DateTime64(6, 'UTC')}) AND a.time <= {until:DateTime64(6, 'UTC')} AND a.kafka_time <= {arrived:DateTime64(6, 'UTC')}
    GROUP BY namespace, name, grid, cell
)
GROUP BY namespace, name, minute
ORDER BY minute, namespace, name
