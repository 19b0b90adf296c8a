package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The ways, as the report calls them. A way that fills tables goes by its name and the tables' ("auditor, feed").
const (
	wayFetch   = "fetch"
	wayDecode  = "fetch and decode"
	wayInsert  = "insert"
	wayEngine  = "kafka engine"
	wayAuditor = "auditor"
)

var allWays = []string{wayFetch, wayDecode, wayInsert, wayEngine, wayAuditor}

// way is one way to move the topic.
type way struct {
	name string
	run  func(ctx context.Context, last bool) (turn, error)
}

// turn is what one way did in one round.
type turn struct {
	rate                     float64 // events a second
	ingester, engine, broker time.Duration
	peak                     int64 // of the ingester's memory, in bytes
}

func (b *bench) views() []string {
	if b.options.views == "both" {
		return []string{"feed", "all"}
	}
	return []string{b.options.views}
}

func (b *bench) ways() []way {
	ways := []way{
		{wayFetch, func(ctx context.Context, _ bool) (turn, error) { return b.read(ctx, false) }},
		{wayDecode, func(ctx context.Context, _ bool) (turn, error) { return b.read(ctx, true) }},
	}
	for _, views := range b.views() {
		fill := func(f func(context.Context, string, bool) (turn, error)) func(context.Context, bool) (turn, error) {
			return func(ctx context.Context, last bool) (t turn, err error) {
				err = b.withDatabase(ctx, views, func(database string) error {
					t, err = f(ctx, database, last)
					return err
				})
				return t, err
			}
		}
		ways = append(ways,
			way{wayInsert + ", " + views, fill(b.insert)},
			way{wayEngine + ", " + views, fill(b.kafkaEngine)},
			way{wayAuditor + ", " + views, fill(b.auditor)})
	}
	return slices.DeleteFunc(ways, func(w way) bool { return !slices.Contains(b.options.ways, strings.Split(w.name, ",")[0]) })
}

// withDatabase calls f with a new database that has the auditor's tables, of those derived from events the ones asked for.
func (b *bench) withDatabase(ctx context.Context, views string, f func(database string) error) (err error) {
	b.turns++
	database := fmt.Sprintf("turn_%d", b.turns)
	store, err := openStore(b.engine.Socket(), database)
	if err != nil {
		return err
	}
	_, err = store.Migrate(ctx)
	if err := errors.Join(err, store.Close()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.engine.exec(ctx, "default", "DROP DATABASE "+database+" SYNC")) }()
	if views == "feed" {
		rows, err := b.engine.ask(ctx, database, "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine = 'MaterializedView' "+
			"AND name NOT IN ('changed_keys_view', 'ledger_ends_view')", nil, nil)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := b.engine.exec(ctx, database, "DROP TABLE "+row[0]+" SYNC"); err != nil {
				return err
			}
		}
	}
	return f(database)
}

// meter reads the processor time that the engine and the broker took since it was made.
type meter struct {
	b              *bench
	engine, broker time.Duration
}

func (b *bench) meter() (m meter, err error) {
	m.b = b
	m.engine, m.broker, err = m.now()
	return m, err
}

func (m *meter) now() (engine, broker time.Duration, err error) {
	engine, err1 := cpuTime(m.b.engine.PID())
	broker, err2 := cpuTime(m.b.broker.pid)
	return engine, broker, errors.Join(err1, err2)
}

// read has ingest read the topic into a store that keeps nothing.
func (b *bench) read(ctx context.Context, decode bool) (t turn, err error) {
	b.turns++
	m, err := b.meter()
	if err != nil {
		return t, err
	}
	begun := time.Now()
	c, err := startChild(b.stderr, ingestSubcommand, "--broker", b.broker.address, "--topic", b.topic.name,
		"--database", fmt.Sprintf("turn_%d", b.turns), "--decode="+strconv.FormatBool(decode), "--events", strconv.Itoa(b.topic.events))
	if err != nil {
		return t, err
	}
	if _, err := c.line(); err != nil {
		return t, err
	}
	t.rate = float64(b.topic.events) / time.Since(begun).Seconds()
	err = m.finish(&t, c)
	return t, errors.Join(err, c.stop())
}

// finish notes what a turn took.
func (m *meter) finish(t *turn, ingester *child) (err error) {
	engine, broker, err := m.now()
	t.engine, t.broker = engine-m.engine, broker-m.broker
	if err != nil || ingester == nil {
		return err
	}
	if t.ingester, err = cpuTime(ingester.pid()); err != nil {
		return err
	}
	t.peak, err = peakMemory(ingester.pid())
	return err
}

