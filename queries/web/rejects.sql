-- name: web/rejects
-- One page of the rejects that a filter chooses; an empty param, and partition -1, choose all.
-- params: topic String, partition Int32, reasons Array(String), states Array(String), since DateTime64(6, 'UTC'),
--    until DateTime64(6, 'UTC'), first Bool, before_time DateTime64(6, 'UTC'), before_topic String, before_partition Int32,
--    before_offset Int64, before_index Int32, raw_limit UInt64, limit UInt64
-- returns: one row a reject, its bytes cut to so many; the newest first
-- cost: all rejects but for their bytes, the log of replays, and the bytes of those returned
-- example: {"topic": "", "partition": -1, "reasons": [], "states": ["open"], "since": "1970-01-01 00:00:00",
--    "until": "2200-01-01 00:00:00", "first": true, "before_time": "1970-01-01 00:00:00", "before_topic": "",
--    "before_partition": 0, "before_offset": 0, "before_index": 0, "raw_limit": 4096, "limit": 50}
WITH chosen AS
(
    SELECT
        r.kafka_topic AS topic, r.kafka_partition AS partition, r.kafka_offset AS offset, r.kafka_index AS index,
        multiIf(r.purged, 'purged', s.state = '', 'open', s.state) AS state
    FROM
    (
        SELECT kafka_topic, kafka_partition, kafka_offset, kafka_index, kafka_time, purged
        FROM rejects FINAL
        WHERE ({topic:String} = '' OR kafka_topic = {topic:String})
            AND ({partition:Int32} < 0 OR kafka_partition = {partition:Int32})
            AND (empty({reasons:Array(String)}) OR has({reasons:Array(String)}, reason))
            AND kafka_time >= {since:DateTime64(6, 'UTC')} AND kafka_time < {until:DateTime64(6, 'UTC')}
            AND ({first:Bool} OR (kafka_time, kafka_topic, kafka_partition, kafka_offset, kafka_index)
                < ({before_time:DateTime64(6, 'UTC')}, {before_topic:String}, {before_partition:Int32}, {before_offset:Int64}, {before_index:Int32}))
    ) AS r
    LEFT JOIN reject_states AS s ON s.kafka_topic = r.kafka_topic AND s.kafka_partition = r.kafka_partition
        AND s.kafka_offset = r.kafka_offset AND s.kafka_index = r.kafka_index
    WHERE empty({states:Array(String)}) OR has({states:Array(String)}, state)
    ORDER BY r.kafka_time DESC, topic DESC, partition DESC, offset DESC, index DESC
    LIMIT {limit:UInt64}
)
SELECT
    b.kafka_topic AS topic, b.kafka_partition AS partition, b.kafka_offset AS offset, b.kafka_index AS index, b.kafka_time AS time,
    b.reason AS reason, b.detail AS detail, c.state AS state, substring(b.key, 1, {raw_limit:UInt64}) AS head,
    substring(b.raw, 1, {raw_limit:UInt64}) AS bytes, length(b.raw) AS size
FROM
(
    SELECT kafka_topic, kafka_partition, kafka_offset, kafka_index, kafka_time, reason, detail, key, raw
    FROM rejects FINAL
    WHERE (kafka_topic, kafka_partition, kafka_offset, kafka_index) IN (SELECT topic, partition, offset, index FROM chosen)
) AS b
INNER JOIN chosen AS c ON c.topic = b.kafka_topic AND c.partition = b.kafka_partition AND c.offset = b.kafka_offset AND c.index = b.kafka_index
ORDER BY time DESC, topic DESC, partition DESC, offset DESC, index DESC
