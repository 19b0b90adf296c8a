-- name: rules/unresolved
-- The ids of the findings about some subjects that are not resolved.
-- params: namespaces Array(String), business_keys Array(String), task_ids Array(String)
-- returns: one id a finding, in order
-- cost: a key look-up a subject, and one for each finding about them
-- example: {"namespaces": [""], "business_keys": ["order:1"], "task_ids": [""]}
WITH
    subjects AS
    (
        SELECT s.1 AS namespace, s.2 AS business_key, s.3 AS subject_task
        FROM (SELECT arrayJoin(arrayZip({namespaces:Array(String)}, {business_keys:Array(String)}, {task_ids:Array(String)})) AS s)
    )
SELECT id
FROM findings
WHERE id IN (SELECT id FROM finding_subjects WHERE key_hash IN (SELECT sipHash64(namespace, business_key, subject_task) FROM subjects))
    AND state != 'resolved' AND (business_key != '' OR length(task_ids) = 1)
    AND (namespace, business_key, if(business_key = '', task_ids[1], '')) IN (SELECT namespace, business_key, subject_task FROM subjects)
ORDER BY id
