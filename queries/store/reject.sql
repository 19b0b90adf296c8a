-- name: store/reject
-- A reject whole.
-- params: topic String, partition Int32, offset Int64, index Int32
-- returns: one row; with an index below -1, one for each rejected element of the record, in order
-- cost: one key look-up
-- example: {"topic": "task-events", "partition": 0, "offset": 41, "index": -2}
SELECT kafka_index, kafka_time, reason, detail, key, header_names, header_values, raw, purged
FROM rejects FINAL
WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32} AND kafka_offset = {offset:Int64}
    AND ({index:Int32} < -1 OR kafka_index = {index:Int32})
ORDER BY kafka_index
