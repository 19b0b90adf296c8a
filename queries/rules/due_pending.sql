-- name: rules/due_pending
-- The tasks without an end that are due, by the subject that they were noted for, with the business key that has become
-- known since for those that were noted without one.
-- params: now DateTime64(6, 'UTC'), limit UInt32, namespaces Array(String), business_keys Array(String), task_ids Array(String), chosen Bool
-- returns: one row a task, the longest due first; with chosen, only those of the subjects named
-- cost: a key look-up for each subject named; or else the parts of the table with tasks that are open, or were when they were written
-- example: {"now": "2026-11-30 12:00:00", "limit": 100, "namespaces": [""], "business_keys": ["order:1"], "task_ids": [""], "chosen": true}
WITH waiting AS
(
    SELECT namespace, business_key, task_id, pending_task_id, task, phase, since, due
    FROM waiting_tasks FINAL
    WHERE key_hash IN
    (
        -- if {chosen:Bool}
        SELECT sipHash64(s.1, s.2, s.3)
        FROM (SELECT arrayJoin(arrayZip({namespaces:Array(String)}, {business_keys:Array(String)}, {task_ids:Array(String)})) AS s)
        -- end if
        -- if not {chosen:Bool}
        SELECT key_hash FROM waiting_tasks WHERE open AND due <= {now:DateTime64(6, 'UTC')}
        -- end if
    )
        AND open AND due <= {now:DateTime64(6, 'UTC')}
    ORDER BY due, namespace, business_key, task_id, pending_task_id
    LIMIT {limit:UInt32}
)
SELECT w.namespace AS namespace, w.business_key AS business_key, w.task_id AS task_id, w.pending_task_id AS pending_task_id,
    w.task AS task, w.phase AS phase, w.since AS since, w.due AS due, if(w.business_key = '', k.business_key, '') AS known_key
FROM waiting AS w
LEFT ANY JOIN
(
    SELECT namespace, task_id, business_key
    FROM task_keys
    WHERE business_key != '' AND (namespace, task_id) IN (SELECT namespace, task_id FROM waiting WHERE business_key = '')
) AS k ON k.namespace = w.namespace AND k.task_id = w.task_id
ORDER BY due, namespace, business_key, task_id, pending_task_id
