-- name: web/changes
-- The latest changes of findings' states.
-- params: limit UInt64
-- returns: one row a change, the newest first
-- cost: the log of findings' states, and one key look-up a row returned
-- example: {"limit": 12}
WITH latest AS (SELECT * FROM finding_log ORDER BY time DESC LIMIT 1 BY finding_id, time, to_state LIMIT {limit:UInt64})
SELECT
    l.finding_id AS finding_id, l.time AS time, l.from_state AS from_state, l.to_state AS to_state, l.by AS by, l.note AS note,
    l.action AS action, l.assignee AS assignee, l.request AS request, l.through AS through,
    v.title AS title, v.rule AS rule, v.severity AS severity
FROM latest AS l
LEFT JOIN (SELECT id, title, rule, severity FROM finding_versions FINAL WHERE id IN (SELECT finding_id FROM latest)) AS v
    ON v.id = l.finding_id
ORDER BY time DESC, finding_id
