-- name: rules/fresh_errors
-- The types of error of which failures reached Kafka from a time on. Those like the patterns in transient count only where one was
-- declared permanent.
-- params: since DateTime64(6, 'UTC'), transient Array(String)
-- returns: one row a namespace and type, in order
-- cost: the arrival times of the failures of the weeks from then on, and those failures
-- example: {"since": "2026-11-02 08:00:00", "transient": ["%Timeout%"]}
SELECT toString(namespace) AS namespace, toString(error_type) AS error_type
FROM failures
WHERE kafka_time >= {since:DateTime64(6, 'UTC')}
GROUP BY namespace, error_type
HAVING max(permanent) OR NOT arrayExists(pattern -> error_type LIKE pattern, {transient:Array(String)})
ORDER BY namespace, error_type
