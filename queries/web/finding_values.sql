-- name: web/finding_values
-- What a list of findings can be filtered by.
-- params: none
-- returns: one row of sorted lists, of at most 500 values each
-- cost: all findings, five columns, and their log
SELECT
    arraySort(groupUniqArray(500)(toString(rule))) AS rules,
    arraySort(groupUniqArrayIf(500)(toString(cause), cause != '')) AS causes,
    arraySort(groupUniqArray(500)(toString(namespace))) AS namespaces,
    arraySort(groupUniqArrayIf(500)(toString(task), task != '')) AS tasks,
    arraySort(groupUniqArrayIf(500)(assignee, assignee != '')) AS assignees
FROM findings
