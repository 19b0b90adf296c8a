-- name: review/tasks
-- How the runs of each task went, measured on the task ids whose business key, or else whose own id, lies in a range of
-- hashes.
-- params: from DateTime64(6, 'UTC'), last UInt64, mixed Array(String), lacking Bool, any_task Bool, task String, any_namespace Bool, namespace String,
--    timeouts Array(Float64), most_tasks UInt64
-- returns: one row a namespace and task, those with the most ids first
-- cost: the events of the range; in mixed namespaces, a look-up in events or in task_keys for each of its task ids
-- example: {"from": "2026-11-01 00:00:00", "last": 18446744073709551615, "mixed": [""], "lacking": true, "any_task": false, "task": "mail.send", "any_namespace": true, "namespace": "", "timeouts": [1800, 3600], "most_tasks": 100}
WITH
    -- Seconds since the last of some marks that is of the same run as a mark, and until the first that comes after one. Marks
    -- are (seconds, kind, place, attempt, planned, runtime).
    (mark, of) -> mark.1 - arrayLast(m -> m.1 <= mark.1 AND m.3 = mark.3 AND (m.4 = mark.4 OR m.4 < 0 OR mark.4 < 0), of).1 AS since,
    (mark, of) -> arrayFirst(m -> m.1 > mark.1, of).1 - mark.1 AS until,
    (limit, took, held) -> arrayExists(s -> s >= limit, took) OR arrayExists(s -> s >= limit, held) AS outlasts,
    -- The ids of the one task that is asked for, to find their events that tell no name.
    called AS
    (
        SELECT DISTINCT namespace, task_id FROM events
        WHERE NOT {any_task:Bool} AND key_hash <= {last:UInt64} AND kafka_time >= {from:DateTime64(6, 'UTC')} AND task = {task:String}
    ),
    own AS
    (
        SELECT namespace, business_key, task_id, event_id, type, time, task, worker, execution_id, retries, max_retries, retry_in, acks_late,
            error_type, error_permanent, runtime
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
        SELECT namespace, business_key, task_id, event_id, type, time, task, worker, execution_id, retries, max_retries, retry_in, acks_late,
            error_type, error_permanent, runtime
        FROM events
        WHERE notEmpty({mixed:Array(String)}) AND business_key = '' AND kafka_time >= {from:DateTime64(6, 'UTC')}
            AND key_hash IN (SELECT sipHash64(namespace, '', task_id) FROM members) AND (namespace, task_id) IN (SELECT namespace, task_id FROM members)
    ),
    gathered AS
    (
        SELECT namespace, task_id,
            count() AS events,
            max(toString(task)) AS told,
            max(business_key != '') AS keyed,
            arraySort(groupArray(500)((toFloat64(toUnixTimestamp64Micro(time)) / 1e6, kind, place, retries, retry_in, runtime))) AS all,
            max(retries) AS highest,
            max(max_retries) AS bound,
            countIf(kind = 1) AS received, countIf(kind = 2) AS started, countIf(kind = 3) AS retried, countIf(kind >= 3) AS ended,
            countIf(type = 'skipped') AS skips,
            countIf(kind = 4) > 0 AS failed, countIf(kind = 5) > 0 AS succeeded,
            countIf(type = 'worker_lost') > 0 AND NOT succeeded AS lost,
            countIf(acks_late) > 0 AS late, countIf(NOT acks_late) > 0 AS early,
            groupUniqArrayIf(20)(toString(error_type), kind = 3) AS retried_on, groupUniqArrayIf(20)(toString(error_type), kind = 4) AS failed_on,
            groupUniqArrayIf(20)(toString(error_type), kind = 3 AND error_permanent) AS wrongly_retried_on,
            groupUniqArrayIf(20)(toString(error_type), kind = 4 AND error_permanent) AS permanently_failed_on
        FROM
        (
            SELECT *, toUInt8(indexOf(['received', 'started', 'retried', 'failed', 'succeeded'], toString(type))) AS kind, sipHash64(toString(worker), execution_id) AS place
            FROM sample
            LIMIT 1 BY namespace, sipHash64(event_id)
        )
        GROUP BY namespace, task_id
    ),
    ids AS
    (
        SELECT g.namespace AS namespace, if(g.told != '', g.told, k.name) AS name, events, keyed, bound, succeeded, lost, late, early,
            arrayFilter(m -> m.2 = 1, all) AS arrivals,
            if(started > 0, arrayFilter(m -> m.2 = 2, all), arrivals) AS starts,
            arrayFilter(m -> m.2 >= 3, all) AS ends,
            -- A failure that a higher attempt follows is a retry as well, where no retries are told.
            if(retried > 0, arrayFilter(m -> m.2 = 3, all), arrayFilter(m -> m.2 = 4 AND m.4 >= 0 AND m.4 < highest, all)) AS backs,
            greatest(toInt64(retried), toInt64(highest), toInt64(length(backs))) AS attempts_more,
            multiIf(started > 0, started, received > 0, received, ended) AS begun,
            greatest(toInt64(greatest(started, received)) - 1 - attempts_more, 0) AS redelivered,
            failed AND NOT succeeded AND notEmpty(ends) AND ends[-1].2 = 4 AS gave_up,
            arrayFilter(e -> e != '', if(retried > 0, retried_on, if(empty(backs), [], failed_on))) AS errors,
            if(retried > 0, wrongly_retried_on, if(empty(backs), [], permanently_failed_on)) AS permanent,
            -- How long each run took, in seconds: as its end tells, or since its start.
            arrayFilter(s -> s < 1e9, arrayMap(e -> if(e.6 > 0, e.6, since(e, starts)), ends)) AS took,
            -- How long each delivery was held: until its end or, where it is acknowledged early, until its start.
            arrayFilter(s -> s < 1e9, arrayMap(e -> since(e, arrivals), if(early AND NOT late, starts, ends))) AS held,
            -- From each retry to the attempt after it: the number of that attempt, seconds as they were and as they were planned, and
            -- the second in which it came.
            arrayFilter(b -> b.1 <= 20 AND b.2 > 0, arrayMap((b, i) -> (toInt64(if(b.4 >= 0, b.4 + 1, i)), until(b, starts), if(b.5 >= 10, toFloat64(b.5), until(b, starts)),
                toUInt32(b.1 + until(b, starts))), backs, arrayEnumerate(backs))) AS gaps
        FROM gathered AS g
        LEFT ANY JOIN known AS k ON k.namespace = g.namespace AND k.task_id = g.task_id
        WHERE g.keyed OR k.business_key = '' -- otherwise it belongs to a key elsewhere
    ),
    tasks AS
    (
        SELECT namespace, name,
            toInt64(sum(events)) AS events_told, toInt64(count()) AS ids, toInt64(countIf(keyed)) AS keyed_ids,
            toInt64(sum(begun)) AS runs, toInt64(countIf(begun > 0)) AS first_runs, sum(attempts_more) AS retries, toInt64(countIf(attempts_more > 0)) AS retried_ids,
            sum(redelivered) AS redeliveries,
            toInt64(countIf(bound >= 0)) AS bounded_ids, toInt64(max(bound)) AS max_told, toInt64(countIf(bound >= 0 AND attempts_more > bound)) AS beyond_bound,
            max(attempts_more) AS highest, toInt64(countIf(gave_up AND attempts_more > 0)) AS exhausted, maxIf(attempts_more, gave_up) AS gave_up_at,
            toInt64(countIf(succeeded)) AS succeeded_ids, toInt64(countIf(gave_up)) AS failed_ids, toInt64(countIf(lost)) AS lost_ids,
            toInt64(countIf(late)) AS late_ids, toInt64(countIf(early)) AS early_ids,
            sum(length(took)) AS runs_timed, quantilesTDigestArray(0.5, 0.95, 0.99)(took) AS took_quantiles, maxArray(took) AS longest,
            sum(length(held)) AS runs_held, quantilesTDigestArray(0.5, 0.95, 0.99)(held) AS held_quantiles, maxArray(held) AS longest_held,
            sumForEach(arrayMap(t -> toInt64(outlasts(t, took, held)), {timeouts:Array(Float64)})) AS over,
            sumForEach(arrayMap(t -> toInt64(redelivered > 0 AND outlasts(t, took, held)), {timeouts:Array(Float64)})) AS over_again,
            groupArrayArray(50000)(gaps) AS gaps_of,
            -- Of each type of error: ids that were retried on it, that a retry healed, that gave up, that were told that it is permanent.
            sumMap(errors, arrayMap(e -> 1, errors), arrayMap(e -> toUInt8(succeeded), errors), arrayMap(e -> toUInt8(gave_up), errors),
                arrayMap(e -> toUInt8(has(permanent, e)), errors)) AS sums,
            arraySlice(arrayReverseSort(e -> (e.2, e.1), arrayZip(sums.1, sums.2, sums.3, sums.4, sums.5)), 1, 20) AS kinds_of_error
        FROM ids
        GROUP BY namespace, name
        ORDER BY ids DESC, namespace, name
        LIMIT {most_tasks:UInt64}
    )
