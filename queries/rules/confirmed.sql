-- name: rules/confirmed
-- Up to where the ledger proves that the store has everything.
-- params: none
-- returns: the next offset of each partition, in no order
-- cost: a few rows a partition
SELECT kafka_topic, kafka_partition, max(last) + 1 AS next
FROM ledger_ends
GROUP BY kafka_topic, kafka_partition
