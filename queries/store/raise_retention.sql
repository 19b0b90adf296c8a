-- name: store/raise_retention
-- Notes that the rows of a table, here under that name, are kept for longer from now on, if it has any.
-- params: table String, here String, days UInt32
-- returns: nothing
-- cost: none
-- example: {"table": "rejects", "here": "rejects", "days": 30}
INSERT INTO retention_raised (table_name, days_before)
SELECT {table:String}, {days:UInt32}
FROM system.tables
WHERE database = currentDatabase() AND name = {here:String} AND total_rows > 0
