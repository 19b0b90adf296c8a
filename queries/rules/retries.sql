-- name: rules/retries
-- How often tasks retried, minute by minute.
-- params: from DateTime64(6, 'UTC'), until DateTime64(6, 'UTC'), arrived DateTime64(6, 'UTC'), namespaces Array(String), tasks Array(String)
-- returns: one row a task and minute, of those tasks, or of all where none is named; in order of time
-- cost: the retries of the window, and a key look-up for each id without a name
-- example: {"from": "2026-11-02 00:00:00", "until": "2026-11-03 00:00:00", "arrived": "2026-11-03 00:00:00", "namespaces": [""], "tasks": ["crm.notify"]}
WITH asked AS (SELECT arrayJoin(arrayZip({namespaces:Array(String)}, {tasks:Array(String)})) AS t)
SELECT toString(a.namespace) AS namespace, if(a.task != '', toString(a.task), toString(k.name)) AS name, a.minute AS minute,
    uniqExact(a.event_id) AS retries
FROM attempts AS a
LEFT ANY JOIN
(
    SELECT namespace, task_id, max(task) AS name
    FROM task_keys
    WHERE (namespace, task_id) IN (SELECT namespace, task_id FROM attempts WHERE task = '' AND minute >= toStartOfMinute({from:DateTime64(6, 'UTC')}))
    GROUP BY namespace, task_id
) AS k ON k.namespace = a.namespace AND k.task_id = a.task_id
WHERE a.type = 'retried' AND a.minute >= toStartOfMinute({from:DateTime64(6, 'UTC')}) AND a.time <= {until:DateTime64(6, 'UTC')}
    AND a.kafka_time <= {arrived:DateTime64(6, 'UTC')}
    AND (empty({tasks:Array(String)}) OR a.task = '' OR (a.namespace, toString(a.task)) IN (SELECT t.1, t.2 FROM asked))
GROUP BY a.namespace, name, minute
HAVING empty({tasks:Array(String)}) OR (a.namespace, name) IN (SELECT t.1, t.2 FROM asked)
ORDER BY minute, namespace, name
