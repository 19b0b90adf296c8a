-- name: store/tables_everywhere
-- The tables and views of a database, on each server of a cluster.
-- params: cluster String, database String
-- returns: host, name of each, of the servers that answer
-- cost: a question to each server
-- example: {"cluster": "default", "database": "auditor"}
-- replicas: all
SELECT concat(hostName(), ':', toString(tcpPort())) AS host, name
FROM clusterAllReplicas({cluster:String}, system.tables)
WHERE database = {database:String}
