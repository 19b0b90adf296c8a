-- name: review/effects
-- What each task did to the world outside, and how often again, measured on the keys, or else task ids, in a range of hashes.
-- params: from DateTime64(6, 'UTC'), last UInt64, mixed Array(String), lacking Bool, any_task Bool, task String, any_namespace Bool, namespace String,
--    tasks Array(String), look_backs Array(Float64), look_back Float64
-- returns: one row a namespace and task. What happens again within so many seconds, of some tasks and of the rest, is a repetition
-- cost: the events of the range; in mixed namespaces, a look-up in events or in task_keys for each of its task ids
-- example: {"from": "2026-11-01 00:00:00", "last": 18446744073709551615, "mixed": [""], "lacking": true, "any_task": false, "task": "mail.send", "any_namespace": true, "namespace": "", "tasks": ["mail.send"], "look_backs": [3600], "look_back": 86400}
WITH
    -- How many of some times, in order, come sooner after the one before them than within.
    (times, within) -> arrayCount(d -> d < within, arraySlice(arrayDifference(times), 2)) AS again,
    -- The ids of the one task that is asked for, to find their events that tell no name.
    called AS
    (
        SELECT DISTINCT namespace, task_id FROM events
        WHERE NOT {any_task:Bool} AND key_hash <= {last:UInt64} AND kafka_time >= {from:DateTime64(6, 'UTC')} AND task = {task:String}
    ),
    own AS
    (
        SELECT namespace, business_key, task_id, event_id, type, time, task, worker, execution_id, effect_name, effect_target, idempotency_key, deduplicated
        FROM events
        WHERE key_hash <= {last:UInt64} AND kafka_time >= {from:DateTime64(6, 'UTC')} AND task_id != ''
            AND ({any_task:Bool} OR task = {task:String} OR (task = '' AND (namespace, task_id) IN (SELECT namespace, task_id FROM called)))
            AND ({any_namespace:Bool} OR namespace = {namespace:String})
    ),
    -- In some namespaces one task's events may lie apart, some under its business key and others under its id: the ids of the
    -- range that belong to a key, to find their events without one; and of ids without a key their key, where others tell it, or
    -- their name.
    members AS (SELECT DISTINCT namespace, task_id FROM own WHERE has({mixed:Array(String)}, namespace) AND business_key != ''),
    known AS
    (
        SELECT namespace, task_id, max(toString(task)) AS name, max(business_key) AS business_key
        FROM task_keys
        WHERE {lacking:Bool} AND (namespace, task_id) IN
        (
            SELECT namespace, task_id FROM own
            GROUP BY namespace, task_id
            HAVING max(task) = '' OR (has({mixed:Array(String)}, namespace) AND max(business_key) = '')
        )
        GROUP BY namespace, task_id
    ),
    sample AS
    (
        SELECT * FROM own
        UNION ALL
        SELECT namespace, business_key, task_id, event_id, type, time, task, worker, execution_id, effect_name, effect_target, idempotency_key, deduplicated
        FROM events
        WHERE notEmpty({mixed:Array(String)}) AND business_key = '' AND kafka_time >= {from:DateTime64(6, 'UTC')}
            AND key_hash IN (SELECT sipHash64(namespace, '', task_id) FROM members) AND (namespace, task_id) IN (SELECT namespace, task_id FROM members)
    ),
    gathered AS
    (
        SELECT namespace, task_id,
            max(toString(task)) AS told,
            max(business_key) AS key,
            min(at) AS first,
            -- when, what, under which idempotency key, whether the receiver dropped it, in which place (the same worker and execution)
            arraySort(groupArrayIf(500)((at, what, idempotency, deduplicated, place), kind = 1)) AS effects,
            -- when, kind (2 retried, 3 failed, 4 succeeded), in which place
            arraySort(groupArrayIf(500)((at, kind, place), kind > 1)) AS ends,
            countIf(type = 'skipped') AS skips,
            countIf(type IN ('started', 'effect', 'retried', 'failed', 'succeeded')) > 0 AS ran
        FROM
        (
            SELECT *, toFloat64(toUnixTimestamp64Micro(time)) / 1e6 AS at, toUInt8(indexOf(['effect', 'retried', 'failed', 'succeeded'], toString(type))) AS kind,
                sipHash64(toString(worker), execution_id) AS place, sipHash64(toString(effect_name), effect_target) AS what,
                if(idempotency_key = '', 0, sipHash64(idempotency_key)) AS idempotency
            FROM sample
            LIMIT 1 BY namespace, sipHash64(event_id)
        )
        GROUP BY namespace, task_id
    ),
    ids AS
    (
        SELECT g.namespace AS namespace, if(g.told != '', g.told, k.name) AS name, if(g.key != '', g.key, g.task_id) AS subject, first, effects, skips,
            arrayFilter(f -> f.3 != 0, effects) AS keyed,
            length(arrayDistinct(arrayMap(f -> f.2, keyed))) AS kinds_of_keyed,
            arrayFilter(e -> e.2 < 4, ends) AS failures,
            arrayMap(e -> e.1, arrayFilter(e -> e.2 = 4, ends)) AS successes,
            ran AND (skips = 0 OR notEmpty(effects) OR notEmpty(ends)) AS worked,
            -- Failures that come after an effect of the same run: since the end before it, if there was one.
            arrayCount(e -> arrayExists(f -> f.5 = e.3 AND f.1 <= e.1 AND NOT f.4
                AND NOT arrayExists(p -> p.3 = e.3 AND p.1 >= f.1 AND p.1 < e.1, ends), effects), failures) AS failures_after_effect
        FROM gathered AS g
        LEFT ANY JOIN known AS k ON k.namespace = g.namespace AND k.task_id = g.task_id
        WHERE g.key != '' OR k.business_key = '' -- otherwise it belongs to a key elsewhere
    ),
    subjects AS
    (
        SELECT namespace, name, subject,
            transform(name, {tasks:Array(String)}, {look_backs:Array(Float64)}, {look_back:Float64}) AS within,
            sum(length(effects)) AS effects_of, sum(length(keyed)) AS keyed_of, sum(arrayCount(f -> f.4, effects)) AS dropped, sum(skips) AS skips_of,
            countIf(length(keyed) > kinds_of_keyed) AS twice_keyed,
            countIf(length(arrayDistinct(arrayMap(f -> (f.2, f.3), keyed))) > kinds_of_keyed) AS drifted,
            sum(length(failures)) AS failures_of, sum(failures_after_effect) AS failures_after,
            again(arraySort(groupArrayIf(1000)(first, worked)), within) AS copies,
            again(arraySort(groupArrayArray(1000)(successes)), within) AS successes_again,
            arraySort(f -> (f.2, f.1), groupArrayArray(1000)(arrayFilter(f -> NOT f.4, effects))) AS deeds,
            -- A deed that was done before, less than the look-back ago: under the same idempotency key, or not.
            arrayMap((f, i) -> i > 1 AND deeds[i - 1].2 = f.2 AND f.1 - deeds[i - 1].1 < within, deeds, arrayEnumerate(deeds)) AS repeats,
            arrayMap((f, i) -> i > 1 AND f.3 != 0 AND deeds[i - 1].3 = f.3, deeds, arrayEnumerate(deeds)) AS same_key
        FROM ids
        GROUP BY namespace, name, subject
    )
SELECT toString(namespace) AS namespace, name,
    toInt64(sum(effects_of)) AS effects_told, toInt64(sum(keyed_of)) AS keyed_effects, toInt64(sum(dropped)) AS dropped_effects, toInt64(sum(skips_of)) AS skips,
    toInt64(sum(twice_keyed)) AS keyed_again_ids, toInt64(sum(drifted)) AS drifted_ids,
    toInt64(sum(failures_of)) AS failed, toInt64(sum(failures_after)) AS failed_after_effect,
    toInt64(sum(copies)) AS repeated_ids, toInt64(sum(successes_again)) AS extra_successes,
    toInt64(sum(arrayCount(r -> r, repeats))) AS extra_effects,
    toInt64(sum(arrayCount((r, k) -> r AND k, repeats, same_key))) AS guarded_effects
FROM subjects
GROUP BY namespace, name
