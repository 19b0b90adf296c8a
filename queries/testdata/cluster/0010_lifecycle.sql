-- What people do to findings, and what keeps findings silent.

-- What was done, whom the finding was assigned to by it, the id that the caller gave to the request, and the incident with
-- which it was done. An entry that leaves the state as it was carries it twice. Older entries tell no action.
ALTER TABLE auditor.finding_log_local ON CLUSTER 'main'
    ADD COLUMN IF NOT EXISTS action LowCardinality(String),
    ADD COLUMN IF NOT EXISTS assignee String,
    ADD COLUMN IF NOT EXISTS request String,
    ADD COLUMN IF NOT EXISTS through String;

-- What people do to findings, and what keeps findings silent.

-- What was done, whom the finding was assigned to by it, the id that the caller gave to the request, and the incident with
-- which it was done. An entry that leaves the state as it was carries it twice. Older entries tell no action.
ALTER TABLE auditor.finding_log ON CLUSTER 'main'
    ADD COLUMN IF NOT EXISTS action LowCardinality(String),
    ADD COLUMN IF NOT EXISTS assignee String,
    ADD COLUMN IF NOT EXISTS request String,
    ADD COLUMN IF NOT EXISTS through String;

-- A request that comes twice at once is written once.
ALTER TABLE auditor.finding_log_local ON CLUSTER 'main' MODIFY SETTING replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 604800;

-- How each finding stands: its state is that of the last entry which changed it, save that an acknowledgement counts for an
-- open finding only. So one that crosses a resolution, neither knowing of the other, does not bring the finding back.
CREATE OR REPLACE VIEW auditor.finding_states ON CLUSTER 'main' AS
SELECT
    finding_id,
    argMaxIf(to_state, (time, to_state), from_state != to_state AND to_state != 'acknowledged') AS decided,
    maxIf(time, from_state != to_state AND to_state != 'acknowledged') AS decided_at,
    maxIf(time, from_state != to_state AND to_state = 'acknowledged') AS acknowledged_at,
    if(decided IN ('', 'open') AND acknowledged_at > decided_at, 'acknowledged', if(decided = '', 'open', decided)) AS state,
    max(time) AS changed_at,
    argMaxIf(assignee, (time, assignee), action = 'assign') AS assignee,
    argMaxIf(through, time, from_state != to_state) AS through
FROM auditor.finding_log
GROUP BY finding_id;

-- Each finding once, as it is now. The views are replaced in one step: whoever comes too late to a migration, and ends half-way,
-- must not leave the database without them.
CREATE OR REPLACE VIEW auditor.findings ON CLUSTER 'main' AS
SELECT
    v.id AS id,
    v.rule AS rule,
    v.severity AS severity,
    if(s.state = '', 'open', s.state) AS state,
    v.namespace AS namespace,
    v.task AS task,
    v.business_key AS business_key,
    v.task_ids AS task_ids,
    v.cause AS cause,
    v.effects AS effects,
    v.first_seen AS first_seen,
    v.last_seen AS last_seen,
    v.title AS title,
    v.explanation AS explanation,
    v.remedy AS remedy,
    v.fields AS fields,
    v.evidence AS evidence,
    greatest(v.updated_at, s.changed_at) AS updated_at,
    v.version AS version,
    s.assignee AS assignee
FROM auditor.finding_versions AS v FINAL
LEFT JOIN auditor.finding_states AS s ON s.finding_id = v.id;

-- What became of silences: each is made, and may be ended before its time. rule to severity are patterns, in which * stands
-- for any text, and tell nothing where the silence is ended.
CREATE TABLE IF NOT EXISTS auditor.silence_log_local ON CLUSTER 'main'
(
    silence_id   String,
    time         DateTime64(6, 'UTC'),
    action       LowCardinality(String), -- add, end
    rule         String,
    task         String,
    namespace    String,
    business_key String,
    worker       String,
    severity     String,
    until        DateTime64(6, 'UTC'),
    by           String,
    note         String,
    request      String
)
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/{table}', '{replica}')
ORDER BY (silence_id, action, time, by, note);

CREATE TABLE IF NOT EXISTS auditor.silence_log ON CLUSTER 'main' AS auditor.silence_log_local
ENGINE = Distributed('main', 'auditor', 'silence_log_local', 0);

-- Each silence once. What was done first counts, so that a request which comes again changes nothing.
CREATE VIEW IF NOT EXISTS auditor.silences ON CLUSTER 'main' AS
SELECT
    silence_id AS id,
    made.1 AS rule,
    made.2 AS task,
    made.3 AS namespace,
    made.4 AS business_key,
    made.5 AS worker,
    made.6 AS severity,
    begun,
    made.7 AS until,
    made.8 AS by,
    made.9 AS note,
    made.10 AS request,
    ended_at,
    ending.1 AS ended_by,
    ending.2 AS ended_note
FROM
(
    SELECT
        silence_id,
        argMinIf((rule, task, namespace, business_key, worker, severity, until, by, note, request), (time, by, note), action = 'add') AS made,
        argMinIf((by, note), (time, by, note), action = 'end') AS ending,
        minIf(time, action = 'add') AS begun,
        minIf(time, action = 'end') AS ended_at,
        countIf(action = 'add') AS times
    FROM auditor.silence_log
    GROUP BY silence_id
)
WHERE times > 0;

-- Each finding as people see it: with the active silences that fit it, the one that ends last first, where it is not resolved.
CREATE VIEW IF NOT EXISTS auditor.findings_now ON CLUSTER 'main' AS
WITH
    p -> replaceAll(replaceAll(replaceAll(replaceAll(p, '\\', '\\\\'), '%', '\\%'), '_', '\\_'), '*', '%') AS pattern,
    (
        SELECT arrayReverseSort(s -> (s.2, s.1), groupArray((
            id, until, pattern(rule), pattern(task), pattern(namespace), pattern(business_key), pattern(worker), pattern(severity))))
        FROM auditor.silences
        WHERE until > now64(6) AND ended_at = toDateTime64(0, 6, 'UTC')
    ) AS active,
    if(business_key = '' AND length(task_ids) = 1, task_ids[1], business_key) AS key,
    if(arrayExists(s -> s.7 != '%', active), JSONExtract(evidence, 'Array(Tuple(worker String))'), []) AS shown,
    arrayFilter(s -> state != 'resolved' AND (s.3 = '%' OR rule LIKE s.3) AND (s.4 = '%' OR task LIKE s.4)
        AND (s.5 = '%' OR namespace LIKE s.5) AND (s.6 = '%' OR key LIKE s.6) AND (s.8 = '%' OR severity LIKE s.8)
        AND (s.7 = '%' OR arrayExists(e -> e.1 LIKE s.7, shown)), active) AS fitting
SELECT
    *,
    arrayMap(s -> s.1, fitting) AS silences,
    arrayElement(fitting, 1).2 AS silenced_until
FROM auditor.findings;
