-- name: web/workers
-- When each worker was heard of.
-- params: limit UInt64
-- returns: one row a worker, the one heard of last first
-- cost: six rows a minute and worker process, over all that is kept
-- example: {"limit": 500}
SELECT
    namespace, worker, uniqExactIf(pid, pid != 0) AS processes,
    min(first) AS first_heard, max(last) AS last_heard, max(idle) AS idle_at, max(lost) AS lost_at
FROM worker_signals
GROUP BY namespace, worker
ORDER BY last_heard DESC, namespace, worker
LIMIT {limit:UInt64}
