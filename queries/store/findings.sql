-- name: store/findings
-- Findings by their ids.
-- params: ids Array(String)
-- returns: one row a finding, in no order
-- cost: one key look-up an id, and the log of those findings
-- example: {"ids": ["0123456789abcdef01234567"]}
SELECT *
FROM findings
WHERE id IN {ids:Array(String)}
