-- name: rules/unresolved
-- The ids of the findings about some subjects that are not resolved.
-- params: namespaces Array(String), business_keys Array(String), task_ids Array(String)
-- returns: one id a finding, in order
-- cost: the table of findings
-- example: {"namespaces": [""], "business_keys": ["order:1"], "task_ids": [""]}
SELECT id
FROM findings
WHERE state != 'resolved' AND (business_key != '' OR length(task_ids) = 1)
    AND (namespace, business_key, if(business_key = '', task_ids[1], ''))
        IN (SELECT s.1, s.2, s.3 FROM (SELECT arrayJoin(arrayZip({namespaces:Array(String)}, {business_keys:Array(String)}, {task_ids:Array(String)})) AS s))
ORDER BY id
