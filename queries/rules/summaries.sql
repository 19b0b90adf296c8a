-- name: rules/summaries
-- What all events of some subjects come to: how many there are, and how often each effect and success happened.
-- params: namespaces Array(String), business_keys Array(String), task_ids Array(String), since DateTime64(6, 'UTC'),
--    until DateTime64(6, 'UTC'), arrived DateTime64(6, 'UTC'), keyless Bool
-- returns: one row a subject, with whole, and one for each of its effects and for each task that succeeded, the most frequent
--    first, at most 1,000 of them
-- cost: all events of the subjects, of a few columns, and in memory eight bytes for each
-- example: {"namespaces": ["", ""], "business_keys": ["order:1", ""], "task_ids": ["", "a1"], "since": "2026-11-01 00:00:00", "until": "2026-11-02 12:00:00", "arrived": "2026-11-02 12:00:00", "keyless": true}
WITH
    subjects AS
    (
        SELECT s.1 AS namespace, s.2 AS business_key, s.3 AS subject_task
        FROM (SELECT arrayJoin(arrayZip({namespaces:Array(String)}, {business_keys:Array(String)}, {task_ids:Array(String)})) AS s)
    ),
    own AS
    (
        SELECT namespace, business_key, if(business_key = '', task_id, '') AS subject_task, event_id, type, time, task, task_id, worker,
            effect_name, effect_target, deduplicated, kafka_topic, kafka_partition, kafka_offset, kafka_index
        FROM events
        WHERE key_hash IN (SELECT sipHash64(namespace, business_key, subject_task) FROM subjects)
            AND (namespace, business_key, if(business_key = '', task_id, '')) IN (SELECT namespace, business_key, subject_task FROM subjects)
            AND time <= {until:DateTime64(6, 'UTC')} AND kafka_time >= {since:DateTime64(6, 'UTC')} AND kafka_time <= {arrived:DateTime64(6, 'UTC')}
    ),
    -- if {keyless:Bool}
    members AS (SELECT DISTINCT namespace, business_key, task_id FROM own WHERE business_key != ''),
    -- end if
    past AS
    (
        SELECT * FROM own
        -- if {keyless:Bool}
        UNION ALL
        SELECT e.namespace, m.business_key, '' AS subject_task, e.event_id, e.type, e.time, e.task, e.task_id, e.worker,
            e.effect_name, e.effect_target, e.deduplicated, e.kafka_topic, e.kafka_partition, e.kafka_offset, e.kafka_index
        FROM events AS e
        INNER JOIN members AS m ON m.namespace = e.namespace AND m.task_id = e.task_id
        WHERE e.business_key = '' AND e.key_hash IN (SELECT sipHash64(namespace, '', task_id) FROM members)
            AND e.time <= {until:DateTime64(6, 'UTC')} AND e.kafka_time >= {since:DateTime64(6, 'UTC')} AND e.kafka_time <= {arrived:DateTime64(6, 'UTC')}
        -- end if
    ),
    deeds AS
    (
        SELECT *, (time, kafka_partition, kafka_offset, kafka_index) AS at,
            multiIf(type = 'effect' AND NOT deduplicated, 'effect', type = 'succeeded', 'succeeded', '') AS kind,
            if(kind = 'effect', toString(effect_name), '') AS effect, if(kind = 'effect', effect_target, '') AS target,
            if(kind = 'succeeded', toString(task), '') AS done
        FROM past
    )
SELECT toString(namespace) AS namespace, business_key, subject_task, kind, effect, target, done, grouping(kind) > 0 AS whole,
    uniqExact(sipHash64(event_id)) AS count, uniqExact(sipHash64(task_id)) AS tasks, uniqExactIf(sipHash64(event_id), type = 'started') AS starts,
    min(time) AS first_time, argMin(event_id, at) AS first_id, argMin(toString(type), at) AS first_type, argMin(toString(worker), at) AS first_worker,
    argMin(task_id, at) AS first_task_id, argMin(toString(kafka_topic), at) AS first_topic, argMin(kafka_partition, at) AS first_partition,
    argMin(kafka_offset, at) AS first_offset, argMin(kafka_index, at) AS first_index
FROM deeds
GROUP BY GROUPING SETS ((namespace, business_key, subject_task), (namespace, business_key, subject_task, kind, effect, target, done))
HAVING whole OR kind != ''
ORDER BY whole DESC, count DESC, namespace, business_key, subject_task, kind, effect, target, done
LIMIT 1001 BY namespace, business_key, subject_task
