-- name: rules/kept_since
-- When the oldest change of a key reached Kafka, of those that are kept, and the oldest event.
-- params: none
-- returns: one row; 1970-01-01 where there is none
-- cost: what each part says of itself
SELECT (SELECT min(kafka_time) FROM changed_keys) AS changes, (SELECT min(kafka_time) FROM events) AS events
