-- name: web/rejects
-- Records that could not be read as events.
-- params: reason String, first Bool, before_time DateTime64(6, 'UTC'), before_topic String, before_partition Int32,
--    before_offset Int64, before_index Int32, raw_limit UInt64, limit UInt64
-- returns: one row a reject, its bytes cut to so many; the newest first
-- cost: all rejects but for their bytes, and the bytes of those returned
-- example: {"reason": "", "first": true, "before_time": "1970-01-01 00:00:00", "before_topic": "", "before_partition": 0,
--    "before_offset": 0, "before_index": 0, "raw_limit": 4096, "limit": 50}
SELECT
    kafka_topic, kafka_partition, kafka_offset, kafka_index, kafka_time, reason, detail,
    substring(key, 1, {raw_limit:UInt64}) AS head, substring(raw, 1, {raw_limit:UInt64}) AS bytes, length(raw) AS size
FROM rejects FINAL
WHERE ({reason:String} = '' OR reason = {reason:String})
    AND ({first:Bool} OR (kafka_time, kafka_topic, kafka_partition, kafka_offset, kafka_index)
        < ({before_time:DateTime64(6, 'UTC')}, {before_topic:String}, {before_partition:Int32}, {before_offset:Int64}, {before_index:Int32}))
ORDER BY kafka_time DESC, kafka_topic DESC, kafka_partition DESC, kafka_offset DESC, kafka_index DESC
LIMIT {limit:UInt64}
