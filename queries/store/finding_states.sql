-- name: store/finding_states
-- What the log says of the states of findings.
-- params: ids Array(String)
-- returns: finding_id, state, changed_at of each that was ever logged, in no order
-- cost: one key look-up an id
-- example: {"ids": ["0123456789abcdef01234567"]}
SELECT finding_id, state, changed_at
FROM finding_states
WHERE finding_id IN {ids:Array(String)}
