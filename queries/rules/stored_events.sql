-- name: rules/stored_events
-- How many events are stored, about: copies that are still to be merged away count.
-- params: none
-- returns: one number
-- cost: none, the parts know
SELECT count()
FROM events
