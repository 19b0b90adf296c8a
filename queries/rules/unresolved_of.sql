-- name: rules/unresolved_of
-- The findings of a rule that are not resolved.
-- params: rule String
-- returns: all columns of the view findings, in order of id
-- cost: the table of findings
-- example: {"rule": "repeated_effect"}
SELECT *
FROM findings
WHERE rule = {rule:String} AND state != 'resolved'
ORDER BY id
