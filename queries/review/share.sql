-- name: review/share
-- How much a range of keys holds: what a review of that range would read.
-- params: from DateTime64(6, 'UTC'), last UInt64, any_task Bool, task String, any_namespace Bool, namespace String
-- returns: one row a namespace: rows in the range, events that count, and task ids: with a business key, without one, and
--    of these those with a name
-- cost: six columns of the range, a bounded number of rows (see reviewLimits)
-- example: {"from": "2026-11-01 00:00:00", "last": 18446744073709551615, "any_task": false, "task": "mail.send", "any_namespace": true, "namespace": ""}
SELECT
    toString(namespace) AS namespace,
    count() AS read,
    countIf(counts) AS events,
    uniqIf(task_id, counts AND business_key != '') AS keyed,
    uniqIf(task_id, counts AND business_key = '') AS keyless,
    uniqIf(task_id, counts AND business_key = '' AND task != '') AS named
FROM
(
    SELECT e.namespace AS namespace, task_id, business_key, task,
        task_id != '' AND ({any_task:Bool} OR task = {task:String}) AND ({any_namespace:Bool} OR e.namespace = {namespace:String}) AS counts
    FROM events AS e
    WHERE key_hash <= {last:UInt64} AND kafka_time >= {from:DateTime64(6, 'UTC')}
)
GROUP BY namespace
