-- name: web/activity
-- What each task did. Events that tell no name (raw Celery events after task-received) count for the task that their id
-- is known under; where there are many, some of them are counted, and stand for the rest.
-- params: from DateTime64(6, 'UTC'), slot UInt32, sample UInt64
-- returns: one row a slot of so many seconds, namespace and task, in order of time
-- cost: one row a minute, task and type; where events tell no name, so many of them, and a look-up in task_keys for each id
-- example: {"from": "2026-11-02 00:00:00", "slot": 60, "sample": 20000}
WITH
    toStartOfInterval({from:DateTime64(6, 'UTC')}, toIntervalSecond({slot:UInt32})) AS first,
    ifNull((
        SELECT count() > 0 FROM task_minutes
        WHERE minute >= first AND task = '' AND type IN ('received', 'started', 'retried', 'succeeded', 'failed')
    ), false) AS any_bare,
    -- In the order in which they lie: by the hash of their id, so that those before the limit are a fair share.
    bare AS
    (
        SELECT key_hash, namespace, task_id, type, time, event_id
        FROM events
        WHERE any_bare AND task = '' AND task_id != '' AND type IN ('received', 'started', 'retried', 'succeeded', 'failed')
            AND kafka_time >= first AND time >= first
        ORDER BY key_hash
        LIMIT {sample:UInt64}
    ),
    ifNull((SELECT if(count() < {sample:UInt64}, 1, 18446744073709551616. / (max(key_hash) + 1.)) FROM bare), 1.) AS times,
    known AS
    (
        SELECT namespace, task_id, max(toString(task)) AS name
        FROM task_keys
        WHERE (namespace, task_id) IN (SELECT namespace, task_id FROM bare)
        GROUP BY namespace, task_id
    ),
    counted AS
    (
        SELECT toDateTime(toStartOfInterval(minute, toIntervalSecond({slot:UInt32})), 'UTC') AS begun, toString(namespace) AS namespace, toString(task) AS name,
            max(minute) AS latest,
            uniqCombined64Merge(13)(events) AS all,
            if(name = '', 0, uniqCombined64MergeIf(13)(events, type = 'started')) AS started,
            if(name = '', 0, uniqCombined64MergeIf(13)(events, type = 'received')) AS received,
            if(name = '', 0, uniqCombined64MergeIf(13)(events, type IN ('succeeded', 'failed', 'retried'))) AS ended,
            if(name = '', 0, uniqCombined64MergeIf(13)(events, type = 'retried')) AS retried,
            if(name = '', 0, uniqCombined64MergeIf(13)(events, type = 'succeeded')) AS succeeded,
            if(name = '', 0, uniqCombined64MergeIf(13)(events, type = 'failed')) AS failed,
            0. AS bare_started, 0. AS bare_received, 0. AS bare_ended, 0. AS bare_retried, 0. AS bare_succeeded, 0. AS bare_failed
        FROM task_minutes
        WHERE minute >= first
        GROUP BY begun, namespace, name
        UNION ALL
        SELECT toDateTime(toStartOfInterval(b.time, toIntervalSecond({slot:UInt32})), 'UTC') AS begun, toString(b.namespace) AS namespace, k.name AS name,
            toDateTime(toStartOfMinute(max(b.time)), 'UTC') AS latest,
            0 AS all, 0 AS started, 0 AS received, 0 AS ended, 0 AS retried, 0 AS succeeded, 0 AS failed,
            times * uniqExactIf(b.event_id, b.type = 'started') AS bare_started,
            times * uniqExactIf(b.event_id, b.type = 'received') AS bare_received,
            times * uniqExactIf(b.event_id, b.type IN ('succeeded', 'failed', 'retried')) AS bare_ended,
            times * uniqExactIf(b.event_id, b.type = 'retried') AS bare_retried,
            times * uniqExactIf(b.event_id, b.type = 'succeeded') AS bare_succeeded,
            times * uniqExactIf(b.event_id, b.type = 'failed') AS bare_failed
        FROM bare AS b
        LEFT ANY JOIN known AS k ON k.namespace = b.namespace AND k.task_id = b.task_id
        GROUP BY begun, namespace, name
    )
SELECT begun, namespace, name, max(latest) AS latest, toUInt64(sum(all)) AS all,
    toUInt64(multiIf(sum(started) > 0, sum(started), sum(received) > 0, sum(received), sum(bare_started) > 0, sum(bare_started),
        sum(bare_received) > 0, sum(bare_received), sum(ended) + sum(bare_ended))) AS runs,
    toUInt64(sum(retried) + round(sum(bare_retried))) AS retried,
    toUInt64(sum(succeeded) + round(sum(bare_succeeded))) AS succeeded,
    toUInt64(sum(failed) + round(sum(bare_failed))) AS failed
FROM counted
GROUP BY begun, namespace, name
ORDER BY begun, namespace, name
