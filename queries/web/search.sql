-- name: web/search
-- What a text is the whole of: a business key, a task id, a request id, a worker.
-- params: text String, limit UInt64
-- returns: one row a thing, the one heard of last first
-- cost: one key look-up a namespace, and the bloom filters of all parts
-- example: {"text": "a1", "limit": 50}
SELECT kind, namespace, business_key, task_id, worker, name, heard
FROM
(
    SELECT 'business key' AS kind, toString(namespace) AS namespace, business_key, '' AS task_id, '' AS worker,
        max(toString(task)) AS name, max(time) AS heard
    FROM events
    WHERE {text:String} != '' AND business_key = {text:String}
        AND key_hash IN (SELECT sipHash64(namespace, {text:String}, '') FROM (SELECT DISTINCT namespace FROM task_minutes))
    GROUP BY namespace, business_key
    UNION ALL
    SELECT 'task id', toString(namespace), max(business_key), task_id, '', max(toString(task)), max(time)
    FROM events
    WHERE task_id = {text:String}
    GROUP BY namespace, task_id
    UNION ALL
    SELECT 'request id', toString(namespace), business_key, task_id, '', max(toString(task)), max(time)
    FROM events
    WHERE request_id = {text:String}
    GROUP BY namespace, business_key, task_id
    UNION ALL
    SELECT 'worker', toString(namespace), '', '', toString(worker), '', max(last)
    FROM worker_signals
    WHERE worker = {text:String}
    GROUP BY namespace, worker
)
ORDER BY heard DESC, kind, namespace, business_key, task_id
LIMIT {limit:UInt64}
