-- name: rules/key_tasks
-- The tasks of the business keys of some hashes: by the hashes under which events of these tasks stand that carry no key.
-- params: hashes String, since DateTime64(6, 'UTC')
-- returns: one row a key, in no order; hashes is as in rules/told
-- cost: a look-up a key in every part that holds events which arrived since then
-- example: {"hashes": "AQAAAAAAAAA=", "since": "2026-11-01 00:00:00"}
SELECT key_hash, arraySort(groupUniqArray(sipHash64(namespace, '', task_id))) AS tasks
FROM events
WHERE key_hash IN (SELECT arrayJoin(reinterpret(base64Decode({hashes:String}), 'Array(UInt64)'))) AND business_key != '' AND task_id != '' AND kafka_time >= {since:DateTime64(6, 'UTC')}
GROUP BY key_hash
