-- name: rules/waves
-- How many ids of a task came to their next retry within each second, and how alike the gaps before it were, among them and
-- among all that had failed in the same second: between a retry and the attempt after it, and between two retries (a worker
-- may receive an attempt long before its time). All are by one host's clock, where the retries tell by how much others are
-- ahead, up to skew seconds: between two hosts, the gaps one way and the gaps back differ by twice that, whatever the delay is.
-- Retries before the window count as the beginning of a gap that ends within it, back to a time.
-- params: back DateTime64(6, 'UTC'), from DateTime64(6, 'UTC'), until DateTime64(6, 'UTC'), arrived DateTime64(6, 'UTC'),
--    namespaces Array(String), tasks Array(String), ids UInt64, skew Float64
-- returns: one row a second, task and measure, of those tasks, or of all where none is named, where one second has at least so many
--    ids; in order of time
-- cost: the retries in the window, of those before it the ids, and a key look-up for each id without a name; each twice
-- example: {"back": "2026-11-01 00:00:00", "from": "2026-11-02 00:00:00", "until": "2026-11-03 00:00:00", "arrived": "2026-11-03 00:00:00", "namespaces": [""], "tasks": ["crm.notify"], "ids": 20, "skew": 2}
WITH
    asked AS (SELECT arrayJoin(arrayZip({namespaces:Array(String)}, {tasks:Array(String)})) AS t),
    marks AS
    (
        SELECT a.namespace AS namespace, if(a.task != '', toString(a.task), toString(k.name)) AS name, a.task_id AS task_id,
            a.type = 'retried' AS retry, a.type = 'started' AS started, a.retries AS retries, a.time AS time, toString(a.error_type) AS error_type,
            splitByChar('@', toString(a.worker))[-1] AS host
        FROM attempts AS a
        LEFT ANY JOIN
        (
            SELECT namespace, task_id, max(task) AS name
            FROM task_keys
            WHERE (namespace, task_id) IN (SELECT namespace, task_id FROM attempts WHERE task = '' AND minute >= toStartOfMinute({back:DateTime64(6, 'UTC')}))
            GROUP BY namespace, task_id
        ) AS k ON k.namespace = a.namespace AND k.task_id = a.task_id
        WHERE a.minute >= toStartOfMinute({back:DateTime64(6, 'UTC')}) AND a.time <= {until:DateTime64(6, 'UTC')} AND a.kafka_time <= {arrived:DateTime64(6, 'UTC')}
            AND (empty({tasks:Array(String)}) OR a.task = '' OR (a.namespace, toString(a.task)) IN (SELECT t.1, t.2 FROM asked))
            AND (a.minute >= toStartOfMinute({from:DateTime64(6, 'UTC')}) OR a.type = 'retried' AND (a.namespace, a.task_id) IN
            (
                SELECT namespace, task_id
                FROM attempts
                WHERE {back:DateTime64(6, 'UTC')} < {from:DateTime64(6, 'UTC')} AND minute >= toStartOfMinute({from:DateTime64(6, 'UTC')})
                    AND (empty({tasks:Array(String)}) OR task = '' OR (namespace, toString(task)) IN (SELECT t.1, t.2 FROM asked))
            ))
    ),
    -- Each retry, of those before the window the last, and when each attempt began: its start or, without one, its arrival at the worker.
    moments AS
    (
        SELECT namespace, name, task_id, retry, if(retry AND time >= {from:DateTime64(6, 'UTC')}, time, toDateTime64(0, 6, 'UTC')) AS retried_at,
            if(retry, -1, retries) AS begun, max(retries) AS attempt,
            multiIf(retry, max(time), max(started), minIf(time, started), min(time)) AS at,
            multiIf(retry, argMax(host, time), max(started), argMinIf(host, time, started), argMin(host, time)) AS host,
            argMax(error_type, time) AS error
        FROM marks
        WHERE empty({tasks:Array(String)}) OR (namespace, name) IN (SELECT t.1, t.2 FROM asked)
        GROUP BY namespace, name, task_id, retry, retried_at, begun
    ),
    -- From the last retry of the same id.
    gaps AS
    (
        SELECT namespace, name, task_id, if(retry, 'retry', 'attempt') AS measure, attempt, from_host, host, at,
            if(retry, error, error_before) AS error_type, dateDiff('microsecond', before, at) / 1e6 AS gap
        FROM
        (
            SELECT *, countIf(retry) OVER w AS retries_before, maxIf(at, retry) OVER w AS before, argMaxIf(host, at, retry) OVER w AS from_host,
                argMaxIf(error, at, retry) OVER w AS error_before
            FROM moments
            WINDOW w AS (PARTITION BY namespace, name, task_id ORDER BY at, retry DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
        )
        WHERE retries_before > 0 AND at > before AND at >= {from:DateTime64(6, 'UTC')}
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
            WHERE from_host != host AND from_host != '' AND host != ''
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
            arraySlice(arraySort(groupUniqArray(task_id)), 1, 20) AS task_ids,
            max(ids) OVER (PARTITION BY namespace, name, measure) AS most
        FROM cohorts
        GROUP BY namespace, name, measure, second
    )
SELECT toString(namespace) AS namespace, name, measure, second, ids, gap_low, gap_quantiles[2] AS gap,
    gap_high, moments[2] - moments[1] AS breadth, first_at, last_at, toString(error_type) AS error_type, task_ids
FROM seconds
WHERE most >= {ids:UInt64}
ORDER BY second, namespace, name, measure
