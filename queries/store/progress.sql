-- name: store/progress
-- Where ingest stands in each partition, as the process that reads it told last.
-- params: none
-- returns: one row a partition, in order; a partition that the topic has no more, and a topic that is not read any more,
--    are left out
-- cost: a few rows a partition
SELECT kafka_topic, kafka_partition, reads, partitions, next_offset, end_offset, log_start, newest, checked, problem
FROM
(
    SELECT *, argMax(topics, version) OVER () AS reads, argMax(partitions, version) OVER (PARTITION BY kafka_topic) AS latest
    FROM ingest_progress FINAL
)
WHERE kafka_partition < latest AND has(reads, kafka_topic)
ORDER BY kafka_topic, kafka_partition
