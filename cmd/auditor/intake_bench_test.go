package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"auditor/embedded/kafka"
	"auditor/emit"
	"auditor/event"
	"auditor/web"
)

// BenchmarkSend compares what a sender gets through: to a broker itself, and to an auditor's intake that writes to the same. Four
// senders send a thousand events at a time, and wait for each answer.
func BenchmarkSend(b *testing.B) {
	broker, err := kafka.Start(kafka.Config{Data: b.TempDir(), Topics: []string{"task-events"}, Partitions: 4, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := broker.Stop(); err != nil {
			b.Error(err)
		}
	})
	direct := emit.Config{Brokers: []string{broker.Addr()}}
	publisher := publisherOf(b, direct)
	decoder, err := event.NewDecoder(event.DecoderConfig{})
	if err != nil {
		b.Fatal(err)
	}
	config := web.DefaultIntakeConfig()
	config.Rate = 0
	pages, err := web.New(web.DefaultConfig(), noStore{}, web.Options{Intake: &web.Intake{Config: config, Loopback: true, Decoder: decoder, Publisher: publishing{publisher}}})
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(pages.Handler())
	b.Cleanup(server.Close)
	for _, way := range []struct {
		name string
		to   emit.Config
	}{{"broker", direct}, {"intake", emit.Config{URL: server.URL}}} {
		b.Run(way.name, func(b *testing.B) { sendAll(b, publisherOf(b, way.to)) })
	}
}

// noStore is asked nothing.
type noStore struct{ web.Store }

func publisherOf(b *testing.B, c emit.Config) *emit.Publisher {
	p, err := emit.NewPublisher(c)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := p.Close(); err != nil {
			b.Error(err)
		}
	})
	return p
}

// sendAll sends b.N thousands of events by four senders.
func sendAll(b *testing.B, p *emit.Publisher) {
	const senders, each = 4, 1000
	batches := make([][]event.Record, senders)
	for s := range batches {
		for n := range each {
			e := event.Event{ID: fmt.Sprintf("e%d-%d", s, n), Type: event.Started, Time: time.Now(), Task: "shop.settle_order", TaskID: fmt.Sprintf("3b9b1d2c-%d-%d", s, n),
				BusinessKey: fmt.Sprintf("settle_order:%d", n), MaxRetries: 3, RetryIn: event.Unknown, Active: event.Unknown, Seq: int64(n), Emitter: "w1@host-a", Queue: "celery",
				Worker: "w1@host-a", PID: 4711, ExecutionID: fmt.Sprintf("x%d-%d", s, n)}
			batches[s] = append(batches[s], event.RecordOf(&e))
		}
	}
	work := make(chan struct{}, b.N)
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	b.ResetTimer()
	var all sync.WaitGroup
	for s := range senders {
		all.Go(func() {
			for range work {
				if err := p.Publish(context.Background(), batches[s]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N*each)/b.Elapsed().Seconds(), "events/s")
}
