-- name: store/tables
-- The tables and views of the database, as the server that answers knows them.
-- params: none
-- returns: name, engine, engine_full of each, by name
-- cost: none
SELECT name, engine, engine_full
FROM system.tables
WHERE database = currentDatabase()
ORDER BY name
