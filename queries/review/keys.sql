-- name: review/keys
-- Whether task ids that were retried or delivered again kept their business key, asked of some of those in a range of hashes.
-- params: from DateTime64(6, 'UTC'), last UInt64, any_task Bool, task String, any_namespace Bool, namespace String, most UInt64
-- returns: one row a namespace and task: ids that were asked for, and those of them with more than one business key
-- cost: the events of the range, and a look-up in task_keys for at most so many ids
-- example: {"from": "2026-11-01 00:00:00", "last": 18446744073709551615, "any_task": false, "task": "mail.send", "any_namespace": true, "namespace": "", "most": 10000}
SELECT toString(namespace) AS namespace, name, toInt64(count()) AS asked, toInt64(countIf(keys > 1)) AS drifted
FROM
(
    SELECT namespace, task_id, max(toString(task)) AS name, uniqExactIf(business_key, business_key != '') AS keys
    FROM task_keys
    WHERE (namespace, task_id) IN
    (
        SELECT namespace, task_id
        FROM events
        WHERE key_hash <= {last:UInt64} AND kafka_time >= {from:DateTime64(6, 'UTC')} AND task_id != '' AND business_key != ''
            AND ({any_task:Bool} OR task = {task:String}) AND ({any_namespace:Bool} OR namespace = {namespace:String})
        GROUP BY namespace, task_id
        HAVING max(retries) > 0 OR countIf(redelivered) > 0 OR uniqExactIf(event_id, type = 'started') > 1 OR uniqExactIf(event_id, type = 'received') > 1
        LIMIT {most:UInt64}
    )
    GROUP BY namespace, task_id
)
GROUP BY namespace, name