// insert sends the blocks, a few at a time, each under a token of its own as the auditor's are.
func (b *bench) insert(ctx context.Context, database string, _ bool) (t turn, err error) {
	m, err := b.meter()
	if err != nil {
		return t, err
	}
	begun := time.Now()
	files := make(chan string)
	failures := make(chan error, b.options.streams)
	var senders sync.WaitGroup
	for range b.options.streams {
		senders.Go(func() {
			for file := range files {
				if err := b.insertBlock(ctx, database, file); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	var failure error
send:
	for _, file := range b.blocks {
		select {
		case files <- file:
		case failure = <-failures:
			break send
		}
	}
	close(files)
	senders.Wait()
	select {
	case failure = <-failures:
	default:
	}
	if failure != nil {
		return t, failure
	}
	t.rate = float64(b.topic.events) / time.Since(begun).Seconds()
	if err := m.finish(&t, nil); err != nil {
		return t, err
	}
	return t, b.check(ctx, database)
}

func (b *bench) insertBlock(ctx context.Context, database, file string) error {
	data, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = data.Close() }()
	_, err = b.engine.ask(ctx, database, "INSERT INTO events ("+strings.Join(b.columns, ", ")+") FORMAT Native", data, url.Values{
		"insert_deduplication_token":                         {file},
		"deduplicate_blocks_in_dependent_materialized_views": {"1"},
	})
	return err
}

// kafkaEngine has ClickHouse read the topic by itself.
func (b *bench) kafkaEngine(ctx context.Context, database string, _ bool) (t turn, err error) {
	m, err := b.meter()
	if err != nil {
		return t, err
	}
	if err := b.startKafkaTable(ctx, database); err != nil {
		return t, err
	}
	if t.rate, err = b.watch(ctx, database); err != nil {
		return t, err
	}
	if err := m.finish(&t, nil); err != nil {
		return t, err
	}
	return t, b.stopKafkaTable(ctx, database)
}

// auditor has the auditor read the topic.
func (b *bench) auditor(ctx context.Context, database string, last bool) (t turn, err error) {
	m, err := b.meter()
	if err != nil {
		return t, err
	}
	var more []string
	if last && b.options.profile != "" {
		more = []string{"--profile", b.options.profile}
	}
	c, err := b.startAuditor(database, more...)
	if err != nil {
		return t, err
	}
	if t.rate, err = b.watch(ctx, database); err != nil {
		return t, errors.Join(err, c.stop())
	}
	if err := errors.Join(m.finish(&t, c), c.stop()); err != nil {
		return t, err
	}
	return t, b.check(ctx, database)
}

func (b *bench) startAuditor(database string, more ...string) (*child, error) {
	return startChild(b.stderr, append([]string{ingestSubcommand, "--broker", b.broker.address, "--topic", b.topic.name,
		"--database", database, "--socket", b.engine.Socket()}, more...)...)
}

// watch waits until all events are there, and gives how many came a second between the first and nine tenths of them. How long
// a consumer group takes to form, and how long a reader waits for more where a topic ends, says nothing of what lies between.
func (b *bench) watch(ctx context.Context, database string) (rate float64, err error) {
	const (
		shortest, longest = 20 * time.Millisecond, 500 * time.Millisecond // to ask takes the engine milliseconds
		patience          = 2 * time.Minute                               // without a single further event
	)
	total, begun := int64(b.topic.events), time.Now()
	measured := total - total/10
	for first, latest, moved := int64(0), int64(0), begun; ; {
		have, err := b.count(ctx, database)
		if err != nil {
			return 0, err
		}
		now := time.Now()
		if have > latest {
			if latest == 0 && have < measured { // of so few events that they come at once the start counts too
				begun, first = now, have
			}
			if latest < measured && have >= measured {
				rate = float64(have-first) / now.Sub(begun).Seconds()
			}
			latest, moved = have, now
		}
		if have >= total {
			return rate, nil
		}
		if now.Sub(moved) > patience {
			return 0, fmt.Errorf("%d of %d events came, and no more for %s", have, total, patience)
		}
		rest := time.Duration(float64(now.Sub(begun)) * float64(measured-have) / float64(max(have-first, 1)))
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(min(max(rest/4, shortest), longest)):
		}
	}
}

// count tells how many events are there. Of auditor JSON each has a row in changed_keys, and is there once that is.
func (b *bench) count(ctx context.Context, database string) (int64, error) {
	rows, err := b.engine.ask(ctx, database, "SELECT (SELECT count() FROM events), (SELECT count() FROM changed_keys)", nil, nil)
	if err != nil {
		return 0, err
	}
	events, err1 := strconv.ParseInt(rows[0][0], 10, 64)
	keys, err2 := strconv.ParseInt(rows[0][1], 10, 64)
	if b.topic.workers {
		keys = events
	}
	return min(events, keys), errors.Join(err1, err2)
}

// check fails unless each event is there exactly once.
func (b *bench) check(ctx context.Context, database string) error {
	rows, err := b.engine.ask(ctx, database, "SELECT count(), uniqExact(kafka_partition, kafka_offset) FROM events", nil, nil)
	if err != nil {
		return err
	}
	if want := strconv.Itoa(b.topic.events); rows[0][0] != want || rows[0][1] != want {
		return fmt.Errorf("of %s events %s rows came, of %s different records", want, rows[0][0], rows[0][1])
	}
	return nil
}
