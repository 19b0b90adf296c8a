package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"auditor/event"
)

// nullStore takes every batch and keeps nothing.
type nullStore struct{ events, batches atomic.Int64 }

func (s *nullStore) InsertBatch(_ context.Context, b event.Batch) error {
	s.events.Add(int64(len(b.Events)))
	s.batches.Add(1)
	return nil
}

func (s *nullStore) Present(context.Context, string, int32, int64, int64) (event.Stored, error) {
	return event.Stored{}, nil
}

func (s *nullStore) Newest(context.Context, string, int32) (event.Covered, bool, error) {
	return event.Covered{}, false, nil
}

// sampleEvent is an event as workers send them.
func sampleEvent(n int) []byte {
	return fmt.Appendf(nil, `{"event_id":"0190f3a2-7c1e-7d3a-9b1f-%012d","type":"succeeded","time":"2026-03-04T12:00:00.%06dZ","system":"celery",`+
		`"task":"shop.settle_order","task_id":"7f1c0d2e-0000-4000-8000-%012d","business_key":"settle_order:%d","retries":0,"queue":"orders",`+
		`"worker":"celery@shop-7","pid":4711,"redelivered":false,"runtime":0.183}`, n, n%1e6, n, n%10_000)
}

// BenchmarkIngest reads a topic of four partitions into a store that keeps nothing. It prints its result as a line of JSON.
func BenchmarkIngest(b *testing.B) {
	const partitions, events = 4, 400_000
	c := newCluster(b, partitions)
	producer := newProducer(b, c, kgo.MaxBufferedRecords(50_000))
	size := 0
	for n := range events {
		value := sampleEvent(n)
		size += len(value)
		producer.Produce(b.Context(), &kgo.Record{Partition: int32(n % partitions), Value: value, Timestamp: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)},
			func(_ *kgo.Record, err error) {
				if err != nil {
					b.Error(err)
				}
			})
	}
	if err := producer.Flush(b.Context()); err != nil {
		b.Fatal(err)
	}
	decoder, err := event.NewDecoder(event.DecoderConfig{})
	if err != nil {
		b.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	runs, batches, spent := 0, int64(0), time.Duration(0)
	for b.Loop() {
		cfg := DefaultConfig()
		cfg.Kafka.Brokers = c.ListenAddrs()
		cfg.Kafka.Group = fmt.Sprint("run-", runs)
		s := &nullStore{}
		begin := time.Now()
		p := startWith(b, cfg, s, decoder, slog.New(slog.DiscardHandler))
		for s.events.Load() < events {
			time.Sleep(time.Millisecond)
		}
		spent += time.Since(begin)
		p.stop()
		runs++
		batches += s.batches.Load()
	}
	runtime.ReadMemStats(&after)
	perSecond := float64(runs*events) / spent.Seconds()
	b.ReportMetric(perSecond, "events/s")
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{
		"benchmark":                 "ingest",
		"events_per_second":         int(perSecond),
		"bytes_per_event":           size / events,
		"events_per_batch":          runs * events / int(batches),
		"allocated_bytes_per_event": int(after.TotalAlloc-before.TotalAlloc) / (runs * events),
		"cores":                     runtime.GOMAXPROCS(0),
	}); err != nil {
		b.Fatal(err)
	}
}
