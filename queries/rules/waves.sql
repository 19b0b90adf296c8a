-- name: rules/waves
-- How many ids of a task came to their next retry within each second, and how alike the gaps before it were: between a
-- retry and the attempt after it, and between two retries (a worker may receive an attempt long before its time).
-- params: from DateTime64(6, 'UTC'), until DateTime64(6, 'UTC'), arrived DateTime64(6, 'UTC'), ids UInt64
-- returns: one row a second, task and measure, for tasks of which one second has at least so many ids; in order of time
-- cost: the retries in the window
-- example: {"from": "2026-11-02 00:00:00", "until": "2026-11-03 00:00:00", "arrived": "2026-11-03 00:00:00", "ids": 20}
WITH
    marks AS
    (
        SELECT a.namespace AS namespace, if(a.task != '', toString(a.task), toString(k.name)) AS name, a.task_id AS task_id,
            a.type AS type, a.retries AS retries, a.time AS time, a.error_type AS error_type
        FROM attempts AS a
        LEFT ANY JOIN
        (
            SELECT namespace, task_id, max(task) AS name
            FROM task_keys
            WHERE (namespace, task_id) IN (SELECT namespace, task_id FROM attempts WHERE task = '' AND minute >= toStartOfMinute({from:DateTime64(6, 'UTC')}))
            GROUP BY namespace, task_id
        ) AS k ON k.namespace = a.namespace AND k.task_id = a.task_id
        WHERE a.minute >= toStartOfMinute({from:DateTime64(6, 'UTC')}) AND a.time <= {until:DateTime64(6, 'UTC')} AND a.kafka_time <= {arrived:DateTime64(6, 'UTC')}
    ),
    retried AS
    (
        SELECT namespace, name, task_id, time, max(error_type) AS error_type
        FROM marks
        WHERE type = 'retried'
        GROUP BY namespace, name, task_id, time
    ),
    begun AS
    (
        SELECT namespace, name, task_id, if(countIf(type = 'started') > 0, minIf(time, type = 'started'), min(time)) AS time
        FROM marks
        WHERE type != 'retried'
        GROUP BY namespace, name, task_id, retries
    ),
    gaps AS
    (
        SELECT b.namespace AS namespace, b.name AS name, b.task_id AS task_id, 'attempt' AS measure, b.time AS at,
            r.error_type AS error_type, dateDiff('microsecond', r.time, b.time) / 1e6 AS gap
        FROM begun AS b
        ASOF INNER JOIN retried AS r ON r.namespace = b.namespace AND r.name = b.name AND r.task_id = b.task_id AND r.time <= b.time
        UNION ALL
        SELECT namespace, name, task_id, 'retry' AS measure, time AS at, error_type,
            dateDiff('microsecond', lagInFrame(time, 1, time) OVER w, time) / 1e6 AS gap
        FROM retried
        WINDOW w AS (PARTITION BY namespace, name, task_id ORDER BY time ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
    ),
    seconds AS
    (
        SELECT namespace, name, measure, toStartOfSecond(at) AS second,
            uniqExact(task_id) AS ids,
            quantilesExact(0.1, 0.5, 0.9)(gap) AS gap_quantiles,
            quantilesExact(0.1, 0.9)(dateDiff('microsecond', toStartOfSecond(at), at) / 1e6) AS moments,
            min(at) AS first_at, max(at) AS last_at, topK(1)(error_type)[1] AS error_type,
            arraySort(groupUniqArray(20)(task_id)) AS task_ids
        FROM gaps
        WHERE gap > 0
        GROUP BY namespace, name, measure, second
    )
SELECT toString(namespace) AS namespace, name, measure, second, ids, gap_quantiles[1] AS gap_low, gap_quantiles[2] AS gap,
    gap_quantiles[3] AS gap_high, moments[2] - moments[1] AS breadth, first_at, last_at, toString(error_type) AS error_type, task_ids
FROM seconds
WHERE (namespace, name, measure) IN (SELECT namespace, name, measure FROM seconds WHERE ids >= {ids:UInt64})
ORDER BY second, namespace, name, measure
