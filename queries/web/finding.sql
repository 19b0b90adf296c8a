-- name: web/finding
-- One finding.
-- params: id String
-- returns: every column of findings_now; no row where there is no such finding
-- cost: one key look-up, the log of that finding, and all silences
-- example: {"id": "0123456789abcdef01234567"}
SELECT * FROM findings_now WHERE id = {id:String}
