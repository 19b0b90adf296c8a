-- name: store/proofs
-- What is known of each partition from comparing Kafka, the ledger and the tables.
-- params: none
-- returns: one row a partition, in order
-- cost: a few rows a partition
SELECT kafka_topic, kafka_partition, first, next_offset, again, passed, newest, checked, troubles
FROM ingest_proofs FINAL
ORDER BY kafka_topic, kafka_partition
