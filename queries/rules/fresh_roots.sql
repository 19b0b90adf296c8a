-- name: rules/fresh_roots
-- When that happened which the findings come from that changed since a time.
-- params: since DateTime64(6, 'UTC')
-- returns: one row; changed is 0 when there are none
-- cost: when each finding, and each entry of the log, was written; and the fields of those written since then
-- example: {"since": "2026-11-01 00:00:00"}
SELECT assumeNotNull(min(at)) AS first, assumeNotNull(max(at)) AS last, uniqExact(id) AS changed
FROM
(
    SELECT id, parseDateTime64BestEffortOrNull(JSONExtractString(fields, 'root', 'at'), 6, 'UTC') AS at
    FROM finding_versions
    WHERE (updated_at >= {since:DateTime64(6, 'UTC')} OR id IN (SELECT finding_id FROM finding_log WHERE time >= {since:DateTime64(6, 'UTC')}))
        AND rule IN ('repeated_effect', 'concurrent_runs', 'stuck_pending') AND JSONHas(fields, 'root')
)
