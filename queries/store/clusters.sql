-- name: store/clusters
-- The clusters that the server knows.
-- params: none
-- returns: cluster, shards, replicas (of all shards) of each, by name
-- cost: none
SELECT cluster, uniqExact(shard_num) AS shards, count() AS replicas
FROM system.clusters
GROUP BY cluster
ORDER BY cluster
