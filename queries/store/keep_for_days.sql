-- name: store/keep_for_days
-- Makes a table delete rows that are older by their Kafka timestamp. Parts that exist follow as they are merged.
-- params: table Identifier, days UInt32
-- returns: nothing
-- cost: none
-- example: {"table": "rejects", "days": 30}
ALTER TABLE {table:Identifier} MODIFY TTL toDateTime(kafka_time) + toIntervalDay({days:UInt32})
SETTINGS materialize_ttl_after_modify = 0
