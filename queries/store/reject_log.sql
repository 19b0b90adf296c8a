-- name: store/reject_log
-- What was done with rejects.
-- params: topics Array(String), offsets Array(Int64), positions Array(String)
-- returns: one row an entry, in order of time; positions are written topic:partition:offset:index
-- cost: the log of those topics and offsets
-- example: {"topics": ["task-events"], "offsets": [41], "positions": ["task-events:0:41:0"]}
-- replicas: all
SELECT DISTINCT *
FROM reject_log FINAL
WHERE kafka_topic IN {topics:Array(String)} AND kafka_offset IN {offsets:Array(Int64)}
    AND concat(kafka_topic, ':', toString(kafka_partition), ':', toString(kafka_offset), ':', toString(kafka_index)) IN {positions:Array(String)}
ORDER BY time, kafka_topic, kafka_partition, kafka_offset, kafka_index, action
