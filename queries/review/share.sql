-- name: review/share
-- How much a range of keys holds: what a review of that range would read.
-- params: from DateTime64(6, 'UTC'), last UInt64, any_task Bool, task String, any_namespace Bool, namespace String
-- returns: one row: rows in the range, events that count, and task ids with a business key, without one, and with neither key nor name
-- cost: five columns of the range, a bounded number of rows (see Reviews)
-- example: {"from": "2026-11-01 00:00:00", "last": 18446744073709551615, "any_task": false, "task": "mail.send", "any_namespace": true, "namespace": ""}
SELECT
    count() AS read,
    countIf(counts) AS events,
    uniqIf(task_id, counts AND business_key != '') AS keyed,
    uniqIf(task_id, counts AND business_key = '') AS keyless,
    uniqIf(task_id, counts AND business_key = '' AND task != '') AS named
FROM
(
    SELECT task_id, business_key, task,
        task_id != '' AND ({any_task:Bool} OR task IN ('', {task:String})) AND ({any_namespace:Bool} OR namespace = {namespace:String}) AS counts
    FROM events
    WHERE key_hash <= {last:UInt64} AND kafka_time >= {from:DateTime64(6, 'UTC')}
)
