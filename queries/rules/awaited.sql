-- name: rules/awaited
-- The tasks that were told, before a stretch of time, to begin within it: by an eta, or by the delay of a retry.
-- params: from DateTime64(6, 'UTC'), to DateTime64(6, 'UTC'), told DateTime64(6, 'UTC'), limit UInt64
-- returns: one row a task that was told so before told, with the business key that is known of one that has none, in no order
-- cost: three columns of all events that arrived before told, which hold nothing for most of them
-- example: {"from": "2026-11-02 00:00:00", "to": "2026-11-03 00:00:00", "told": "2026-11-01 00:00:00", "limit": 100}
WITH awaited AS
(
    SELECT DISTINCT namespace, business_key, if(business_key = '', task_id, '') AS subject_task, task_id, task
    FROM events
    WHERE task_id != '' AND kafka_time < {told:DateTime64(6, 'UTC')}
        AND (eta >= {from:DateTime64(6, 'UTC')} AND eta <= {to:DateTime64(6, 'UTC')}
            OR type = 'retried' AND retry_in > 0
                AND addSeconds(time, retry_in) >= {from:DateTime64(6, 'UTC')} AND addSeconds(time, retry_in) <= {to:DateTime64(6, 'UTC')})
    LIMIT {limit:UInt64}
)
SELECT a.namespace AS namespace, a.business_key AS business_key, a.subject_task AS subject_task, a.task_id AS pending_task_id, a.task AS task,
    if(a.business_key = '', k.business_key, '') AS known_key
FROM awaited AS a
LEFT ANY JOIN
(
    SELECT namespace, task_id, business_key
    FROM task_keys
    WHERE business_key != '' AND (namespace, task_id) IN (SELECT namespace, task_id FROM awaited WHERE business_key = '')
) AS k ON k.namespace = a.namespace AND k.task_id = a.task_id
