-- name: store/record_migration
-- Records that a migration was applied.
-- params: name String, checksum String
-- returns: nothing
-- cost: one row
-- example: {"name": "0000_example", "checksum": "00"}
INSERT INTO schema_migrations (name, checksum)
SELECT {name:String}, {checksum:String}
