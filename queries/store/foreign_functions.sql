-- name: store/foreign_functions
-- Which functions are not ClickHouse's own, but users' or programs that it runs.
-- params: names Array(String)
-- returns: one name a function, in order
-- cost: the table of functions
-- example: {"names": ["min", "toString"]}
SELECT DISTINCT name
FROM system.functions
WHERE lower(name) IN (SELECT lower(arrayJoin({names:Array(String)}))) AND origin != 'System'
ORDER BY name
