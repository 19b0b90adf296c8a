-- name: web/ledger
-- What the ledger proves of each partition: which offsets are covered, which are missing between them or were deleted by
-- Kafka before they were read, and how far the rules have read.
-- params: from DateTime64(6, 'UTC')
-- returns: one row a partition that was written to since from, in order
-- cost: one row a batch since from, and the timestamp and offset of every batch before
-- example: {"from": "2026-11-02 00:00:00"}
SELECT
    l.topic AS topic, l.partition AS partition, l.first_offset AS first_offset, l.last_offset AS last_offset,
    l.batches AS batches, l.records AS records, l.events AS events, l.rejects AS rejects, l.missing AS missing,
    l.newest AS newest, c.next_offset AS judged
FROM
(
    SELECT
        kafka_topic AS topic, kafka_partition AS partition, min(first) AS first_offset, max(last) AS last_offset,
        count() AS batches, sum(records) AS records, sum(events) AS events, sum(rejects) AS rejects,
        sum(if(place = 1, 0, greatest(first - before - 1, 0)) + lost) AS missing, max(kafka_time) AS newest
    FROM
    (
        SELECT
            l.*,
            row_number() OVER (PARTITION BY kafka_topic, kafka_partition ORDER BY first, last) AS place,
            max(last) OVER (PARTITION BY kafka_topic, kafka_partition ORDER BY first, last ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
        FROM (SELECT * FROM ingest_ledger FINAL) AS l
        INNER JOIN
        (
            SELECT kafka_topic, kafka_partition, min(first) AS start
            FROM ingest_ledger
            WHERE kafka_time >= {from:DateTime64(6, 'UTC')}
            GROUP BY kafka_topic, kafka_partition
        ) AS s ON s.kafka_topic = l.kafka_topic AND s.kafka_partition = l.kafka_partition
        WHERE l.first >= s.start -- by offset, for a batch that holds no record has no timestamp
    )
    GROUP BY topic, partition
) AS l
LEFT JOIN (SELECT * FROM rule_cursors FINAL WHERE name = 'rules') AS c ON c.kafka_topic = l.topic AND c.kafka_partition = l.partition
ORDER BY topic, partition
