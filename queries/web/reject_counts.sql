-- name: web/reject_counts
-- How many records could not be read, and why.
-- params: none
-- returns: one row a reason, the most frequent first
-- cost: all rejects, but for their bytes
SELECT reason, uniqExact(kafka_topic, kafka_partition, kafka_offset, kafka_index) AS found, max(kafka_time) AS newest
FROM rejects
GROUP BY reason
ORDER BY found DESC, reason
