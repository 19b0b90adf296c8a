-- name: rules/open_pending
-- The tasks without an end, and when each is due.
-- params: limit UInt32
-- returns: one row a task, in no order
-- cost: the parts of the table with tasks that are open, or were when they were written
-- example: {"limit": 100}
SELECT namespace, business_key, task_id, pending_task_id, due
FROM waiting_tasks FINAL
WHERE key_hash IN (SELECT key_hash FROM waiting_tasks WHERE open) AND open
LIMIT {limit:UInt32}
