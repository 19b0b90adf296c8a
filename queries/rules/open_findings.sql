-- name: rules/open_findings
-- The findings that are not resolved, as far as the configuration of the rules is held against them.
-- params: none
-- returns: one row a finding, in order of id
-- cost: all findings, seven columns
SELECT id, rule, state, namespace, task, business_key, JSONExtractString(fields, 'effect') AS effect
FROM findings
WHERE state != 'resolved'
ORDER BY id
