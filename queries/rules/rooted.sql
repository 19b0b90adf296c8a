-- name: rules/rooted
-- The findings that tell what they come from, by when that happened.
-- params: from DateTime64(6, 'UTC'), until DateTime64(6, 'UTC'), updated DateTime64(6, 'UTC')
-- returns: all columns of the view findings, of those that changed since then, in order of id, a bounded number of them: without
--    explanation and evidence, and of their own fields root and incident
-- cost: the table of findings
-- example: {"from": "2026-11-02 00:00:00", "until": "2026-11-03 00:00:00", "updated": "2026-11-01 00:00:00"}
SELECT * REPLACE
(
    '' AS explanation,
    '[]' AS evidence,
    concat('{"root":', JSONExtractRaw(fields, 'root'), if(JSONHas(fields, 'incident'), concat(',"incident":', JSONExtractRaw(fields, 'incident')), ''), '}') AS fields
)
FROM findings
WHERE rule IN ('repeated_effect', 'concurrent_runs', 'stuck_pending') AND updated_at >= {updated:DateTime64(6, 'UTC')} AND JSONHas(findings.fields, 'root')
    AND parseDateTime64BestEffortOrZero(JSONExtractString(findings.fields, 'root', 'at'), 6, 'UTC')
        BETWEEN {from:DateTime64(6, 'UTC')} AND {until:DateTime64(6, 'UTC')}
ORDER BY id
LIMIT 100000
