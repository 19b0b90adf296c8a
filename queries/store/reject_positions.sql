-- name: store/reject_positions
-- Where the rejects are that a filter chooses and that still have their bytes; an empty param, and partition -1, choose all.
-- params: topic String, partition Int32, reasons Array(String), states Array(String), since DateTime64(6, 'UTC'),
--    until DateTime64(6, 'UTC'), limit UInt64
-- returns: their positions and Kafka timestamps, the oldest first
-- cost: all rejects but for their bytes, and the log of replays
-- example: {"topic": "", "partition": -1, "reasons": [], "states": ["open"], "since": "1970-01-01 00:00:00",
--    "until": "2200-01-01 00:00:00", "limit": 1000}
SELECT
    r.kafka_topic AS topic, r.kafka_partition AS partition, r.kafka_offset AS offset, r.kafka_index AS index, r.kafka_time AS time
FROM
(
    SELECT kafka_topic, kafka_partition, kafka_offset, kafka_index, kafka_time
    FROM rejects FINAL
    WHERE NOT purged
        AND ({topic:String} = '' OR kafka_topic = {topic:String})
        AND ({partition:Int32} < 0 OR kafka_partition = {partition:Int32})
        AND (empty({reasons:Array(String)}) OR has({reasons:Array(String)}, reason))
        AND kafka_time >= {since:DateTime64(6, 'UTC')} AND kafka_time < {until:DateTime64(6, 'UTC')}
) AS r
LEFT JOIN reject_states AS s ON s.kafka_topic = r.kafka_topic AND s.kafka_partition = r.kafka_partition
    AND s.kafka_offset = r.kafka_offset AND s.kafka_index = r.kafka_index
WHERE empty({states:Array(String)}) OR has({states:Array(String)}, if(s.state = '', 'open', s.state))
ORDER BY time, topic, partition, offset, index
LIMIT {limit:UInt64}
