-- name: rules/minutes
-- What the tasks that retry did, minute by minute.
-- params: from DateTime64(6, 'UTC'), until DateTime64(6, 'UTC'), arrived DateTime64(6, 'UTC'), retries UInt64
-- returns: one row a task and minute, for tasks with at least so many retries in all; in order of time
-- cost: the retries in the window, and one row a minute, task and type
-- example: {"from": "2026-11-02 00:00:00", "until": "2026-11-03 00:00:00", "arrived": "2026-11-03 00:00:00", "retries": 50}
WITH
    retried AS
    (
        SELECT a.namespace AS namespace, if(a.task != '', toString(a.task), toString(k.name)) AS name, a.minute AS minute,
            uniqExact(a.event_id) AS retries
        FROM attempts AS a
        LEFT ANY JOIN
        (
            SELECT namespace, task_id, max(task) AS name
            FROM task_keys
            WHERE (namespace, task_id) IN (SELECT namespace, task_id FROM attempts WHERE task = '' AND minute >= toStartOfMinute({from:DateTime64(6, 'UTC')}))
            GROUP BY namespace, task_id
        ) AS k ON k.namespace = a.namespace AND k.task_id = a.task_id
        WHERE a.type = 'retried' AND a.minute >= toStartOfMinute({from:DateTime64(6, 'UTC')}) AND a.time <= {until:DateTime64(6, 'UTC')}
            AND a.kafka_time <= {arrived:DateTime64(6, 'UTC')}
        GROUP BY namespace, name, minute
    ),
    loud AS (SELECT namespace, name FROM retried GROUP BY namespace, name HAVING sum(retries) >= {retries:UInt64}),
    begun AS
    (
        SELECT namespace, name, minute, multiIf(started > 0, started, received > 0, received, ended) AS runs
        FROM
        (
            SELECT namespace, toString(task) AS name, minute,
                uniqCombined64MergeIf(13)(events, type = 'started') AS started,
                uniqCombined64MergeIf(13)(events, type = 'received') AS received,
                uniqCombined64MergeIf(13)(events, type IN ('succeeded', 'failed', 'retried')) AS ended
            FROM task_minutes
            WHERE minute >= toStartOfMinute({from:DateTime64(6, 'UTC')}) AND minute <= {until:DateTime64(6, 'UTC')}
                AND (namespace, toString(task)) IN (SELECT namespace, name FROM loud)
            GROUP BY namespace, name, minute
        )
    )
SELECT toString(b.namespace) AS namespace, b.name AS name, b.minute AS minute, b.runs AS runs, r.retries AS retries
FROM begun AS b
LEFT JOIN retried AS r ON r.namespace = b.namespace AND r.name = b.name AND r.minute = b.minute
ORDER BY minute, namespace, name
