package ingest

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"auditor/embedded/clickhouse/chtest"
	"auditor/event"
	"auditor/event/proof"
	"auditor/queries/querytest"
)

// What is wrong in a real ClickHouse is named: rows that were deleted behind its back, rows that lie there twice although no
// merge has shown it yet, a hole in the ledger. What was rolled back is not missing.
func TestVerifyClickHouse(t *testing.T) {
	store, engine := querytest.Store(t), chtest.Start(t)
	for _, table := range []string{"events", "rejects"} { // a merge would drop a row that is there twice
		ask(t, engine, store.Database(), "ALTER TABLE "+table+" MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = 1")
	}
	c := newCluster(t, 1)
	producer := newProducer(t, c, kgo.TransactionalID("shop"))
	n := 0
	for _, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort, kgo.TryCommit} { // offsets 0-100, 101-201, 202-302, with their markers
		if err := producer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		var values []string
		for range 100 {
			value, _, _ := sampleRecord(n)
			values, n = append(values, string(value)), n+1
		}
		produce(t, producer, 0, values...)
		if err := producer.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	decoder, err := event.NewDecoder(event.DecoderConfig{})
	if err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(c)
	cfg.MaxRows = 10
	p := startWith(t, cfg, store, decoder, testLogger(t))
	p.reaches(303)
	p.stop()
	check := func(what, want string) proof.Verdict {
		t.Helper()
		v, err := NewVerifier(cfg, store, decoder, testLogger(t))
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		verdict, err := v.Verify(t.Context(), event.PartitionID{Topic: topic}, everything)
		if err != nil {
			t.Fatal(err)
		}
		if got := said(verdict); got != want || verdict.Unread != "" {
			t.Errorf("%s: %q %s, want %q", what, got, verdict.Unread, want)
		}
		return verdict
	}
	change := func(sql string) { ask(t, engine, store.Database(), sql) }
	if v := check("all there", ""); v.Records != 200 || v.First != 0 || v.Last != 302 {
		t.Errorf("%+v", v)
	}
	change("ALTER TABLE events DELETE WHERE kafka_offset IN (5, 6, 7, 250) SETTINGS mutations_sync = 2") // 7 holds two events and a reject
	change("DELETE FROM rejects WHERE kafka_offset = 13")
	change("INSERT INTO events SELECT * FROM events WHERE kafka_offset = 40")
	change("INSERT INTO events SELECT * FROM events WHERE kafka_offset = 40 SETTINGS insert_deduplication_token = 'another'")
	change("INSERT INTO rejects (kafka_topic, kafka_partition, kafka_offset, kafka_index, kafka_time) SELECT kafka_topic, kafka_partition, kafka_offset, kafka_index, kafka_time FROM events WHERE kafka_offset = 41")
	wrong := "missing 5-7; missing 13; missing 250; doubled 40-41 (3)"
	check("rows deleted and rows doubled", wrong)
	first := ask(t, engine, store.Database(), "SELECT first FROM ingest_ledger WHERE first BETWEEN 60 AND 80 LIMIT 1")
	last := ask(t, engine, store.Database(), "SELECT last FROM ingest_ledger WHERE first = "+first)
	change("ALTER TABLE ingest_ledger DELETE WHERE first = " + first + " SETTINGS mutations_sync = 2")
	check("a hole in the ledger", fmt.Sprintf("%s; hole %s-%s", wrong, first, last))
	change("DELETE FROM rejects WHERE kafka_offset = 41")
	// What docs/ingest.md says brings back what is missing does so, and doubles nothing.
	change("ALTER TABLE ingest_ledger DELETE WHERE kafka_topic = 'task-events' AND kafka_partition = 0 AND last >= 5 SETTINGS mutations_sync = 2")
	p = startWith(t, cfg, store, decoder, testLogger(t))
	p.reaches(303)
	p.stop()
	check("brought back", "doubled 40 (2)")
	change("DELETE FROM events WHERE kafka_offset = 250")
	if err := c.DeleteRecords(topic, 0, 303); err != nil {
		t.Fatal(err)
	}
	check("once Kafka has deleted all of it", "missing 250; doubled 40 (2)")
}
