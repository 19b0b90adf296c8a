-- name: rules/plain
-- Of some keys those of which all that arrived is the plain life of one task: begun once, its effects done once each, ended well.
-- params: hashes String, since DateTime64(6, 'UTC'), until DateTime64(6, 'UTC'), arrived DateTime64(6, 'UTC')
-- returns: one hash a key, or a task without one, in no order. hashes is as in rules/told, those of the tasks of the keys
--    among them where there are events without a key
-- cost: a look-up a key in every part that holds events which arrived since then, of a few columns
-- example: {"hashes": "AQAAAAAAAAA=", "since": "2026-11-01 00:00:00", "until": "2026-11-02 12:00:00", "arrived": "2026-11-02 12:00:00"}
SELECT if(own = 0, task_hash, own) AS subject
FROM
(
    SELECT sipHash64(namespace, '', task_id) AS task_hash,
        maxIf(key_hash, key_hash != task_hash) AS own,
        minIf(key_hash, key_hash != task_hash) = own
        AND uniqExact(type, effect_name, effect_target) = count()
        AND max(type = 'succeeded')
        AND max(type NOT IN ('sent', 'received', 'started', 'effect', 'succeeded')) = 0
        AND max(retries) <= 0
        AND max(ifNull(redelivered, false)) = 0
        AND max(time) <= {until:DateTime64(6, 'UTC')}
        AND max(expires) = toDateTime64(0, 6, 'UTC') AND max(deadline) = toDateTime64(0, 6, 'UTC') AS plain
    FROM events
    WHERE key_hash IN (SELECT arrayJoin(reinterpret(base64Decode({hashes:String}), 'Array(UInt64)')))
        AND kafka_time >= {since:DateTime64(6, 'UTC')} AND kafka_time <= {arrived:DateTime64(6, 'UTC')}
    GROUP BY task_hash
)
GROUP BY subject
HAVING count() = 1 AND min(plain)
    AND subject NOT IN (SELECT key_hash FROM finding_subjects WHERE key_hash IN
        (SELECT arrayJoin(reinterpret(base64Decode({hashes:String}), 'Array(UInt64)'))))
