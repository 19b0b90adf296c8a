-- name: rules/stretch_keys
-- The keys that changed in a range of offsets, by their hash, and when the events that changed them arrived.
-- params: topic String, partition Int32, from Int64, to Int64, keyless Bool
-- returns: one row a subject, in no order; tasks holds the hashes under which events of its tasks stand that carry no key
-- cost: one key range
-- example: {"topic": "task-events", "partition": 0, "from": 0, "to": 100, "keyless": true}
WITH
    changed AS
    (
        SELECT namespace, business_key, task_id, min(kafka_time) AS first, max(kafka_time) AS last
        FROM changed_keys
        WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
            AND kafka_offset >= {from:Int64} AND kafka_offset < {to:Int64}
        GROUP BY namespace, business_key, task_id
    ),
    linked AS
    (
        SELECT DISTINCT namespace, task_id, business_key
        FROM task_keys
        WHERE business_key != '' AND (namespace, task_id) IN (SELECT namespace, task_id FROM changed WHERE business_key = '')
    ),
    -- The keys of tasks that stand under several in this range.
    drifting AS
    (
        SELECT namespace, business_key
        FROM changed
        WHERE business_key != '' AND (namespace, task_id) IN
            (SELECT namespace, task_id FROM changed WHERE business_key != '' GROUP BY namespace, task_id HAVING uniqExact(business_key) > 1)
    )
SELECT
    sipHash64(c.namespace, if(c.business_key = '', l.business_key, c.business_key) AS key, if(key = '', c.task_id, '')) AS key_hash,
    min(c.first) AS first_arrival, max(c.last) AS last_arrival,
    if({keyless:Bool}, arraySort(groupUniqArray(sipHash64(c.namespace, '', c.task_id))), []) AS tasks,
    max((c.namespace, key) IN (SELECT namespace, business_key FROM drifting)) AS drifts,
    if(drifts, any(toString(c.namespace)), '') AS namespace, if(drifts, any(key), '') AS business_key
FROM changed AS c
LEFT JOIN linked AS l ON l.namespace = c.namespace AND l.task_id = c.task_id
GROUP BY key_hash
