-- name: rules/failing
-- What became of the task ids that were tried again after an error, by task and type of error.
-- params: from DateTime64(6, 'UTC'), until DateTime64(6, 'UTC'), arrived DateTime64(6, 'UTC'), namespaces Array(String),
--    error_types Array(String), ids UInt64, sample UInt64
-- returns: one row a task and type of error, of those types, where an error that was declared permanent was retried, or so many ids
--    were tried again; of at most sample ids each. In order
-- cost: the failures of these types from then on, and a key look-up for each id of the rows
-- example: {"from": "2026-11-02 00:00:00", "until": "2026-11-03 00:00:00", "arrived": "2026-11-03 00:00:00", "namespaces": [""], "error_types": ["ValueError"], "ids": 5, "sample": 1000}
WITH
    named AS
    (
        SELECT f.namespace AS namespace, if(f.task != '', toString(f.task), toString(k.name)) AS name, f.error_type AS error_type,
            f.permanent AS permanent, f.business_key AS business_key, f.task_id AS task_id, f.type AS type, f.time AS time, f.event_id AS event_id
        FROM failures AS f
        LEFT ANY JOIN
        (
            SELECT namespace, task_id, max(task) AS name
            FROM task_keys
            WHERE (namespace, task_id) IN (SELECT namespace, task_id FROM failures WHERE task = '' AND minute >= toStartOfMinute({from:DateTime64(6, 'UTC')}))
            GROUP BY namespace, task_id
        ) AS k ON k.namespace = f.namespace AND k.task_id = f.task_id
        WHERE f.minute >= toStartOfMinute({from:DateTime64(6, 'UTC')}) AND f.time <= {until:DateTime64(6, 'UTC')} AND f.kafka_time <= {arrived:DateTime64(6, 'UTC')}
            AND (f.namespace, toString(f.error_type)) IN (SELECT t.1, t.2 FROM (SELECT arrayJoin(arrayZip({namespaces:Array(String)}, {error_types:Array(String)})) AS t))
    ),
    tried AS
    (
        SELECT namespace, name, error_type, task_id, max(business_key) AS business_key,
            uniqExactIf(event_id, type = 'retried') AS retries,
            countIf(type = 'failed') > 0 AS failed,
            -- An error that is known to be permanent, and then another attempt.
            countIf(permanent AND type = 'retried') > 0 OR uniqExactIf(event_id, permanent) > 1 AS declared,
            min(time) AS first_at, max(time) AS last_at
        FROM named
        GROUP BY namespace, name, error_type, task_id
        HAVING retries > 0 OR declared
    ),
    loud AS
    (
        SELECT namespace, name, error_type FROM tried GROUP BY namespace, name, error_type
        HAVING count() >= {ids:UInt64} OR countIf(declared) > 0
    ),
    some AS
    (
        SELECT * FROM tried
        WHERE (namespace, name, error_type) IN (SELECT namespace, name, error_type FROM loud)
        ORDER BY namespace, name, error_type, first_at, task_id
        LIMIT {sample:UInt64} BY namespace, name, error_type
    ),
    healed AS
    (
        SELECT namespace, task_id, max(time) AS at
        FROM events
        WHERE key_hash IN (SELECT sipHash64(namespace, business_key, if(business_key = '', task_id, '')) FROM some)
            AND type = 'succeeded' AND time <= {until:DateTime64(6, 'UTC')} AND kafka_time <= {arrived:DateTime64(6, 'UTC')}
            AND (namespace, task_id) IN (SELECT namespace, task_id FROM some)
        GROUP BY namespace, task_id
    )
SELECT toString(s.namespace) AS namespace, s.name AS name, toString(s.error_type) AS error_type,
    countIf(s.declared) AS declared_ids,
    countIf(s.failed AND s.retries > 0 AND h.at <= s.first_at) AS exhausted_ids,
    countIf(h.at > s.first_at) AS healed_ids,
    count() AS ids,
    sum(s.retries) AS retries,
    min(s.first_at) AS first_at, max(s.last_at) AS last_at,
    arraySlice(groupArray(s.task_id), 1, 20) AS task_ids
FROM some AS s
LEFT JOIN healed AS h ON h.namespace = s.namespace AND h.task_id = s.task_id
GROUP BY namespace, name, error_type
ORDER BY namespace, name, error_type
