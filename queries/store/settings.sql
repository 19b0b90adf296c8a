-- name: store/settings
-- What settings hold for this request.
-- params: names Array(String)
-- returns: name, value of each that the server knows
-- cost: none
-- example: {"names": ["async_insert"]}
SELECT name, value
FROM system.settings
WHERE name IN {names:Array(String)}
