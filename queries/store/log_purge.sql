-- name: store/log_purge
-- Writes down, for each reject that is about to be purged, who asked for that. Chosen as store/purge_rejects does.
-- params: positions Array(String), topic String, partition Int32, reasons Array(String), since_ms Int64,
--    until_ms Int64, ends Map(String, Int64), at DateTime64(6, 'UTC'), attempt String, by String, note String
-- returns: nothing
-- cost: all rejects but for their bytes
-- example: {"positions": ["task-events:0:41:0"], "topic": "", "partition": -1, "reasons": [], "since_ms": 0,
--    "until_ms": 7258118400000, "ends": {"task-events:0": 100}, "at": "2026-11-02 00:00:00", "attempt": "a", "by": "ada", "note": ""}
INSERT INTO reject_log (kafka_topic, kafka_partition, kafka_offset, kafka_index, kafka_time, time, action, attempt, by, note)
SELECT
    kafka_topic, kafka_partition, kafka_offset, kafka_index, kafka_time,
    {at:DateTime64(6, 'UTC')}, 'purge', {attempt:String}, {by:String}, {note:String}
FROM rejects FINAL
WHERE NOT purged AND if(notEmpty({positions:Array(String)}),
    has({positions:Array(String)}, concat(kafka_topic, ':', toString(kafka_partition), ':', toString(kafka_offset), ':', toString(kafka_index))),
    ({topic:String} = '' OR kafka_topic = {topic:String})
        AND ({partition:Int32} < 0 OR kafka_partition = {partition:Int32})
        AND (empty({reasons:Array(String)}) OR has({reasons:Array(String)}, reason))
        AND toUnixTimestamp64Milli(kafka_time) >= {since_ms:Int64} AND toUnixTimestamp64Milli(kafka_time) < {until_ms:Int64}
        AND mapContains({ends:Map(String, Int64)}, concat(kafka_topic, ':', toString(kafka_partition)))
        AND kafka_offset <= {ends:Map(String, Int64)}[concat(kafka_topic, ':', toString(kafka_partition))])
