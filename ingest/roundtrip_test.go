package ingest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/sasl/scram"
	"github.com/twmb/franz-go/pkg/kadm"

	"auditor/embedded/clickhouse/chtest"
	"auditor/embedded/kafka/testbroker"
	"auditor/emit"
	"auditor/event"
	"auditor/queries/querytest"
)

// TestServersRoundTrip takes events from the emitter for Go through Apache Kafka, which is killed meanwhile, into ClickHouse, over
// TLS and with a password all the way.
func TestServersRoundTrip(t *testing.T) {
	const events = 2000
	store, engine := querytest.Store(t), chtest.Start(t)
	onApache(t, 3, nil, func(r *trial) {
		r.grantAll()
		r.grant(kadm.NewACLs().Allow(user).ResourcePatternType(kadm.ACLPatternLiteral).Topics(r.topic).Operations(kadm.OpWrite))
		r.through(testbroker.SASLTLS, "SCRAM-SHA-512", password)
		mechanism, err := scram.Mechanism(scram.SHA512, user, password)
		r.must(err)
		pem, err := os.ReadFile(r.config.Kafka.TLS.CAFile)
		r.must(err)
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		client, err := emit.New(emit.Config{Brokers: r.config.Kafka.Brokers, Topic: r.topic, TLS: &tls.Config{RootCAs: roots}, SASL: mechanism, Logger: testLogger(r)})
		r.must(err)
		defer func() { r.must(client.Close(r.bounded())) }()
		emitted := func(n int) event.Event {
			return event.Event{ID: fmt.Sprint("event-", n), Type: event.Succeeded, Time: sampleTime, Task: "settle", TaskID: fmt.Sprint("task-", n), BusinessKey: fmt.Sprint("order:", n)}
		}
		for n := range events / 2 {
			r.must(client.Emit(r.bounded(), emitted(n)))
		}
		r.must(client.Flush(r.bounded()))

		decoder, err := event.NewDecoder(event.DecoderConfig{MaxSkew: 100 * 365 * 24 * time.Hour})
		r.must(err)
		p := r.run(r.wire(store, decoder))
		eventually(r, "it reads", func() bool { return number(t, engine, store.Database(), "SELECT count() FROM events") > 0 })
		for n := range events / 4 {
			r.must(client.Emit(r.bounded(), emitted(events/2+n)))
		}
		r.server.Kill()
		for n := range events / 4 {
			r.must(client.Emit(r.bounded(), emitted(events/2+events/4+n)))
		}
		r.must(r.server.Restart(context.Background()))
		r.must(client.Flush(r.bounded()))

		_, ends := r.records()
		var records int64
		for _, end := range ends {
			records += end
		}
		eventually(r, "all is stored", func() bool {
			return number(t, engine, store.Database(), "SELECT sum(last - first + 1) FROM ingest_ledger FINAL") == int(records)
		})
		p.stop()
		for sql, want := range map[string]int{
			"SELECT uniqExact(event_id) FROM events":                                   events,
			"SELECT count() FROM events":                                               int(records),
			"SELECT uniqExact(kafka_partition, kafka_offset, kafka_index) FROM events": int(records),
			"SELECT count() FROM rejects":                                              0,
			"SELECT sum(lost) FROM ingest_ledger FINAL":                                0,
			"SELECT sum(events) FROM ingest_ledger FINAL":                              int(records),
		} {
			if got := number(t, engine, store.Database(), sql); got != want {
				r.Errorf("%s: %d, want %d", sql, got, want)
			}
		}
	})
}
