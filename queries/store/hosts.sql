-- name: store/hosts
-- The servers of a cluster that answer.
-- params: cluster String
-- returns: host (with its port) of each
-- cost: a question to each server
-- example: {"cluster": "default"}
-- replicas: all
SELECT DISTINCT concat(hostName(), ':', toString(tcpPort())) AS host
FROM clusterAllReplicas({cluster:String}, system.clusters)
