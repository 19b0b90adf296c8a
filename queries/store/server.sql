-- name: store/server
-- Which server answers, and as whom.
-- params: none
-- returns: version, host, who of one row
-- cost: none
SELECT version() AS version, hostName() AS host, currentUser() AS who
