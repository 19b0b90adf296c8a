-- name: web/search_prefix
-- The business keys and task ids that begin with a text.
-- params: text String, limit UInt64
-- returns: one row a key or id, in order of name
-- cost: the ids and keys of all tasks that are kept
-- example: {"text": "order:", "limit": 50}
SELECT kind, namespace, business_key, task_id, name, heard
FROM
(
    SELECT 'business key' AS kind, toString(namespace) AS namespace, business_key, '' AS task_id,
        max(toString(task)) AS name, max(kafka_time) AS heard
    FROM task_keys
    WHERE startsWith(business_key, {text:String})
    GROUP BY namespace, business_key
    ORDER BY business_key, namespace
    LIMIT {limit:UInt64}
    UNION ALL
    SELECT 'task id', toString(namespace), max(business_key), task_id, max(toString(task)), max(kafka_time)
    FROM task_keys
    WHERE startsWith(task_id, {text:String})
    GROUP BY namespace, task_id
    ORDER BY task_id, namespace
    LIMIT {limit:UInt64}
)
ORDER BY kind, business_key, task_id, namespace
LIMIT {limit:UInt64}
