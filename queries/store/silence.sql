-- name: store/silence
-- One silence.
-- params: id String
-- returns: every column of silences; no row where there is no such silence
-- cost: one key look-up
-- example: {"id": "0123456789abcdef01234567"}
SELECT * FROM silences WHERE id = {id:String}
