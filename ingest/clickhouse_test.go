package ingest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"auditor/embedded/clickhouse"
	"auditor/embedded/clickhouse/chtest"
	"auditor/event"
	"auditor/queries/querytest"
)

// realStoreOf is ClickHouse as one process in the chaos sees it.
type realStoreOf struct {
	*chaos
	Store
	v *victim
}

func (s *realStoreOf) InsertBatch(ctx context.Context, b event.Batch) error {
	accident := s.roll()
	switch {
	case s.v.dead.Load():
		return errDead
	case s.calm.Load() || accident > 0.3:
		return s.Store.InsertBatch(ctx, b)
	case accident < 0.03:
		s.note(&s.refused)
		return errInjected
	case accident < 0.1:
		s.note(&s.lost)
		_ = s.Store.InsertBatch(ctx, b)
		return context.DeadlineExceeded
	case accident < 0.2: // given up while it is under way; what becomes of it only ClickHouse knows
		s.note(&s.delayed)
		short, cancel := context.WithTimeout(ctx, time.Duration(s.roll()*float64(20*time.Millisecond)))
		defer cancel()
		return s.Store.InsertBatch(short, b)
	case accident < 0.26: // killed while it is under way
		short, cancel := context.WithTimeout(ctx, time.Duration(s.roll()*float64(20*time.Millisecond)))
		defer cancel()
		_ = s.Store.InsertBatch(short, b)
	default: // killed before the answer
		_ = s.Store.InsertBatch(ctx, b)
	}
	s.kill(s.v)
	return errDead
}

// TestClickHouse moves events into a real ClickHouse while processes are killed, inserts are given up half-way, answers
// are lost, and the engine itself is killed, and then counts the rows. A constraint refuses some records, and somebody's
// materialized view fails at others, whose rows are in its source by then.
func TestClickHouse(t *testing.T) {
	const partitions, waves, perWave = 3, 8, 300
	store, engine := querytest.Store(t), chtest.Start(t)
	for _, table := range []string{"events", "rejects"} { // a merge would drop a row that is there twice, and so hide it
		ask(t, engine, store.Database(), "ALTER TABLE "+table+" MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = 1")
	}
	ask(t, engine, store.Database(), "ALTER TABLE events ADD CONSTRAINT no_poison CHECK business_key != 'poison'")
	ask(t, engine, store.Database(), "CREATE TABLE own (n UInt8) ENGINE = Memory")
	ask(t, engine, store.Database(), "CREATE MATERIALIZED VIEW own_view TO own AS SELECT throwIf(business_key = 'thrown') AS n FROM events")
	cluster, c := newCluster(t, partitions), newChaos(7)
	c.atCommit(cluster)
	cfg := testConfig(cluster)
	cfg.MaxRows = 40
	decoder, err := event.NewDecoder(event.DecoderConfig{})
	if err != nil {
		t.Fatal(err)
	}
	spawn := c.spawner(t, cfg, decoder, func(v *victim) Store { return &realStoreOf{c, store, v} })
	spawn()
	spawn()
	calm := verifyAlways(t, cfg, store, decoder, partitions)
	producer := newProducer(t, cluster)
	caughtUp := func(records int) func() bool {
		return func() bool {
			covered := int64(0)
			for partition := range int32(partitions) {
				newest, known, err := store.Newest(context.Background(), topic, partition)
				if err != nil {
					return false // the engine is being started again
				}
				if known {
					covered += newest.Last + 1
				}
			}
			return covered >= int64(records)
		}
	}
	n, events, rejects, keyed, refused := 0, 0, 0, 0, 0
	for w := range waves {
		var records []*kgo.Record
		for range perWave {
			value, good, bad := sampleRecord(n)
			records = append(records, &kgo.Record{Partition: int32(n % partitions), Value: value, Timestamp: sampleTime.AddDate(0, 0, 7*(n%2))})
			n, events, rejects, keyed = n+1, events+good, rejects+bad, keyed+min(good, 1)
			if strings.Contains(string(value), `"poison"`) {
				refused++
			}
		}
		if err := producer.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if w%3 == 1 {
			killEngine(t, engine)
		}
		c.until(t, cluster, spawn, "the processes keep up", caughtUp(n-perWave))
	}
	c.calm.Store(true)
	c.until(t, cluster, spawn, "all is read", caughtUp(n))
	c.rest()
	calm()
	t.Logf("%d records, %s", n, c)
	if c.kills < 5 || c.lost < 3 || c.delayed < 3 {
		t.Error("too little went wrong for this to be a test")
	}
	for sql, want := range map[string]int{
		"SELECT count() FROM events": events,
		"SELECT uniqExact(kafka_partition, kafka_offset, kafka_index) FROM events": events,
		"SELECT count() FROM rejects": rejects,
		"SELECT uniqExact(kafka_partition, kafka_offset, kafka_index) FROM rejects":                               rejects,
		"SELECT uniqExact(kafka_partition, kafka_offset) FROM changed_keys":                                       keyed,
		"SELECT count() FROM rejects WHERE reason = 'store_refused' AND kafka_index = -1 AND raw LIKE '%poison%'": refused,
		"SELECT countIf(business_key = 'poison') FROM events":                                                     0,
		"SELECT sum(records) FROM ingest_ledger FINAL":                                                            n,
		"SELECT sum(events) FROM ingest_ledger FINAL":                                                             events,
		"SELECT sum(rejects) FROM ingest_ledger FINAL":                                                            rejects,
		"SELECT sum(last - first + 1) FROM ingest_ledger FINAL":                                                   n,
		"SELECT sum(lost) FROM ingest_ledger FINAL":                                                               0,
	} {
		if got := number(t, engine, store.Database(), sql); got != want {
			t.Errorf("%s: %d, want %d", sql, got, want)
		}
	}
}

var sampleTime = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// sampleRecord gives a record, and how many events and rejects are in it.
func sampleRecord(n int) (value []byte, events, rejects int) {
	switch n % 10 {
	case 3:
		return []byte("no event"), 0, 1
	case 7:
		if n%900 == 7 { // an array with one that is refused, and so all of it
			return fmt.Appendf(nil, `[%s,%s]`, sampleEvent(n), withKey(n, "poison")), 0, 1
		}
		return fmt.Appendf(nil, `[%s,{"type":"succeeded"},%s]`, sampleEvent(n), sampleEvent(n+1_000_000)), 2, 1
	}
	switch n % 800 {
	case 25:
		return withKey(n, "poison"), 0, 1
	case 435:
		return withKey(n, "thrown"), 1, 0
	}
	return sampleEvent(n), 1, 0
}

func withKey(n int, key string) []byte {
	return bytes.Replace(sampleEvent(n), fmt.Appendf(nil, "settle_order:%d", n%10_000), []byte(key), 1)
}

// killEngine ends the engine as SIGKILL does. It is started again by itself.
func killEngine(t *testing.T, engine *clickhouse.Engine) {
	t.Helper()
	p, err := os.FindProcess(engine.PID())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
}

// number gives the only value of a statement's answer.
func number(t *testing.T, engine *clickhouse.Engine, database, sql string) int {
	t.Helper()
	n, err := strconv.Atoi(ask(t, engine, database, sql))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func ask(t *testing.T, engine *clickhouse.Engine, database, sql string) string {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return engine.Dial(ctx) }}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, Timeout: 30 * time.Second}
	response, err := client.Post("http://engine/?database="+url.QueryEscape(database), "text/plain", strings.NewReader(sql))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v", sql, text, err)
	}
	return strings.TrimSpace(string(text))
}
