-- name: store/keep_for_ever
-- Stops a table from deleting its old rows.
-- params: table Identifier
-- returns: nothing
-- cost: none
-- example: {"table": "rejects"}
ALTER TABLE {table:Identifier} REMOVE TTL
