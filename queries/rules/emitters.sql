-- name: rules/emitters
-- Who numbered events that reached Kafka from a time on.
-- params: since DateTime64(6, 'UTC')
-- returns: one row an emitter, in order
-- cost: a row for each 128 events that are numbered
-- example: {"since": "2026-11-02 08:00:00"}
SELECT toString(namespace) AS namespace, emitter
FROM emitter_numbers
WHERE kafka_time >= {since:DateTime64(6, 'UTC')}
GROUP BY namespace, emitter
ORDER BY namespace, emitter
