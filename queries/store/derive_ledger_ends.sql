-- name: store/derive_ledger_ends
-- Derives how far the ledger reaches in a partition again, as ledger_ends_view does when its rows arrive.
-- params: topic String, partition Int32
-- returns: nothing
-- cost: the rows of one partition's ledger
-- example: {"topic": "task-events", "partition": 0}
-- replicas: all
INSERT INTO ledger_ends (kafka_topic, kafka_partition, last)
SELECT kafka_topic, kafka_partition, max(last) AS last
FROM ingest_ledger
WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32}
GROUP BY kafka_topic, kafka_partition
