-- name: store/macros
-- The macros of a cluster's servers.
-- params: cluster String
-- returns: host, macro, substitution of each macro of each server that answers
-- cost: a question to each server
-- example: {"cluster": "default"}
-- replicas: all
SELECT concat(hostName(), ':', toString(tcpPort())) AS host, macro, substitution
FROM clusterAllReplicas({cluster:String}, system.macros)
