-- name: rules/told
-- What the task ids of some keys told, in numbers: enough to say which keys may be in trouble.
-- params: hashes String, since DateTime64(6, 'UTC'), until DateTime64(6, 'UTC'), arrived DateTime64(6, 'UTC'),
--    quiet_from DateTime64(6, 'UTC'), quiet_to DateTime64(6, 'UTC'), keyless Bool
-- returns: one row a task id of a subject, in no order. hashes is the hashes of the keys, of eight bytes each, the lowest
--    first, in base64
-- cost: the keys' own past: a look-up each, in every part that holds events which arrived from since to quiet_from or from
--    quiet_to on, and as much again where there are events without a key (keyless)
-- example: {"hashes": "AQAAAAAAAAA=", "since": "2026-11-01 00:00:00", "until": "2026-11-02 12:00:00", "arrived": "2026-11-02 12:00:00", "quiet_from": "1970-01-01 00:00:00", "quiet_to": "1970-01-01 00:00:00", "keyless": true}
WITH
    asked AS (SELECT arrayJoin(reinterpret(base64Decode({hashes:String}), 'Array(UInt64)')) AS key_hash),
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
    -- if {keyless:Bool}
    -- The task ids of a business key, to find their events that carry no key.
    members AS (SELECT DISTINCT key_hash, namespace, business_key, task_id FROM own WHERE business_key != ''),
    -- end if
    past AS
    (
        SELECT * FROM own
        -- if {keyless:Bool}
        UNION ALL
        SELECT m.key_hash, e.namespace, m.business_key, '' AS subject_task,
            e.task_id, e.task, e.type, e.time, e.event_id, e.effect_name, e.effect_target, e.deduplicated, e.eta, e.retry_in, e.requeue,
            e.retries AS attempt, e.redelivered, e.expires, e.deadline
        FROM events AS e
        INNER JOIN members AS m ON m.namespace = e.namespace AND m.task_id = e.task_id
        WHERE e.business_key = '' AND e.key_hash IN (SELECT sipHash64(namespace, '', task_id) FROM members)
            AND e.time <= {until:DateTime64(6, 'UTC')} AND e.kafka_time >= {since:DateTime64(6, 'UTC')} AND e.kafka_time <= {arrived:DateTime64(6, 'UTC')}
            AND (e.kafka_time <= {quiet_from:DateTime64(6, 'UTC')} OR e.kafka_time >= {quiet_to:DateTime64(6, 'UTC')})
        -- end if
    )
SELECT key_hash, namespace, business_key, subject_task, task_id,
    max(toString(task)) AS name,
    uniqExactIf(event_id, type = 'succeeded') AS successes,
    uniqExactIf(event_id, type = 'effect' AND NOT deduplicated) AS effects,
    groupUniqArrayIf(1000)(cityHash64(effect_name, effect_target), type = 'effect' AND NOT deduplicated) AS kinds_of_effect,
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
    max(type IN ('started', 'succeeded', 'failed', 'retried'))::Bool AS ran,
    max(type = 'effect')::Bool AS did,
    uniqExactIf(event_id, type = 'skipped') AS skips,
    minIf(time, type = 'skipped') AS first_skip,
    maxIf(time, type = 'skipped') AS last_skip,
    minIf(time, type = 'succeeded') AS first_success,
    maxIf(time, type = 'succeeded') AS last_success,
    groupUniqArrayIf(1000)(attempt, type = 'succeeded') AS good_attempts,
    groupUniqArrayIf(1000)(attempt, type = 'failed') AS bad_attempts,
    max(expires) AS expiry,
    maxIf(time, type = 'started') AS last_start,
    max(deadline) AS last_deadline,
    maxIf(time, type NOT IN ('sent', 'received', 'skipped', 'revoked')) AS last_work,
    -- A publication decides only while nothing else is known: its sender's clock may be ahead of the worker's.
    argMax((toString(type), requeue, retry_in), (type != 'sent', time, indexOf(['sent', 'received', 'started', 'effect',
        'retried', 'succeeded', 'failed', 'rejected', 'revoked', 'skipped', 'worker_lost'], toString(type)))) AS last,
    maxIf(time, type != 'effect') AS last_step,
    max(eta) AS latest_eta,
    any((key_hash, task_id) IN (SELECT key_hash, pending_task_id FROM waiting_tasks WHERE open AND key_hash IN (SELECT key_hash FROM asked)))::Bool AS waited,
    any(key_hash IN (SELECT key_hash FROM finding_subjects WHERE key_hash IN (SELECT key_hash FROM asked)))::Bool AS found
FROM past
GROUP BY key_hash, namespace, business_key, subject_task, task_id
