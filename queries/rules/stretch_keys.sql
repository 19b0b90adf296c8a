-- name: rules/stretch_keys
-- The keys that changed in a range of offsets, by their hash, and when the events that changed them arrived.
-- params: topic String, partition Int32, from Int64, to Int64
-- returns: one row a key or a task without a key (keyless), in no order; tasks holds the hashes of their task ids
-- cost: one key range
-- example: {"topic": "task-events", "partition": 0, "from": 0, "to": 100}
SELECT sipHash64(namespace, business_key, if(business_key = '', task_id, '')) AS key_hash,
    any(business_key = '')::Bool AS keyless,
    groupUniqArray(sipHash64(namespace, '', task_id)) AS tasks,
    min(kafka_time) AS first_arrival, max(kafka_time) AS last_arrival
FROM changed_keys
WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
    AND kafka_offset >= {from:Int64} AND kafka_offset < {to:Int64}
GROUP BY key_hash
