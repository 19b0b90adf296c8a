package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"auditor/embedded/clickhouse/chtest"
	"auditor/event"
	"auditor/queries"
	"auditor/queries/querytest"
	"auditor/rules"
)

func TestMain(m *testing.M) { chtest.Main(m) }

var opening = time.Date(2026, 11, 2, 3, 0, 0, 0, time.UTC)

// The whole catalogue, in a few hours of a small queue, judged as of its end: everything that the events show is found,
// with its cause, and nothing else.
func TestTruth(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := newStream(seed, opening, 5*time.Hour, 6000)
			all, events := judge(t, s)
			s.truth.troubles = slices.DeleteFunc(s.truth.troubles, func(t trouble) bool {
				return !slices.Contains(rules.Names, t.rule)
			})
			r := newReport(seed, s, compare(&s.truth, all), len(all))
			r.events = events.of
			var said bytes.Buffer
			r.print(&said)
			if t.Log(said.String()); !r.perfect() {
				t.Error("what was found is not what there was to be found")
			}
		})
	}
}

// judge lets the rules judge a stream as of its end, by the way that ingest takes.
func judge(t *testing.T, s *stream) ([]found, told) {
	t.Helper()
	store := querytest.Store(t)
	events := fill(t, store, s)
	engine, err := rules.New(rules.DefaultConfig(), store, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	all, err := engine.Evaluate(t.Context(), opening.Add(s.span+margin))
	if err != nil {
		t.Fatal(err)
	}
	var found []found
	for _, f := range all {
		text, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		one, err := parseFound(text)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, one)
	}
	return found, events
}

// told is events as they arrived.
type told []event.Event

func (all told) of(namespace, key, taskID string) (some []event.Event, _ error) {
	for _, e := range all {
		if e.Namespace == namespace && (key != "" && e.BusinessKey == key || taskID != "" && e.TaskID == taskID) {
			some = append(some, e)
		}
	}
	return some, nil
}

// fill stores a stream's records, as they arrive, on a few partitions.
func fill(t *testing.T, store *queries.Store, s *stream) (all told) {
	t.Helper()
	const partitions, batch = 3, 50_000
	decoder, err := event.NewDecoder(event.DecoderConfig{})
	if err != nil {
		t.Fatal(err)
	}
	batches := make([]event.Batch, partitions)
	flush := func(b *event.Batch) {
		if b.Records > 0 {
			if err := store.InsertBatch(t.Context(), *b); err != nil {
				t.Fatal(err)
			}
		}
		*b = event.Batch{Topic: b.Topic, Partition: b.Partition, First: b.Last + 1, Last: b.Last}
	}
	for i := range batches {
		batches[i] = event.Batch{Topic: "task-events", Partition: int32(i), Last: -1}
	}
	for r, ok := s.Next(); ok; r, ok = s.Next() {
		h := fnv.New32a()
		h.Write([]byte(r.key))
		b := &batches[h.Sum32()%partitions]
		b.Last++
		b.Records++
		b.Time = s.moment(r.at)
		events, rejects := decoder.Decode(event.Record{Position: event.Position{Topic: b.Topic, Partition: b.Partition, Offset: b.Last}, Value: r.value, Time: b.Time})
		if len(rejects) > 0 {
			t.Fatalf("%s: %+v", r.value, rejects)
		}
		for i := range events {
			events[i].KafkaTime = b.Time
		}
		all = append(all, events...)
		if b.Events = append(b.Events, events...); len(b.Events) >= batch {
			flush(b)
		}
	}
	for i := range batches {
		flush(&batches[i])
	}
	return all
}
