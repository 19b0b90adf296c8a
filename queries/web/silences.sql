-- name: web/silences
-- Silences, and how many findings each keeps silent now.
-- params: states Array(String), limit UInt64
-- returns: every column of silences, and found; the active ones first, and of those that which ends first, then the one that
--    was over last
-- cost: all silences and all findings
-- example: {"states": ["active"], "limit": 100}
SELECT
    s.id AS id, s.rule AS rule, s.task AS task, s.namespace AS namespace, s.business_key AS business_key, s.worker AS worker,
    s.severity AS severity, s.begun AS begun, s.until AS until, s.by AS by, s.note AS note, s.request AS request,
    s.ended_at AS ended_at, s.ended_by AS ended_by, s.ended_note AS ended_note,
    multiIf(s.ended_at > toDateTime64(0, 6, 'UTC'), 'ended', s.until <= now64(6), 'expired', 'active') AS state,
    c.found AS found
FROM silences AS s
LEFT JOIN
(
    SELECT arrayJoin(silences) AS id, count() AS found
    FROM findings_now
    WHERE notEmpty(silences)
    GROUP BY id
) AS c ON c.id = s.id
WHERE empty({states:Array(String)}) OR has({states:Array(String)}, state)
ORDER BY state = 'active' DESC, if(state = 'active', toUnixTimestamp64Micro(s.until), -toUnixTimestamp64Micro(if(state = 'ended', s.ended_at, s.until))), id
LIMIT {limit:UInt64}
