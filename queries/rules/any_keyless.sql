-- name: rules/any_keyless
-- Whether any event of a task came without a business key.
-- params: none
-- returns: one number, 0 when none did
-- cost: one row a namespace
SELECT count()
FROM keyless
