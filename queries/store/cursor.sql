-- name: store/cursor
-- How far a reader has read.
-- params: name String
-- returns: kafka_topic, kafka_partition, next_offset of each partition, in order
-- cost: a few rows
-- example: {"name": "rules"}
SELECT kafka_topic, kafka_partition, next_offset
FROM rule_cursors FINAL
WHERE name = {name:String}
ORDER BY kafka_topic, kafka_partition
