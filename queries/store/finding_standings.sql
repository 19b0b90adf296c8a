-- name: store/finding_standings
-- How findings stand, and the last entry of the log of each.
-- params: ids Array(String)
-- returns: one row a finding that was ever logged, in no order
-- cost: one key look-up an id
-- example: {"ids": ["0123456789abcdef01234567"]}
SELECT
    s.finding_id AS finding_id, s.state AS state, s.assignee AS assignee, s.through AS through, s.changed_at AS changed_at,
    l.from_state AS from_state, l.to_state AS to_state, l.by AS by, l.note AS note, l.action AS action
FROM finding_states AS s
LEFT JOIN
(
    SELECT finding_id, from_state, to_state, by, note, action
    FROM finding_log
    WHERE finding_id IN {ids:Array(String)}
    ORDER BY time DESC, action
    LIMIT 1 BY finding_id
) AS l ON l.finding_id = s.finding_id
WHERE s.finding_id IN {ids:Array(String)}