SELECT toString(namespace) AS namespace, name, events_told, ids, keyed_ids, runs, first_runs, retries, retried_ids, redeliveries, bounded_ids, max_told, beyond_bound, highest,
    exhausted, gave_up_at, succeeded_ids, failed_ids, lost_ids, late_ids, early_ids,
    arrayConcat([toFloat64(runs_timed)], took_quantiles, [longest]) AS took_lengths,
    arrayConcat([toFloat64(runs_held)], held_quantiles, [longest_held]) AS held_lengths,
    over, over_again,
    arrayMap(e -> e.1, kinds_of_error) AS error_types, arrayMap(e -> arrayMap(n -> toInt64(n), [e.2, e.3, e.4, e.5]), kinds_of_error) AS error_counts,
    arraySort(arrayDistinct(arrayMap(g -> g.1, gaps_of))) AS gap_attempts,
    arrayMap(a -> toInt64(arrayCount(g -> g.1 = a, gaps_of)), gap_attempts) AS gap_counts,
    arrayMap(a -> arrayReduce('quantilesExact(0.1, 0.5, 0.9)', arrayMap(g -> g.3, arrayFilter(g -> g.1 = a, gaps_of))), gap_attempts) AS gap_lengths,
    -- A histogram of the gaps, by fourths of an octave.
    arraySort(arrayDistinct(arrayMap(g -> toInt64(floor(4 * log2(g.2))), gaps_of))) AS histogram_steps,
    arrayMap(s -> toInt64(arrayCount(g -> toInt64(floor(4 * log2(g.2))) = s, gaps_of)), histogram_steps) AS histogram_counts,
    toInt64(arrayMax(arrayEnumerateUniq(arrayMap(g -> g.4, gaps_of)))) AS together
FROM tasks
ORDER BY ids DESC, namespace, name
