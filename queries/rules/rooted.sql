-- name: rules/rooted
-- The findings that tell what they come from, by when that happened.
-- params: from DateTime64(6, 'UTC'), until DateTime64(6, 'UTC')
-- returns: all columns of the view findings, of those that were written since the first moment, in order of id, a bounded number of
--    them: without explanation and evidence, and of their own fields root and incident
-- cost: when each finding was written, a key look-up for each that was since then, and the log
-- example: {"from": "2026-11-02 00:00:00", "until": "2026-11-03 00:00:00"}
SELECT * REPLACE
(
    '' AS explanation,
    '[]' AS evidence,
    concat('{"root":', JSONExtractRaw(fields, 'root'), if(JSONHas(fields, 'incident'), concat(',"incident":', JSONExtractRaw(fields, 'incident')), ''), '}') AS fields
)
FROM findings
WHERE id IN (SELECT id FROM finding_versions WHERE updated_at >= {from:DateTime64(6, 'UTC')} AND rule IN ('repeated_effect', 'concurrent_runs', 'stuck_pending'))
    AND JSONHas(findings.fields, 'root')
    AND parseDateTime64BestEffortOrZero(JSONExtractString(findings.fields, 'root', 'at'), 6, 'UTC')
        BETWEEN {from:DateTime64(6, 'UTC')} AND {until:DateTime64(6, 'UTC')}
ORDER BY id
LIMIT 100000
