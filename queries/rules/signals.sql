-- name: rules/signals
-- When some workers were heard of, by process and slice of ten seconds.
-- params: namespace String, workers Array(String), from DateTime64(6, 'UTC')
-- returns: one row a slice and process, in order of time
-- cost: one key range a worker: six rows a minute
-- example: {"namespace": "", "workers": ["w1@host-a"], "from": "2026-11-02 08:00:00"}
SELECT namespace, worker, pid, min(first) AS first_heard, max(last) AS last_heard, max(idle) AS idle_at, max(lost) AS lost_at
FROM worker_signals
WHERE namespace = {namespace:String} AND worker IN {workers:Array(String)}
    AND slice >= toStartOfInterval({from:DateTime64(6, 'UTC')}, INTERVAL 10 SECOND)
GROUP BY namespace, worker, slice, pid
ORDER BY first_heard, pid
