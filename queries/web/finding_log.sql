-- name: web/finding_log
-- What became of a finding.
-- params: id String
-- returns: one row an entry of its log, in order of time
-- cost: one key look-up
-- example: {"id": "0123456789abcdef01234567"}
SELECT finding_id, time, from_state, to_state, by, note, action, assignee, request, through
FROM finding_log FINAL
WHERE finding_id = {id:String}
ORDER BY time, action
