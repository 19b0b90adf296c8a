-- name: store/incident_members
-- The findings that belong to an incident.
-- params: id String
-- returns: one id a finding, in order
-- cost: the own fields of all findings
-- example: {"id": "0123456789abcdef01234567"}
SELECT id
FROM finding_versions FINAL
WHERE JSONExtractString(fields, 'incident') = {id:String} AND id != {id:String}
ORDER BY id
