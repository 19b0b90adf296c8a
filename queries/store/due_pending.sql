-- name: store/due_pending
-- Which tasks without an end are due.
-- params: now DateTime64(6, 'UTC'), limit UInt32
-- returns: a row a task, the longest due first
-- cost: the tasks that are open, and those that ended within a day
-- example: {"now": "2026-11-30 12:00:00", "limit": 100}
SELECT namespace, business_key, task_id, pending_task_id, task, phase, since, due
FROM pending FINAL
WHERE open AND due <= {now:DateTime64(6, 'UTC')}
ORDER BY due, namespace, business_key, task_id, pending_task_id
LIMIT {limit:UInt32}
