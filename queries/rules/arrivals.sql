-- name: rules/arrivals
-- Which offsets hold the changes that reached Kafka in a stretch of time.
-- params: from DateTime64(6, 'UTC'), to DateTime64(6, 'UTC')
-- returns: one row a partition, in no order; next is the offset after the last of them
-- cost: the arrival times and offsets of the changes of the weeks that the stretch touches
-- example: {"from": "2026-11-02 00:00:00", "to": "2026-11-03 00:00:00"}
SELECT kafka_topic, kafka_partition, min(kafka_offset) AS first, max(kafka_offset) + 1 AS next
FROM changed_keys
WHERE kafka_time >= {from:DateTime64(6, 'UTC')} AND kafka_time <= {to:DateTime64(6, 'UTC')}
GROUP BY kafka_topic, kafka_partition
