-- name: web/finding_counts
-- How many findings there are of each kind.
-- params: none
-- returns: one row a rule, severity and state, in no order
-- cost: all findings
SELECT rule, severity, state, count() AS found, min(first_seen) AS oldest
FROM findings
GROUP BY rule, severity, state
