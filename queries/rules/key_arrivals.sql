-- name: rules/key_arrivals
-- The keys of a range of hashes that have events, and when these arrived, in slices of time.
-- params: first UInt64, last UInt64, since DateTime64(6, 'UTC'), slice UInt32
-- returns: one row a slice of so many seconds with the hashes of its keys, in no order
-- cost: the range, of two columns
-- example: {"first": 0, "last": 18446744073709551614, "since": "2026-11-01 00:00:00", "slice": 10800}
SELECT min(kafka_time) AS first_arrival, max(kafka_time) AS last_arrival, groupUniqArray(key_hash) AS hashes
FROM events
WHERE key_hash >= {first:UInt64} AND key_hash <= {last:UInt64} AND kafka_time >= {since:DateTime64(6, 'UTC')}
GROUP BY intDiv(toUnixTimestamp64Milli(kafka_time), 1000 * {slice:UInt32})
