-- name: rules/linked
-- Under which business keys the tasks stand that changed in a range of offsets by an event without a key.
-- params: topic String, partition Int32, from Int64, to Int64
-- returns: one row a task id and key, by their hashes, in no order
-- cost: one key range, and a look-up a task id in task_keys
-- example: {"topic": "task-events", "partition": 0, "from": 0, "to": 100}
SELECT DISTINCT sipHash64(namespace, '', task_id) AS task_hash, sipHash64(namespace, business_key, '') AS key_hash
FROM task_keys
WHERE business_key != '' AND (namespace, task_id) IN
(
    SELECT namespace, task_id
    FROM changed_keys
    WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
        AND kafka_offset >= {from:Int64} AND kafka_offset < {to:Int64} AND business_key = ''
)
