-- name: web/extra_effects
-- How many effects beyond the first there were, by when their finding was last seen.
-- params: from DateTime64(6, 'UTC'), slot UInt32
-- returns: one row a slot of so many seconds and task, in order of time
-- cost: all findings
-- example: {"from": "2026-11-02 00:00:00", "slot": 60}
SELECT
    toDateTime(toStartOfInterval(last_seen, toIntervalSecond({slot:UInt32})), 'UTC') AS begun,
    toString(task) AS name,
    sum(effects - 1) AS extra,
    sumIf(effects - 1, severity != 'critical') AS guarded
FROM finding_versions FINAL
WHERE rule = 'repeated_effect' AND effects > 1 AND last_seen >= {from:DateTime64(6, 'UTC')}
GROUP BY begun, name
ORDER BY begun, name
