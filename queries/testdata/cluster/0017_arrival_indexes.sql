-- At every second look the rules ask which retries and which failures are new. The tables are sorted by when these happened, which
-- nearly always is shortly before they arrived: so few granules hold what arrived since a time.

ALTER TABLE auditor.attempts_local ON CLUSTER 'main' ADD INDEX IF NOT EXISTS arrived kafka_time TYPE minmax GRANULARITY 1;

ALTER TABLE auditor.failures_local ON CLUSTER 'main' ADD INDEX IF NOT EXISTS arrived kafka_time TYPE minmax GRANULARITY 1;
