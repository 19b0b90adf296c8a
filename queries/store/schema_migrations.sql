-- name: store/schema_migrations
-- Which migrations were applied, in the form in which each was applied last.
-- params: none
-- returns: name, checksum of each, by name
-- cost: a few rows
SELECT name, checksum
FROM schema_migrations FINAL
ORDER BY name
