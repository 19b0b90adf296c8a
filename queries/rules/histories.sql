-- name: rules/histories
-- The events of some subjects, with those of their tasks that carry no business key.
-- params: namespaces Array(String), business_keys Array(String), task_ids Array(String), since DateTime64(6, 'UTC'),
--    arrived DateTime64(6, 'UTC'), limit UInt64, first Array(String), keyless Bool
-- returns: every column of events, and the subject it belongs to; the newest of each subject after all those
--    of the tasks in first, a row twice where an event
--    belongs to it in two ways
-- cost: a key look-up a subject, and as much again where there are events without a key (keyless)
-- example: {"namespaces": ["", ""], "business_keys": ["order:1", ""], "task_ids": ["", "a1"], "since": "2026-11-01 00:00:00", "arrived": "2026-11-02 12:00:00", "limit": 100, "first": ["a1"], "keyless": true}
WITH
    subjects AS
    (
        SELECT s.1 AS namespace, s.2 AS business_key, s.3 AS subject_task
        FROM (SELECT arrayJoin(arrayZip({namespaces:Array(String)}, {business_keys:Array(String)}, {task_ids:Array(String)})) AS s)
    ),
    own AS
    (
        SELECT *, namespace AS subject_namespace, business_key AS subject_key, if(business_key = '', task_id, '') AS subject_task
        FROM events
        WHERE key_hash IN (SELECT sipHash64(namespace, business_key, subject_task) FROM subjects)
            AND (namespace, business_key, if(business_key = '', task_id, '')) IN (SELECT namespace, business_key, subject_task FROM subjects)
            AND kafka_time >= {since:DateTime64(6, 'UTC')} AND kafka_time <= {arrived:DateTime64(6, 'UTC')}
    )
    -- if {keyless:Bool}
    , members AS (SELECT DISTINCT namespace, business_key, task_id FROM own WHERE business_key != '')
    -- end if
SELECT * FROM
(
    SELECT * FROM own
    -- if {keyless:Bool}
    UNION ALL
    SELECT e.*, m.namespace AS subject_namespace, m.business_key AS subject_key, '' AS subject_task
    FROM events AS e
    INNER JOIN members AS m ON m.namespace = e.namespace AND m.task_id = e.task_id
    WHERE e.business_key = '' AND e.key_hash IN (SELECT sipHash64(namespace, '', task_id) FROM members)
        AND e.kafka_time >= {since:DateTime64(6, 'UTC')} AND e.kafka_time <= {arrived:DateTime64(6, 'UTC')}
    -- end if
)
ORDER BY task_id IN {first:Array(String)} DESC, time DESC
LIMIT {limit:UInt64} BY subject_namespace, subject_key, subject_task
