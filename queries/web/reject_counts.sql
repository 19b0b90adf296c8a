-- name: web/reject_counts
-- How many rejects a filter chooses, why they are rejects, and what became of them; an empty param, and partition -1, choose all.
-- params: topic String, partition Int32, reasons Array(String), states Array(String), since DateTime64(6, 'UTC'),
--    until DateTime64(6, 'UTC')
-- returns: one row a topic, reason and state, the most frequent first
-- cost: all rejects but for their bytes, and the log of replays
-- example: {"topic": "", "partition": -1, "reasons": [], "states": ["open"], "since": "1970-01-01 00:00:00",
--    "until": "2200-01-01 00:00:00"}
SELECT
    r.kafka_topic AS topic, r.reason AS reason, multiIf(r.purged, 'purged', s.state = '', 'open', s.state) AS state,
    count() AS found, sum(r.size) AS bytes, min(r.kafka_time) AS oldest, max(r.kafka_time) AS newest
FROM
(
    SELECT kafka_topic, kafka_partition, kafka_offset, kafka_index, kafka_time, reason, purged, length(raw) AS size
    FROM rejects FINAL
    WHERE ({topic:String} = '' OR kafka_topic = {topic:String})
        AND ({partition:Int32} < 0 OR kafka_partition = {partition:Int32})
        AND (empty({reasons:Array(String)}) OR has({reasons:Array(String)}, reason))
        AND kafka_time >= {since:DateTime64(6, 'UTC')} AND kafka_time < {until:DateTime64(6, 'UTC')}
) AS r
LEFT JOIN reject_states AS s ON s.kafka_topic = r.kafka_topic AND s.kafka_partition = r.kafka_partition
    AND s.kafka_offset = r.kafka_offset AND s.kafka_index = r.kafka_index
WHERE empty({states:Array(String)}) OR has({states:Array(String)}, state)
GROUP BY topic, reason, state
ORDER BY found DESC, topic, reason, state
