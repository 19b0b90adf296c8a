-- name: rules/waves
-- How many ids of a task came to their next retry within each second, and how alike the gaps before it were, among them and
-- among all that had failed in the same second: between a retry and the attempt after it, and between two retries (a worker
-- may receive an attempt long before its time). All are by one host's clock, where the retries tell by how much others are
-- ahead, up to skew seconds: between two hosts, the gaps one way and the gaps back differ by twice that, whatever the delay is.
-- params: from DateTime64(6, 'UTC'), until DateTime64(6, 'UTC'), arrived DateTime64(6, 'UTC'), ids UInt64, skew Float64
-- returns: one row a second, task and measure, for tasks of which one second has at least so many ids; in order of time
-- cost: the retries in the window
-- example: {"from": "2026-11-02 00:00:00", "until": "2026-11-03 00:00:00", "arrived": "2026-11-03 00:00:00", "ids": 20, "skew": 2}
WITH
    marks AS
    (
        SELECT a.namespace AS namespace, if(a.task != '', toString(a.task), toString(k.name)) AS name, a.task_id AS task_id,
            a.type AS type, a.retries AS retries, a.time AS time, a.error_type AS error_type, splitByChar('@', toString(a.worker))[-1] AS host
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
        SELECT namespace, name, task_id, time, max(error_type) AS error_type, max(retries) AS attempt, max(host) AS host
        FROM marks
        WHERE type = 'retried'
        GROUP BY namespace, name, task_id, time
    ),
    begun AS
    (
        SELECT namespace, name, task_id, retries AS attempt,
            if(countIf(type = 'started') > 0, minIf((time, host), type = 'started'), min((time, host))) AS first
        FROM marks
        WHERE type != 'retried'
        GROUP BY namespace, name, task_id, retries
    ),
    gaps AS
    (
        SELECT b.namespace AS namespace, b.name AS name, b.task_id AS task_id, 'attempt' AS measure, b.attempt AS attempt,
            r.host AS from_host, b.host AS host, b.time AS at, r.error_type AS error_type, dateDiff('microsecond', r.time, b.time) / 1e6 AS gap
        FROM (SELECT namespace, name, task_id, attempt, first.1 AS time, first.2 AS host FROM begun) AS b
        ASOF INNER JOIN retried AS r ON r.namespace = b.namespace AND r.name = b.name AND r.task_id = b.task_id AND r.time <= b.time
        UNION ALL
        SELECT namespace, name, task_id, 'retry' AS measure, attempt, lagInFrame(host, 1, host) OVER w AS from_host, host, time AS at, error_type,
            dateDiff('microsecond', lagInFrame(time, 1, time) OVER w, time) / 1e6 AS gap
        FROM retried
        WINDOW w AS (PARTITION BY namespace, name, task_id ORDER BY time ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
    ),
    -- By how much the clock of the later host of a pair is ahead, in an hour, by the attempt of which most is known.
    pairs AS
    (
        SELECT namespace, name, measure, hour, low, high, argMax(difference, (least(forth, back), attempt)) AS ahead, max(least(forth, back)) AS known
        FROM
        (
            SELECT namespace, name, measure, toStartOfHour(at) AS hour, attempt, least(from_host, host) AS low, greatest(from_host, host) AS high,
                countIf(host = high) AS forth, countIf(host = low) AS back,
                round((quantileExactIf(0.5)(gap, host = high) - quantileExactIf(0.5)(gap, host = low)) / 2, 1) AS difference
            FROM gaps
            WHERE gap > 0 AND from_host != host AND from_host != '' AND host != ''
            GROUP BY namespace, name, measure, hour, attempt, low, high
            HAVING forth >= 3 AND back >= 3 AND abs(difference) <= {skew:Float64}
        )
        GROUP BY namespace, name, measure, hour, low, high
    ),
    -- The same of each host against the one that is paired best, in seconds.
    clocks AS
    (
        SELECT namespace, name, measure, hour, argMax(aheads, (links, other)) AS ahead
        FROM
        (
            SELECT namespace, name, measure, hour, pair.2 AS other, sum(known) AS links, mapFromArrays(groupArray(pair.1), groupArray(pair.3)) AS aheads
            FROM pairs
            ARRAY JOIN [(high, low, ahead), (low, high, -ahead)] AS pair
            GROUP BY namespace, name, measure, hour, other
        )
        GROUP BY namespace, name, measure, hour
    ),
    true_gaps AS
    (
        SELECT g.namespace AS namespace, g.name AS name, g.measure AS measure, g.task_id AS task_id, g.attempt AS attempt, g.error_type AS error_type,
            g.gap - c.ahead[g.host] + c.ahead[g.from_host] AS gap,
            addMicroseconds(g.at, -toInt64(round(c.ahead[g.host] * 1e6))) AS at
        FROM gaps AS g
        LEFT ANY JOIN clocks AS c ON c.namespace = g.namespace AND c.name = g.name AND c.measure = g.measure AND c.hour = toStartOfHour(g.at)
        WHERE g.gap > 0
    ),
    -- With the gaps of all that failed in the same second, which jitter would spread over many.
    cohorts AS
    (
        SELECT *, quantilesExact(0.1, 0.9)(gap) OVER (PARTITION BY namespace, name, measure, attempt, toStartOfSecond(addMicroseconds(at, -toInt64(round(gap * 1e6))))) AS cohort
        FROM true_gaps
    ),
    seconds AS
    (
        SELECT namespace, name, measure, toStartOfSecond(at) AS second,
            uniqExact(task_id) AS ids,
            quantilesExact(0.1, 0.5, 0.9)(gap) AS gap_quantiles,
            least(gap_quantiles[1], quantileExact(0.5)(cohort[1])) AS gap_low,
            greatest(gap_quantiles[3], quantileExact(0.5)(cohort[2])) AS gap_high,
            quantilesExact(0.1, 0.9)(dateDiff('microsecond', toStartOfSecond(at), at) / 1e6) AS moments,
            min(at) AS first_at, max(at) AS last_at, topK(1)(error_type)[1] AS error_type,
            arraySort(groupUniqArray(20)(task_id)) AS task_ids,
            max(ids) OVER (PARTITION BY namespace, name, measure) AS most
        FROM cohorts
        GROUP BY namespace, name, measure, second
    )
SELECT toString(namespace) AS namespace, name, measure, second, ids, gap_low, gap_quantiles[2] AS gap,
    gap_high, moments[2] - moments[1] AS breadth, first_at, last_at, toString(error_type) AS error_type, task_ids
FROM seconds
WHERE most >= {ids:UInt64}
ORDER BY second, namespace, name, measure
