-- name: web/heard
-- When some workers were heard of within a stretch of time, all their processes together.
-- params: namespace String, workers Array(String), from DateTime64(6, 'UTC'), until DateTime64(6, 'UTC')
-- returns: one row a worker and slice of ten seconds, in order of time
-- cost: one key range a worker: six rows a minute of the stretch
-- example: {"namespace": "", "workers": ["w1@host-a"], "from": "2026-11-02 08:00:00", "until": "2026-11-02 09:00:00"}
SELECT worker, min(first) AS first_heard, max(last) AS last_heard
FROM worker_signals
WHERE namespace = {namespace:String} AND worker IN {workers:Array(String)}
    AND slice >= toStartOfInterval({from:DateTime64(6, 'UTC')}, INTERVAL 10 SECOND) AND slice <= {until:DateTime64(6, 'UTC')}
GROUP BY worker, slice
ORDER BY first_heard, worker
