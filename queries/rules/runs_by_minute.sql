-- name: rules/runs_by_minute
-- How many attempts of tasks began, minute by minute, retries included.
-- params: from DateTime64(6, 'UTC'), until DateTime64(6, 'UTC'), namespaces Array(String), tasks Array(String)
-- returns: one row a task and minute, in order of time
-- cost: one row a minute, task and type
-- example: {"from": "2026-11-02 00:00:00", "until": "2026-11-03 00:00:00", "namespaces": [""], "tasks": ["crm.notify"]}
SELECT toString(namespace) AS namespace, toString(task) AS name, minute,
    uniqCombined64MergeIf(13)(events, type = 'started') AS started,
    uniqCombined64MergeIf(13)(events, type = 'received') AS received,
    uniqCombined64MergeIf(13)(events, type IN ('succeeded', 'failed', 'retried')) AS ended,
    multiIf(started > 0, started, received > 0, received, ended) AS runs
FROM task_minutes
WHERE minute >= toStartOfMinute({from:DateTime64(6, 'UTC')}) AND minute <= {until:DateTime64(6, 'UTC')}
    AND type IN ('received', 'started', 'succeeded', 'failed', 'retried')
    AND (namespace, toString(task)) IN (SELECT t.1, t.2 FROM (SELECT arrayJoin(arrayZip({namespaces:Array(String)}, {tasks:Array(String)})) AS t))
GROUP BY namespace, task, minute
ORDER BY minute, namespace, name
