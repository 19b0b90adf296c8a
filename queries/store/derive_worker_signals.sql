-- name: store/derive_worker_signals
-- Derives when workers were heard of from the events of a range of offsets again, as worker_signals_view does when they arrive.
-- params: topic String, partition Int32, first Int64, last Int64
-- returns: nothing
-- cost: the offsets of the parts that reach into the range, and the range's events
-- example: {"topic": "task-events", "partition": 0, "first": 0, "last": 100}
-- replicas: all
INSERT INTO worker_signals (namespace, worker, slice, pid, first, last, idle, lost, kafka_time)
SELECT
    namespace,
    worker,
    toDateTime(toStartOfInterval(time, INTERVAL 10 SECOND), 'UTC') AS slice,
    pid,
    min(time) AS first,
    max(time) AS last,
    max(if(active = 0 AND type = 'heartbeat', time, toDateTime64(0, 6, 'UTC'))) AS idle,
    max(if(type = 'worker_lost' AND task_id = '', time, toDateTime64(0, 6, 'UTC'))) AS lost,
    max(kafka_time) AS kafka_time
FROM events
WHERE (worker != '' AND type NOT IN ('sent'))
    AND kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
    AND kafka_offset BETWEEN {first:Int64} AND {last:Int64}
GROUP BY namespace, worker, slice, pid
