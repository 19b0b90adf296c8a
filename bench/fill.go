package main

import (
	"context"
	"fmt"
	"time"
)

// The past that a benchmark of the rules is filled with, made by the engine itself: as many events as are asked for, four a
// task, in four partitions of a topic of their own. Of each partition, a group of tasks is received, then all of them are
// started, and so on. One task in fifty retries. The rows of all derived tables come from the views, as they always do.
const (
	pastTopic      = "past-events"
	pastPartitions = 4
	pastGroup      = 2000 // tasks of one partition that run at a time
	pastInterval   = 1500 * time.Microsecond
	pastBlock      = pastPartitions * pastGroup * 4 // events of the smallest number that can be filled in
	fillAtOnce     = 32 * pastBlock                 // events a statement: a part each
	eventsAFinding = 10_000
)

// pastKey is the business key of a task of the past. It is what fillEvents makes of the task's number.
func pastKey(task int) string { return fmt.Sprintf("settle_order:%d", 100_000_000+task) }

// pastBegin is when the past begins: on the Tuesday before last, so that all of it lies in one week, the tables keep it, and
// what the figures come to does not hang on the day.
func pastBegin(now time.Time) time.Time {
	day := now.UTC().Truncate(24 * time.Hour)
	monday := day.AddDate(0, 0, -(int(day.Weekday())+6)%7)
	return monday.AddDate(0, 0, -6)
}

// fillEvents fills in the events number first to last-1 of the past. The text is that of numbers, not of anything from
// outside, and so is not bound.
const fillEvents = `INSERT INTO events (business_key, task_id, event_id, type, time, system, task, retries, max_retries, retry_in, queue, worker, pid,
    redelivered, effect_name, idempotency_key, amount, currency, error_type, error_message, runtime, active, seq,
    kafka_topic, kafka_partition, kafka_offset, kafka_time)
WITH
    intDiv(number, 32000) AS c, number %% 32000 AS r, r %% 4 AS p, intDiv(r, 4) AS q, intDiv(q, 2000) AS step,
    c * 8000 + (q %% 2000) * 4 + p AS t,
    t %% 50 = 0 AS retries_once,
    ['received', if(retries_once, 'retried', 'started'), if(retries_once, 'started', 'effect'), 'succeeded'][step + 1] AS kind,
    addMicroseconds(toDateTime64('%[1]s', 6, 'UTC'), number * 1500) AS at
SELECT concat('settle_order:', toString(100000000 + t)), toString(reinterpretAsUUID(sipHash128(t, 'task'))),
    toString(reinterpretAsUUID(sipHash128(number, 'event'))), kind, at, 'celery', concat('shop.settle_', leftPad(toString(t %% 20), 2, '0')),
    if(retries_once AND step > 1, 1, 0), -1, if(kind = 'retried', 1, -1), 'orders',
    concat('w1@shop-', leftPad(toString(t %% 32), 2, '0')), 4000 + t %% 32, if(step = 0, false, NULL),
    if(kind = 'effect', 'payment.charge', ''), if(kind = 'effect', concat('settle_order:', toString(100000000 + t)), ''),
    if(kind = 'effect', toString(5 + sipHash64(t) %% 20000 / 100), ''), if(kind = 'effect', 'EUR', ''),
    if(kind = 'retried', 'ConnectionError', ''), if(kind = 'retried', 'the payment service does not answer', ''),
    if(kind = 'succeeded', 36. + (sipHash64(t, 1) %% 1000000) / 1e6, 0), -1, -1,
    '` + pastTopic + `', p, c * 8000 + q, addMilliseconds(at, sipHash64(number) %% 5)
FROM numbers(%[2]d, %[3]d)
SETTINGS max_insert_threads = 1, max_threads = 2, min_insert_block_size_rows = 2000000, min_insert_block_size_bytes = 1500000000,
    max_block_size = 65536, optimize_on_insert = 0`

// fill adds the events number from to to-1 to the past, and what the rules had left of them by then: the findings, and
// the tasks that were noted to have no end, and had one in the end.
func (b *bench) fill(ctx context.Context, database string, begin time.Time, from, to int) error {
	at := begin.Format("2006-01-02 15:04:05")
	for first := from; first < to; first += fillAtOnce {
		last := min(first+fillAtOnce, to)
		if err := b.engine.exec(ctx, database, fmt.Sprintf(fillEvents, at, first, last-first)); err != nil {
			return fmt.Errorf("fill in events: %w", err)
		}
		b.say("filled in %d events", last)
	}
	for _, sql := range []string{
		fmt.Sprintf(`INSERT INTO ingest_ledger (kafka_topic, kafka_partition, first, last, records, events, kafka_time)
SELECT '%s', number, %d, %d, %d, %d, toDateTime64('%s', 3, 'UTC') FROM numbers(%d)`,
			pastTopic, from/pastPartitions, to/pastPartitions-1, (to-from)/pastPartitions, (to-from)/pastPartitions, at, pastPartitions),
		fmt.Sprintf(fillFindings, at, from/eventsAFinding, (to-from)/eventsAFinding),
		fmt.Sprintf(fillLog, at, from/eventsAFinding, (to-from)/eventsAFinding),
		fmt.Sprintf(fillPending, at, from/4, (to-from)/4),
	} {
		if err := b.engine.exec(ctx, database, sql); err != nil {
			return fmt.Errorf("fill in what the rules had left: %w", err)
		}
	}
	return nil
}

// The findings of the past: an effect that was repeated, of one event in eventsAFinding. Half of them are resolved.
const (
	fillFindings = `INSERT INTO finding_versions (id, rule, severity, task, business_key, task_ids, cause, effects, first_seen, last_seen,
    title, explanation, remedy, fields, evidence, updated_at, version)
WITH number * 2500 AS t, addMicroseconds(toDateTime64('%[1]s', 6, 'UTC'), number * 15000000) AS at
SELECT substring(hex(sipHash128(number)), 1, 24), 'repeated_effect', 'critical', concat('shop.settle_', leftPad(toString(t %% 20), 2, '0')),
    concat('settle_order:', toString(100000000 + t)), [toString(reinterpretAsUUID(sipHash128(t, 'task')))], 'redelivered_after_success', 2,
    at, addSeconds(at, 40), 'payment.charge 2 times', repeat('It happened twice. ', 20), 'Use an idempotency key.', '{}', '[]', at, 1
FROM numbers(%[2]d, %[3]d)`
	fillLog = `INSERT INTO finding_log (finding_id, time, from_state, to_state, by, note)
WITH addMicroseconds(toDateTime64('%[1]s', 6, 'UTC'), number * 15000000) AS at
SELECT substring(hex(sipHash128(number)), 1, 24), at, '', 'open', 'auditor', 'found' FROM numbers(%[2]d, %[3]d)
UNION ALL
SELECT substring(hex(sipHash128(number)), 1, 24), addSeconds(at, 600), 'open', 'resolved', 'someone', 'mended' FROM numbers(%[2]d, %[3]d) WHERE number %% 2 = 0`
	fillPending = `INSERT INTO waiting_tasks (business_key, pending_task_id, task, phase, since, due, open, version)
WITH number AS t, addMicroseconds(toDateTime64('%[1]s', 6, 'UTC'), number * 6000) AS at
SELECT concat('settle_order:', toString(100000000 + t)), toString(reinterpretAsUUID(sipHash128(t, 'task'))),
    concat('shop.settle_', leftPad(toString(t %% 20), 2, '0')), 'succeeded', at, addSeconds(at, 900), false, 1
FROM numbers(%[2]d, %[3]d)`
)
