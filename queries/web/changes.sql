-- name: web/changes
-- The latest changes of findings' states, but for what findings went through as parts of an incident: that is told of the incident.
-- params: limit UInt64
-- returns: one row a change, the newest first
-- cost: the log of findings' states, and the own fields of all findings
-- example: {"limit": 12}
WITH
    latest AS
    (
        SELECT *
        FROM finding_log
        WHERE through = '' AND NOT (by = 'auditor'
            AND finding_id IN (SELECT id FROM finding_versions FINAL WHERE JSONExtractString(fields, 'incident') != ''))
        ORDER BY time DESC
        LIMIT 1 BY finding_id, time, to_state
        LIMIT {limit:UInt64}
    )
SELECT
    l.finding_id AS finding_id, l.time AS time, l.from_state AS from_state, l.to_state AS to_state, l.by AS by, l.note AS note,
    l.action AS action, l.assignee AS assignee, l.request AS request, l.through AS through,
    v.title AS title, v.rule AS rule, v.severity AS severity
FROM latest AS l
LEFT JOIN (SELECT id, title, rule, severity FROM finding_versions FINAL WHERE id IN (SELECT finding_id FROM latest)) AS v
    ON v.id = l.finding_id
ORDER BY time DESC, finding_id
