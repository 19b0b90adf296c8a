-- name: store/create_database
-- Makes the database when it is missing.
-- params: database Identifier
-- returns: nothing
-- cost: none
-- example: {"database": "auditor"}
CREATE DATABASE IF NOT EXISTS {database:Identifier}
