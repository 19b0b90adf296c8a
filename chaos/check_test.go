package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"testing"
	"time"

	"auditor/embedded/clickhouse"
	"auditor/embedded/clickhouse/chtest"
	"auditor/event"
	"auditor/event/finding"
	"auditor/queries"
)

// engineAt starts an engine with a port, and gives its address and password.
func engineAt(t *testing.T) (addr, password string) {
	t.Helper()
	library := chtest.Library(t)
	addr, err := freeAddr()
	if err != nil {
		t.Fatal(err)
	}
	engine, err := clickhouse.Start(t.Context(), clickhouse.Config{Data: t.TempDir(), Library: library, Listen: addr, Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return addr, "secret"
}

// filled gives a store that holds a small stream, as ingest and the rules leave it, and the truth about it.
func filled(t *testing.T, addr, password, database string) (*store, *truth) {
	t.Helper()
	config := queries.DefaultConfig()
	config.Addresses, config.Protocol = []string{addr}, queries.HTTP
	config.Database, config.RetentionDays = database, 0
	config.Password = "secret"
	q, err := queries.Open(config, queries.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if _, err := q.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := &store{addr: addr, password: password, database: database}
	if err := s.keepRows(t.Context()); err != nil {
		t.Fatal(err)
	}
	stream := newStream(11, time.Now(), 5*time.Second, 600)
	truth := &truth{contents: make(map[print]content), log: make(map[int32][]entry), ends: make(map[int32]int64)}
	decoder, err := event.NewDecoder(event.DecoderConfig{})
	if err != nil {
		t.Fatal(err)
	}
	batches := make(map[int32]*event.Batch)
	send := func(b *event.Batch) {
		if err := q.InsertBatch(t.Context(), *b); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range all(stream) {
		partition := int32(hashOf(r.key) % 2)
		offset := truth.ends[partition]
		truth.ends[partition]++
		truth.contents[printOf(r.value)] = r.content
		truth.log[partition] = append(truth.log[partition], entry{offset, printOf(r.value)})
		b := batches[partition]
		if b == nil {
			b = &event.Batch{Topic: topic, Partition: partition, First: offset}
			batches[partition] = b
		}
		events, rejects := decoder.Decode(event.Record{Position: event.Position{Topic: topic, Partition: partition, Offset: offset},
			Key: []byte(r.key), Value: r.value, Time: stream.start.Add(r.at)})
		b.Events, b.Rejects, b.Last, b.Time = append(b.Events, events...), append(b.Rejects, rejects...), offset, stream.start.Add(r.at)
		if b.Records++; b.Records == 100 {
			send(b)
			delete(batches, partition)
		}
	}
	for _, b := range batches {
		send(b)
	}
	truth.expected = stream.expected
	var found []finding.Finding
	for i, e := range stream.expected {
		found = append(found, finding.Finding{ID: fmt.Sprint(i), Rule: e.rule, Namespace: e.namespace, BusinessKey: e.key, Cause: e.cause, Title: "found"})
	}
	if err := q.SaveFindings(t.Context(), found, nil); err != nil {
		t.Fatal(err)
	}
	return s, truth
}

func hashOf(key string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(key))
	return h.Sum32()
}

// The checker is fed stores in which one thing is wrong each, and must say which.
func TestCheckFindsWhatIsWrong(t *testing.T) {
	addr, password := engineAt(t)
	const one = "(SELECT min(kafka_offset) FROM events WHERE kafka_partition = 1)"
	type counts struct{ missing, duplicates, rejectsMissing, unexpected, wrong, ledger, derived, falseFindings, missedFindings int }
	const some = -1 // at least one
	for i, c := range []struct {
		name   string
		damage string // statements
		spoil  func(*truth)
		want   counts
	}{
		{name: "nothing"},
		{name: "a row twice", damage: "INSERT INTO events SELECT * FROM events WHERE kafka_partition = 1 AND kafka_offset = " + one,
			want: counts{duplicates: 1}},
		{name: "a row missing", damage: "ALTER TABLE events DELETE WHERE kafka_partition = 1 AND kafka_offset = " + one,
			want: counts{missing: 1, derived: some}},
		{name: "a row of another record", damage: "ALTER TABLE events UPDATE event_id = 'x' WHERE kafka_partition = 1 AND kafka_offset = " + one,
			want: counts{wrong: 1}},
		{name: "a row of nothing", damage: "INSERT INTO events SELECT * REPLACE (1000000 AS kafka_offset) FROM (SELECT * FROM events WHERE kafka_partition = 1 AND kafka_offset = " + one + ")",
			want: counts{unexpected: 1}},
		{name: "a row of another topic", damage: "INSERT INTO events SELECT * REPLACE ('other' AS kafka_topic) FROM events WHERE kafka_partition = 1 AND kafka_offset = " + one,
			want: counts{unexpected: 1}},
		{name: "a reject twice", damage: "INSERT INTO rejects SELECT * FROM rejects LIMIT 1", want: counts{duplicates: 1}},
		{name: "a reject missing", damage: "ALTER TABLE rejects DELETE WHERE (kafka_partition, kafka_offset) IN (SELECT kafka_partition, kafka_offset FROM rejects LIMIT 1)",
			want: counts{rejectsMissing: 1}},
		{name: "a reject's bytes changed", damage: "ALTER TABLE rejects UPDATE raw = concat(raw, ' ') WHERE (kafka_partition, kafka_offset) IN (SELECT kafka_partition, kafka_offset FROM rejects LIMIT 1)",
			want: counts{wrong: 1}},
		{name: "a hole in the ledger", damage: "ALTER TABLE ingest_ledger DELETE WHERE kafka_partition = 1 AND first = 100", want: counts{ledger: some}},
		{name: "the end of the ledger missing", damage: "ALTER TABLE ingest_ledger DELETE WHERE kafka_partition = 1 AND first = (SELECT max(first) FROM ingest_ledger WHERE kafka_partition = 1)",
			want: counts{ledger: 1, derived: some}},
		{name: "an overlap in the ledger", damage: "INSERT INTO ingest_ledger SELECT * REPLACE (last - 1 AS last) FROM ingest_ledger WHERE kafka_partition = 1 AND first = 100",
			want: counts{ledger: some}},
		{name: "a wrong count in the ledger", damage: "ALTER TABLE ingest_ledger UPDATE events = events + 1 WHERE kafka_partition = 1 AND first = 100",
			want: counts{ledger: 1}},
		{name: "records lost by the ledger", damage: "ALTER TABLE ingest_ledger UPDATE lost = 1 WHERE kafka_partition = 1 AND first = 100",
			want: counts{ledger: 1}},
		{name: "a false finding", damage: "INSERT INTO finding_versions (id, rule, business_key) VALUES ('x', 'stuck_pending', 'healthy:1')",
			want: counts{falseFindings: 1}},
		{name: "a finding missing", damage: "ALTER TABLE finding_versions DELETE WHERE id = '0'", want: counts{derived: 1, missedFindings: 1}},
		{name: "a finding with another cause", damage: "ALTER TABLE finding_versions UPDATE cause = 'unknown' WHERE rule = 'repeated_effect' AND id = (SELECT min(id) FROM finding_versions WHERE rule = 'repeated_effect')",
			want: counts{missedFindings: 1}},
		{name: "a record that nobody sent", spoil: func(t *truth) { delete(t.contents, t.log[1][0].print) },
			want: counts{wrong: 1, unexpected: some, ledger: some}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, truth := filled(t, addr, password, fmt.Sprint("case", i))
			if c.damage != "" {
				damage(t, s, c.damage)
			}
			if c.spoil != nil {
				c.spoil(truth)
			}
			v := checked(t, s, truth)
			got := counts{v.Missing, v.Duplicates, v.RejectsMissing, v.Unexpected, v.Wrong, v.Ledger, v.Derived, v.FalseFindings, v.MissedFindings}
			for _, n := range []struct {
				got  *int
				want int
			}{{&got.derived, c.want.derived}, {&got.ledger, c.want.ledger}, {&got.unexpected, c.want.unexpected}} {
				if n.want == some && *n.got > 0 {
					*n.got = some
				}
			}
			if got != c.want || v.clean() != (c.want == counts{}) {
				t.Errorf("got %+v, want %+v\n%s", got, c.want, strings.Join(v.examples, "\n"))
			}
			if v.Events < 600 || v.Rejects < 3 {
				t.Errorf("%d events and %d rejects prove little", v.Events, v.Rejects)
			}
		})
	}
}

// checked gives what a store comes to.
func checked(t *testing.T, s *store, truth *truth) *verdict {
	t.Helper()
	v := new(verdict)
	if err := v.checkRows(t.Context(), s, truth); err != nil {
		t.Fatal(err)
	}
	if err := v.checkRest(t.Context(), s, truth); err != nil {
		t.Fatal(err)
	}
	return v
}

func damage(t *testing.T, s *store, statement string) {
	t.Helper()
	if strings.HasPrefix(statement, "ALTER") {
		statement += " SETTINGS mutations_sync = 1"
	}
	if err := s.do(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// Every table that a view feeds is compared: a row that is missing from it is missed, and one too many is seen.
func TestCheckComparesEveryDerivedTable(t *testing.T) {
	addr, password := engineAt(t)
	s, truth := filled(t, addr, password, "derived")
	views, err := s.views(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(views) < 7 {
		t.Fatalf("views are %+v", views)
	}
	before := 0
	for _, view := range views {
		if view.target == "emitter_numbers" { // the stream's events carry no numbers
			damage(t, s, "INSERT INTO emitter_numbers (namespace, emitter, block, numbers) SELECT '', 'e', 0, groupBitmapState(toUInt8(1))")
		} else {
			damage(t, s, "ALTER TABLE "+view.target+" DELETE WHERE 1")
		}
		v := checked(t, s, truth)
		if v.Derived <= before {
			t.Errorf("%s is wrong, and nobody says so", view.target)
		}
		before = v.Derived
	}
}

// Two sketches of the same values count the same, however they were merged.
func TestCountOfASketch(t *testing.T) {
	addr, password := engineAt(t)
	s, _ := filled(t, addr, password, "sketches")
	const sketch = "SELECT uniqCombined64State(13)(toString(number)) AS s FROM numbers"
	for _, n := range []int{255, 256, 257, 300} {
		whole := fmt.Sprintf("%s(%d)", sketch, n)
		merged := fmt.Sprintf("SELECT uniqCombined64MergeState(13)(s) AS s FROM (%s(200) UNION ALL %[1]s(100, %d))", sketch, n-100)
		var counts []string
		for _, query := range []string{whole, merged} {
			err := s.ask(t.Context(), "SELECT "+count("s", "AggregateFunction(uniqCombined64(13), String)")+" FROM ("+query+")", func(fields []string) error {
				counts = append(counts, fields[0])
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if len(counts) != 2 || counts[0] != counts[1] {
			t.Errorf("%d values are counted as %v", n, counts)
		}
	}
}
