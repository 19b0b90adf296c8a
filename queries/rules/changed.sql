-- name: rules/changed
-- The subjects that changed in a range of offsets and may be in trouble, or have a task without an end.
-- params: topic String, partition Int32, from Int64, to Int64, since DateTime64(6, 'UTC'), until DateTime64(6, 'UTC'),
--    arrived DateTime64(6, 'UTC'), loop_retries UInt64, swallowed_after Int64, tasks Array(String), stuck_after Array(Float64), stuck_after_rest Float64, keyless Bool
-- returns: one row a subject that is suspect or has a task that is or was without an end, in no order; the arrays hold
--    the latter
-- cost: the changed keys' own past: a key look-up each, and as much again where there are events without a key (keyless)
-- example: {"topic": "task-events", "partition": 0, "from": 0, "to": 100, "since": "2026-11-01 00:00:00", "until": "2026-11-02 12:00:00", "arrived": "2026-11-02 12:00:00", "loop_retries": 10, "swallowed_after": 900000000, "tasks": ["report.build"], "stuck_after": [3600], "stuck_after_rest": 900, "keyless": true}
WITH
    changed AS
    (
        SELECT DISTINCT namespace, business_key, task_id
        FROM changed_keys
        WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
            AND kafka_offset >= {from:Int64} AND kafka_offset < {to:Int64}
    ),
    -- The keys that changed tasks are known under, for events that carry none.
    linked AS
    (
        SELECT DISTINCT namespace, task_id, business_key
        FROM task_keys
        WHERE business_key != '' AND (namespace, task_id) IN (SELECT namespace, task_id FROM changed WHERE business_key = '')
    ),
    subjects AS
    (
        SELECT DISTINCT c.namespace AS namespace, if(c.business_key = '', l.business_key, c.business_key) AS business_key,
            if(business_key = '', c.task_id, '') AS subject_task
        FROM changed AS c
        LEFT JOIN linked AS l ON l.namespace = c.namespace AND l.task_id = c.task_id
    ),
    own AS
    (
        SELECT namespace, business_key, if(business_key = '', task_id, '') AS subject_task,
            task_id, task, type, time, event_id, effect_name, effect_target, deduplicated, eta, retry_in, requeue,
            retries AS attempt, redelivered, expires, deadline
        FROM events
        WHERE key_hash IN (SELECT sipHash64(namespace, business_key, subject_task) FROM subjects)
            AND (namespace, business_key, subject_task) IN (SELECT namespace, business_key, subject_task FROM subjects)
            AND time <= {until:DateTime64(6, 'UTC')} AND kafka_time >= {since:DateTime64(6, 'UTC')} AND kafka_time <= {arrived:DateTime64(6, 'UTC')}
    ),
    -- The task ids of a business key, to find their events that carry no key.
    members AS (SELECT DISTINCT namespace, business_key, task_id FROM own WHERE {keyless:Bool} AND business_key != ''),
    past AS
    (
        SELECT * FROM own
        UNION ALL
        SELECT e.namespace, m.business_key, '' AS subject_task,
            e.task_id, e.task, e.type, e.time, e.event_id, e.effect_name, e.effect_target, e.deduplicated, e.eta, e.retry_in, e.requeue,
            e.retries AS attempt, e.redelivered, e.expires, e.deadline
        FROM events AS e
        INNER JOIN members AS m ON m.namespace = e.namespace AND m.task_id = e.task_id
        WHERE e.business_key = '' AND e.key_hash IN (SELECT sipHash64(namespace, '', task_id) FROM members)
            AND e.time <= {until:DateTime64(6, 'UTC')} AND e.kafka_time >= {since:DateTime64(6, 'UTC')} AND e.kafka_time <= {arrived:DateTime64(6, 'UTC')}
    ),
    -- The keys of tasks that stand under several in this range.
    drifting AS
    (
        SELECT namespace, business_key, '' AS subject_task
        FROM changed
        WHERE business_key != '' AND (namespace, task_id) IN
            (SELECT namespace, task_id FROM changed WHERE business_key != '' GROUP BY namespace, task_id HAVING uniqExact(business_key) > 1)
    ),
    noted AS
    (
        SELECT key_hash, pending_task_id
        FROM waiting_tasks
        WHERE open AND key_hash IN (SELECT sipHash64(namespace, business_key, subject_task) FROM subjects)
    ),
    found AS
    (
        SELECT key_hash
        FROM finding_subjects
        WHERE key_hash IN (SELECT sipHash64(namespace, business_key, subject_task) FROM subjects)
    ),
    by_task AS
    (
        SELECT namespace, business_key, subject_task, task_id,
            max(task) AS name,
            uniqExactStateIf(event_id, type = 'succeeded') AS successes,
            uniqExactStateIf(task, type = 'succeeded') AS successful_tasks,
            uniqExactStateIf(event_id, type = 'effect' AND NOT deduplicated) AS effects,
            uniqExactStateIf((effect_name, effect_target), type = 'effect' AND NOT deduplicated) AS kinds_of_effect,
            uniqExactIf(event_id, type = 'retried') AS retries,
            -- More deliveries than attempts: one of them came again.
            greatest(uniqExactIf(event_id, type = 'started' AND attempt >= 0), uniqExactIf(event_id, type = 'received' AND attempt >= 0))
                > uniqExactIf(attempt, type IN ('received', 'started') AND attempt >= 0)
                OR greatest(uniqExactIf(event_id, type = 'started' AND attempt < 0), uniqExactIf(event_id, type = 'received' AND attempt < 0))
                    > 1 + retries AS delivered_again,
            -- Its first attempt, or first delivery, is not among the events of this key.
            minIf(attempt, type IN ('received', 'started') AND attempt >= 0) > 0
                OR (countIf(type = 'received') = 1 AND countIf(type = 'received' AND ifNull(redelivered, false)) = 1) AS began_elsewhere,
            countIf(type = 'started') > 0 OR countIf(type IN ('succeeded', 'failed', 'retried')) > 0 AS ran,
            uniqExactIf(event_id, type = 'skipped') AS skips,
            minIf(time, type = 'skipped') AS first_skip,
            maxIf(time, type = 'skipped') AS last_skip,
            countIf(type = 'succeeded') > 0 AS succeeded,
            minIf(time, type = 'succeeded') AS first_success,
            maxIf(time, type = 'succeeded') AS last_success,
            countIf(type = 'effect') > 0 AS did,
            hasAny(groupUniqArrayIf(attempt, type = 'succeeded'), groupUniqArrayIf(attempt, type = 'failed')) AS contradicts,
            (max(expires) > toDateTime64(0, 6, 'UTC') AND maxIf(time, type = 'started') > max(expires))
                OR (max(deadline) > toDateTime64(0, 6, 'UTC') AND maxIf(time, type NOT IN ('sent', 'received', 'skipped', 'revoked')) > max(deadline)) AS late,
            -- A publication decides only while nothing else is known: its sender's clock may be ahead of the worker's.
            argMax((type, requeue, retry_in), (type != 'sent', time, indexOf(['sent', 'received', 'started', 'effect',
                'retried', 'succeeded', 'failed', 'rejected', 'revoked', 'skipped', 'worker_lost'], toString(type)))) AS last,
            multiIf(last.1 = 'rejected' AND last.2, 'retry', last.1 = 'effect' OR last.1 = 'worker_lost', 'started',
                last.1 = 'retried', 'retry', toString(last.1)) AS phase,
            phase IN ('sent', 'received', 'started', 'retry') AS open,
            last.1 IN ('failed', 'revoked') OR (last.1 = 'rejected' AND NOT last.2) AS ended_badly,
            maxIf(time, type != 'effect') AS since,
            max(eta) AS latest_eta,
            addMicroseconds(
                if(phase = 'started', since, greatest(since, latest_eta, addSeconds(since, if(phase = 'retry', greatest(last.3, 0), 0)))),
                toInt64(1e6 * transform(name, {tasks:Array(String)}, {stuck_after:Array(Float64)}, {stuck_after_rest:Float64}))) AS due,
            open OR (sipHash64(namespace, business_key, subject_task), task_id) IN (SELECT key_hash, pending_task_id FROM noted) AS tells
        FROM past
        GROUP BY namespace, business_key, subject_task, task_id
    )
