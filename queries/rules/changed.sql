-- name: rules/changed
-- Of the keys of some hashes the subjects that may be in trouble, or have a task without an end.
-- params: hashes String, since DateTime64(6, 'UTC'), until DateTime64(6, 'UTC'), arrived DateTime64(6, 'UTC'),
--    quiet_from DateTime64(6, 'UTC'), quiet_to DateTime64(6, 'UTC'), loop_retries UInt64, swallowed_after Int64,
--    tasks Array(String), stuck_after Array(Float64), patterns Array(String), pattern_after Array(Float64), keyless Bool
-- returns: one row a subject that is suspect or has a task that is or was without an end, in no order; the arrays hold
--    the latter. hashes is the hashes, of eight bytes each, the lowest first, in base64
-- cost: the keys' own past: a look-up each, in every part that holds events which arrived from since to quiet_from or from
--    quiet_to on, and as much again where there are events without a key (keyless)
-- example: {"hashes": "AQAAAAAAAAA=", "since": "2026-11-01 00:00:00", "until": "2026-11-02 12:00:00", "arrived": "2026-11-02 12:00:00", "quiet_from": "1970-01-01 00:00:00", "quiet_to": "1970-01-01 00:00:00", "loop_retries": 10, "swallowed_after": 900000000, "tasks": ["report.build"], "stuck_after": [3600], "patterns": ["mail.%", "%"], "pattern_after": [60, 900], "keyless": true}
WITH
    asked AS
    (
        SELECT reinterpretAsUInt64(substring(base64Decode({hashes:String}), 1 + 8 * number, 8)) AS key_hash
        FROM numbers(intDiv(length(base64Decode({hashes:String})), 8))
    ),
    own AS
    (
        SELECT key_hash, namespace, business_key, if(business_key = '', task_id, '') AS subject_task,
            task_id, task, type, time, event_id, effect_name, effect_target, deduplicated, eta, retry_in, requeue,
            retries AS attempt, redelivered, expires, deadline
        FROM events
        WHERE key_hash IN (SELECT key_hash FROM asked)
            AND time <= {until:DateTime64(6, 'UTC')} AND kafka_time >= {since:DateTime64(6, 'UTC')} AND kafka_time <= {arrived:DateTime64(6, 'UTC')}
            AND (kafka_time <= {quiet_from:DateTime64(6, 'UTC')} OR kafka_time >= {quiet_to:DateTime64(6, 'UTC')})
    ),
    -- The task ids of a business key, to find their events that carry no key.
    members AS (SELECT DISTINCT key_hash, namespace, business_key, task_id FROM own WHERE {keyless:Bool} AND business_key != ''),
    past AS
    (
        SELECT * FROM own
        UNION ALL
        SELECT m.key_hash, e.namespace, m.business_key, '' AS subject_task,
            e.task_id, e.task, e.type, e.time, e.event_id, e.effect_name, e.effect_target, e.deduplicated, e.eta, e.retry_in, e.requeue,
            e.retries AS attempt, e.redelivered, e.expires, e.deadline
        FROM events AS e
        INNER JOIN members AS m ON m.namespace = e.namespace AND m.task_id = e.task_id
        WHERE e.business_key = '' AND e.key_hash IN (SELECT sipHash64(namespace, '', task_id) FROM members)
            AND e.time <= {until:DateTime64(6, 'UTC')} AND e.kafka_time >= {since:DateTime64(6, 'UTC')} AND e.kafka_time <= {arrived:DateTime64(6, 'UTC')}
            AND (e.kafka_time <= {quiet_from:DateTime64(6, 'UTC')} OR e.kafka_time >= {quiet_to:DateTime64(6, 'UTC')})
    ),
    -- What each task told. What follows from that is reckoned outside: an aggregate that is named twice in one SELECT takes
    -- the engine as long to understand as two.
    told AS
    (
        SELECT key_hash, namespace, business_key, subject_task, task_id,
            max(task) AS name,
            uniqExactStateIf(event_id, type = 'succeeded') AS successes,
            uniqExactStateIf(task, type = 'succeeded') AS successful_tasks,
            uniqExactStateIf(event_id, type = 'effect' AND NOT deduplicated) AS effects,
            uniqExactStateIf((effect_name, effect_target), type = 'effect' AND NOT deduplicated) AS kinds_of_effect,
            uniqExactIf(event_id, type = 'retried') AS retries,
            uniqExactIf(event_id, type = 'started' AND attempt >= 0) AS starts,
            uniqExactIf(event_id, type = 'received' AND attempt >= 0) AS receipts,
            uniqExactIf(attempt, type IN ('received', 'started') AND attempt >= 0) AS attempts,
            uniqExactIf(event_id, type = 'started' AND attempt < 0) AS unnumbered_starts,
            uniqExactIf(event_id, type = 'received' AND attempt < 0) AS unnumbered_receipts,
            uniqExactIf(event_id, type IN ('retried', 'succeeded', 'failed') AND attempt >= 0) AS ends,
            uniqExactIf(attempt, type IN ('retried', 'succeeded', 'failed') AND attempt >= 0) AS ended_attempts,
            minIf(attempt, type != 'sent' AND attempt >= 0) AS first_attempt,
            countIf(type = 'received') AS received,
            countIf(type = 'received' AND ifNull(redelivered, false)) AS received_again,
            countIf(type IN ('started', 'succeeded', 'failed', 'retried')) > 0 AS ran,
            uniqExactIf(event_id, type = 'skipped') AS skips,
            minIf(time, type = 'skipped') AS first_skip,
            maxIf(time, type = 'skipped') AS last_skip,
            countIf(type = 'succeeded') > 0 AS succeeded,
            minIf(time, type = 'succeeded') AS first_success,
            maxIf(time, type = 'succeeded') AS last_success,
            countIf(type = 'effect') > 0 AS did,
            groupUniqArrayIf(attempt, type = 'succeeded') AS good_attempts,
            groupUniqArrayIf(attempt, type = 'failed') AS bad_attempts,
            max(expires) AS expiry, maxIf(time, type = 'started') AS last_start,
            max(deadline) AS last_deadline, maxIf(time, type NOT IN ('sent', 'received', 'skipped', 'revoked')) AS last_work,
            -- A publication decides only while nothing else is known: its sender's clock may be ahead of the worker's.
            argMax((type, requeue, retry_in), (type != 'sent', time, indexOf(['sent', 'received', 'started', 'effect',
                'retried', 'succeeded', 'failed', 'rejected', 'revoked', 'skipped', 'worker_lost'], toString(type)))) AS last,
            maxIf(time, type != 'effect') AS since,
            max(eta) AS latest_eta
        FROM past
        GROUP BY key_hash, namespace, business_key, subject_task, task_id
    ),
    phased AS
    (
        SELECT *, toString(last.1) AS word, last.2 AS requeued,
            multiIf(word = 'rejected' AND requeued, 'retry', word = 'effect' OR word = 'worker_lost', 'started', word = 'retried', 'retry', word) AS phase
        FROM told
    ),
    by_task AS
    (
        SELECT key_hash, namespace, business_key, subject_task, task_id, name, successes, successful_tasks, effects, kinds_of_effect, retries,
            ran, skips, first_skip, last_skip, succeeded, first_success, last_success, did, phase, since,
            -- More deliveries, or ends, than attempts: one of them came again.
            greatest(starts, receipts) > attempts OR ends > ended_attempts OR greatest(unnumbered_starts, unnumbered_receipts) > 1 + retries AS delivered_again,
            -- Its first attempt, or first delivery, is not among the events of this key.
            first_attempt > 0 OR (received = 1 AND received_again = 1) AS began_elsewhere,
            hasAny(good_attempts, bad_attempts) OR (has(arrayConcat(good_attempts, bad_attempts), -1) AND notEmpty(good_attempts) AND notEmpty(bad_attempts)) AS contradicts,
            (expiry > toDateTime64(0, 6, 'UTC') AND last_start > expiry)
                OR (last_deadline > toDateTime64(0, 6, 'UTC') AND last_work > last_deadline) AS late,
            word IN ('failed', 'revoked') OR (word = 'rejected' AND NOT requeued) AS ended_badly,
            phase IN ('sent', 'received', 'started', 'retry') AS open,
            addMicroseconds(
                if(phase = 'started', since, greatest(since, latest_eta, addSeconds(since, if(phase = 'retry', greatest(last.3, 0), 0)))),
                toInt64(1e6 * transform(name, {tasks:Array(String)}, {stuck_after:Array(Float64)},
                    arrayFirst((after, pattern) -> name LIKE pattern, {pattern_after:Array(Float64)}, {patterns:Array(String)})))) AS due,
            open OR (key_hash, task_id) IN (SELECT key_hash, pending_task_id FROM waiting_tasks WHERE open AND key_hash IN (SELECT key_hash FROM asked)) AS tells
        FROM phased
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
        OR (sum(skips) > 0 AND (NOT hasAll(groupUniqArrayIf(name, succeeded), groupUniqArrayIf(name, skips > 0)) OR max(last_success) < subtractMicroseconds(max(last_skip), {swallowed_after:Int64})
            OR minIf(first_success, succeeded) > addMicroseconds(minIf(first_skip, skips > 0), {swallowed_after:Int64})
            OR max(ended_badly) OR max(open)))
        -- Effects, and an end that is no success.
        OR (max(did) AND max(ended_badly))
        -- Something was found of it before.
        OR any(key_hash) IN (SELECT key_hash FROM finding_subjects WHERE key_hash IN (SELECT key_hash FROM asked))
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
