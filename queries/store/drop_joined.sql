-- name: store/drop_joined
-- Deletes the rows of a partition's ledger that lie within longer ones, in whose place those are now.
-- params: table Identifier, topic String, partition Int32, firsts Array(Int64), lasts Array(Int64)
-- returns: nothing, once they are gone
-- cost: the parts of the ledger that hold one of them are written anew
-- example: {"table": "ingest_ledger", "topic": "task-events", "partition": 0, "firsts": [0], "lasts": [999]}
ALTER TABLE {table:Identifier} DELETE
WHERE kafka_topic = {topic:String} AND kafka_partition = {partition:Int32} AND lost = 0
    AND arrayExists((f, l) -> first >= f AND last <= l AND NOT (first = f AND last = l), {firsts:Array(Int64)}, {lasts:Array(Int64)})
SETTINGS mutations_sync = 2
