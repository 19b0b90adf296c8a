-- name: store/every_shard
-- Whether some replica of each shard answers; an error when not.
-- params: cluster String
-- returns: a number that says nothing
-- cost: a question to each shard
-- example: {"cluster": "default"}
SELECT count()
FROM cluster({cluster:String}, system.clusters)
