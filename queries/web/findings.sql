-- name: web/findings
-- One page of the findings that a filter chooses; an empty param chooses all.
-- params: rule String, states Array(String), severity String, cause String, any_namespace Bool, namespace String,
--    task String, business_key String, text String, since DateTime64(6, 'UTC'), assignee String, any_silenced Bool, silenced Bool, silence String,
--    incident String, fold Bool, sort String, first Bool, after_rank Int64, after_id String, limit UInt64
-- returns: every column of findings_now, its rank in the order, how many the filter chooses, and how many of those are left out:
--    with fold, the findings of an incident that is chosen itself; the highest rank first
-- cost: all findings, and the incidents once more
-- example: {"rule": "", "states": ["open"], "severity": "", "cause": "", "any_namespace": true, "namespace": "",
--    "task": "", "business_key": "", "text": "", "since": "1970-01-01 00:00:00",
--    "assignee": "", "any_silenced": false, "silenced": false, "silence": "",
--    "incident": "", "fold": true, "sort": "severity", "first": true,
--    "after_rank": 0, "after_id": "", "limit": 50}
WITH chosen AS
(
    SELECT *, JSONExtractString(fields, 'incident') AS member_of
    FROM findings_now
    WHERE ({rule:String} = '' OR rule = {rule:String})
        AND (empty({states:Array(String)}) OR has({states:Array(String)}, state))
        AND ({severity:String} = '' OR severity = {severity:String})
        AND ({cause:String} = '' OR cause = {cause:String})
        AND ({any_namespace:Bool} OR namespace = {namespace:String})
        AND ({task:String} = '' OR task = {task:String} OR has(task_ids, {task:String}))
        AND ({business_key:String} = '' OR business_key = {business_key:String})
        AND ({text:String} = '' OR positionCaseInsensitiveUTF8(concat(title, '\n', business_key, '\n', cause), {text:String}) > 0)
        AND ({assignee:String} = '' OR assignee = {assignee:String})
        AND ({any_silenced:Bool} OR notEmpty(silences) = {silenced:Bool})
        AND ({silence:String} = '' OR has(silences, {silence:String}))
        AND ({incident:String} = '' OR member_of = {incident:String})
        AND last_seen >= {since:DateTime64(6, 'UTC')}
)
SELECT *
FROM
(
    SELECT
        *,
        -- By severity, an incident stands before what is single, unless it only informs.
        multiIf(
            {sort:String} = 'recent', toUnixTimestamp64Micro(last_seen),
            {sort:String} = 'oldest', -toUnixTimestamp64Micro(first_seen),
            toInt64(if({sort:String} = 'effects', least(effects, 900),
                    indexOf(['info', 'warning', 'critical'], severity) + if(rule = 'incident' AND severity != 'info', 2, 0)))
                * 10000000000000000 + toUnixTimestamp64Micro(last_seen)) AS rank,
        {fold:Bool} AND member_of != '' AND member_of IN (SELECT id FROM chosen WHERE rule = 'incident') AS folded,
        countIf(NOT folded) OVER () AS total,
        countIf(folded) OVER () AS left_out
    FROM chosen
)
WHERE NOT folded AND ({first:Bool} OR (rank, id) < ({after_rank:Int64}, {after_id:String}))
ORDER BY rank DESC, id DESC
LIMIT {limit:UInt64}
