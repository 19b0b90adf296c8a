-- name: store/finding_requests
-- What a request did to a finding.
-- params: id String, request String
-- returns: one row an entry of the log that carries the request's id; it is one, or none
-- cost: one key look-up
-- example: {"id": "0123456789abcdef01234567", "request": "7c9e"}
SELECT action, assignee, by, note
FROM finding_log
WHERE finding_id = {id:String} AND request = {request:String}
ORDER BY time
LIMIT 1
