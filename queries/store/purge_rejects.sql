-- name: store/purge_rejects
-- Deletes what rejects hold, and keeps where and when they were and why they are rejects. They are chosen by position or,
-- where no position is given, by a filter, of which an empty param, and partition -1, choose all, up to the last offset
-- that ends tells for their topic:partition.
-- params: table Identifier, positions Array(String), topic String, partition Int32, reasons Array(String), since_ms Int64,
--    until_ms Int64, ends Map(String, Int64)
-- returns: nothing, once every copy is changed
-- cost: the parts that hold one of them are written anew
-- example: {"table": "rejects", "positions": ["task-events:0:41:0"], "topic": "", "partition": -1, "reasons": [], "since_ms": 0,
--    "until_ms": 7258118400000, "ends": {"task-events:0": 100}}
ALTER TABLE {table:Identifier}
UPDATE raw = '', key = '', header_names = [], header_values = [], detail = '', purged = true
WHERE NOT purged AND if(notEmpty({positions:Array(String)}),
    has({positions:Array(String)}, concat(kafka_topic, ':', toString(kafka_partition), ':', toString(kafka_offset), ':', toString(kafka_index))),
    ({topic:String} = '' OR kafka_topic = {topic:String})
        AND ({partition:Int32} < 0 OR kafka_partition = {partition:Int32})
        AND (empty({reasons:Array(String)}) OR has({reasons:Array(String)}, reason))
        AND toUnixTimestamp64Milli(kafka_time) >= {since_ms:Int64} AND toUnixTimestamp64Milli(kafka_time) < {until_ms:Int64}
        AND mapContains({ends:Map(String, Int64)}, concat(kafka_topic, ':', toString(kafka_partition)))
        AND kafka_offset <= {ends:Map(String, Int64)}[concat(kafka_topic, ':', toString(kafka_partition))])
SETTINGS mutations_sync = 2
