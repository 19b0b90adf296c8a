-- name: rules/runs
-- What became of the newest evaluation of each rule that users wrote.
-- params: none
-- returns: one row a rule, in order of name
-- cost: one row a rule
SELECT rule, time, seconds, found, error
FROM rule_runs FINAL
ORDER BY rule
