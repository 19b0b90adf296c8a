-- name: web/activity
-- What each task did.
-- params: from DateTime64(6, 'UTC'), slot UInt32
-- returns: one row a slot of so many seconds, namespace and task, in order of time
-- cost: one row a minute, task and type
-- example: {"from": "2026-11-02 00:00:00", "slot": 60}
SELECT begun, namespace, name, latest, all, multiIf(started > 0, started, received > 0, received, ended) AS runs, retried, succeeded, failed
FROM
(
    SELECT
        toDateTime(toStartOfInterval(minute, toIntervalSecond({slot:UInt32})), 'UTC') AS begun,
        toString(namespace) AS namespace,
        toString(task) AS name,
        max(minute) AS latest,
        uniqCombined64Merge(13)(events) AS all,
        uniqCombined64MergeIf(13)(events, type = 'started') AS started,
        uniqCombined64MergeIf(13)(events, type = 'received') AS received,
        uniqCombined64MergeIf(13)(events, type IN ('succeeded', 'failed', 'retried')) AS ended,
        uniqCombined64MergeIf(13)(events, type = 'retried') AS retried,
        uniqCombined64MergeIf(13)(events, type = 'succeeded') AS succeeded,
        uniqCombined64MergeIf(13)(events, type = 'failed') AS failed
    FROM task_minutes
    WHERE minute >= toStartOfInterval({from:DateTime64(6, 'UTC')}, toIntervalSecond({slot:UInt32}))
    GROUP BY begun, namespace, name
)
ORDER BY begun, namespace, name
