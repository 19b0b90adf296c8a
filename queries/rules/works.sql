-- name: rules/works
-- Which tasks worked for some business keys, and which effects they had, in a stretch of time.
-- params: hashes String, from DateTime64(6, 'UTC'), to DateTime64(6, 'UTC'), arrived DateTime64(6, 'UTC')
-- returns: one row a key, in no order; a name that was not told is empty, and of more than a hundred names some are left out.
--    hashes is as in rules/told
-- cost: a look-up a key in every part that holds events of that time, of a few columns
-- example: {"hashes": "AQAAAAAAAAA=", "from": "2026-11-01 00:00:00", "to": "2026-11-02 12:00:00", "arrived": "2026-11-02 12:00:00"}
SELECT key_hash, groupUniqArray(100)(toString(task)) AS tasks, groupUniqArrayIf(100)(toString(effect_name), effect_name != '') AS effects
FROM events
WHERE key_hash IN (SELECT arrayJoin(reinterpret(base64Decode({hashes:String}), 'Array(UInt64)')))
    AND kafka_time >= {from:DateTime64(6, 'UTC')} AND kafka_time < {to:DateTime64(6, 'UTC')} AND kafka_time <= {arrived:DateTime64(6, 'UTC')}
GROUP BY key_hash
