-- name: web/finding_counts
-- How many findings there are of each kind.
-- params: none
-- returns: one row a rule, severity and state, in no order; apart are those that are silenced, and those that are folded: that belong
--    to an incident which is in the same state, and silenced or not as they are
-- cost: all findings, and the incidents once more
SELECT rule, severity, state, notEmpty(silences) AS silenced,
    (JSONExtractString(fields, 'incident'), toString(state), silenced)
        IN (SELECT id, toString(state), notEmpty(silences) FROM findings_now WHERE rule = 'incident') AS folded,
    count() AS found, min(first_seen) AS oldest
FROM findings_now
GROUP BY rule, severity, state, silenced, folded
