-- name: rules/drifted
-- Which of some task ids stand under several business keys, within one task.
-- params: namespaces Array(String), task_ids Array(String)
-- returns: one row a task id and key, in order
-- cost: a key look-up a task id
-- example: {"namespaces": [""], "task_ids": ["a1"]}
WITH asked AS
(
    SELECT arrayJoin(arrayZip({namespaces:Array(String)}, {task_ids:Array(String)})) AS a
)
SELECT toString(namespace) AS namespace, task_id, key AS business_key
FROM
(
    SELECT namespace, task_id, arraySlice(arraySort(groupUniqArray(business_key)), 1, 100) AS keys
    FROM task_keys
    WHERE business_key != '' AND (namespace, task_id) IN (SELECT a.1, a.2 FROM asked)
    GROUP BY namespace, task_id, task
    HAVING length(keys) > 1
)
ARRAY JOIN keys AS key
GROUP BY namespace, task_id, key
ORDER BY namespace, task_id, business_key