SELECT namespace, business_key, subject_task,
    (
        uniqExactMerge(effects) > uniqExactMerge(kinds_of_effect)
        OR uniqExactMerge(successes) > uniqExactMerge(successful_tasks)
        OR max(retries) >= {loop_retries:UInt64}
        OR max(delivered_again) OR max(began_elsewhere) OR max(late) OR max(contradicts)
        -- Several ids of one task at work.
        OR countIf(ran AND skips = 0) > uniqExactIf(name, ran AND skips = 0)
        -- A run stood aside, and the work was not done at about that time, or another run has no good end.
        OR (sum(skips) > 0 AND (NOT max(succeeded) OR max(last_success) < subtractMicroseconds(max(last_skip), {swallowed_after:Int64})
            OR minIf(first_success, succeeded) > addMicroseconds(minIf(first_skip, skips > 0), {swallowed_after:Int64})
            OR max(ended_badly) OR max(open)))
        -- Effects, and an end that is no success.
        OR (max(did) AND max(ended_badly))
        OR (namespace, business_key, subject_task) IN (SELECT * FROM drifting)
        OR sipHash64(namespace, business_key, subject_task) IN (SELECT key_hash FROM found)
    ) AS suspect,
    groupArrayIf(task_id, tells) AS pending_ids,
    groupArrayIf(toString(name), tells) AS pending_names,
    groupArrayIf(phase, tells) AS phases,
    groupArrayIf(since, tells) AS sinces,
    groupArrayIf(due, tells) AS dues,
    groupArrayIf(open::Bool, tells) AS opens
FROM by_task
GROUP BY namespace, business_key, subject_task
HAVING suspect OR notEmpty(pending_ids)
