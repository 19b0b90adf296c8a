-- name: store/database_engine
-- What keeps the tables of a database together.
-- params: database String
-- returns: one name of an engine, or no row when there is no such database
-- cost: none
-- example: {"database": "auditor"}
SELECT engine
FROM system.databases
WHERE name = {database:String}
