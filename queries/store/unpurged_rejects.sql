-- name: store/unpurged_rejects
-- How many rejects a purge chooses that still have their bytes, in whatever copy. Chosen as store/purge_rejects does.
-- params: positions Array(String), topic String, partition Int32, reasons Array(String), since_ms Int64,
--    until_ms Int64, ends Map(String, Int64)
-- returns: one number
-- cost: all rejects but for their bytes
-- example: {"positions": ["task-events:0:41:0"], "topic": "", "partition": -1, "reasons": [], "since_ms": 0,
--    "until_ms": 7258118400000, "ends": {"task-events:0": 100}}
-- replicas: all
SELECT uniqExact(kafka_topic, kafka_partition, kafka_offset, kafka_index)
FROM rejects
WHERE NOT purged AND if(notEmpty({positions:Array(String)}),
    has({positions:Array(String)}, concat(kafka_topic, ':', toString(kafka_partition), ':', toString(kafka_offset), ':', toString(kafka_index))),
    ({topic:String} = '' OR kafka_topic = {topic:String})
        AND ({partition:Int32} < 0 OR kafka_partition = {partition:Int32})
        AND (empty({reasons:Array(String)}) OR has({reasons:Array(String)}, reason))
        AND toUnixTimestamp64Milli(kafka_time) >= {since_ms:Int64} AND toUnixTimestamp64Milli(kafka_time) < {until_ms:Int64}
        AND mapContains({ends:Map(String, Int64)}, concat(kafka_topic, ':', toString(kafka_partition)))
        AND kafka_offset <= {ends:Map(String, Int64)}[concat(kafka_topic, ':', toString(kafka_partition))])
