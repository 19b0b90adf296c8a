-- name: rules/all_findings
-- Every finding.
-- params: none
-- returns: all columns of the view findings, in order of id
-- cost: the table of findings
SELECT * FROM findings ORDER BY id
