-- name: web/finding_counts
-- How many findings there are of each kind.
-- params: none
-- returns: one row a rule, severity and state, those that are silenced apart, in no order
-- cost: all findings
SELECT rule, severity, state, notEmpty(silences) AS silenced, count() AS found, min(first_seen) AS oldest
FROM findings_now
GROUP BY rule, severity, state, silenced
