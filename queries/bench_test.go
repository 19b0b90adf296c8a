package queries

import (
	"fmt"
	"testing"
	"time"

	"auditor/event"
	"auditor/event/history"
)

// busyBatch is a batch as a busy shop sends it: every run received, started, with an effect, succeeded.
func busyBatch(first, n int) event.Batch {
	events := make([]event.Event, n)
	for i := range events {
		run := (first + i) / 4
		e := anEvent(int64(first + i))
		e.ID = fmt.Sprintf("0198f2a4-%012x", first+i)
		e.Type = []event.Type{event.Received, event.Started, event.Effected, event.Succeeded}[i%4]
		e.TaskID, e.BusinessKey = fmt.Sprintf("5b1f0c8e-%012x", run), fmt.Sprintf("settle_order:%d", run)
		e.System, e.Task, e.Queue = "celery", fmt.Sprintf("shop.task_%d", run%20), "default"
		e.Worker, e.PID, e.Retries = fmt.Sprintf("worker-%d@host-%d", run%16, run%4), 1000+run%16, 0
		if e.Type == event.Effected {
			e.Effect = &event.Effect{Name: "payment.charge", Target: "card", IdempotencyKey: e.BusinessKey, Amount: "49.00", Currency: "EUR"}
		}
		events[i] = e
	}
	return aBatch(events...)
}

func BenchmarkInsertBatch(b *testing.B) {
	for _, rows := range []int{100, 1000, 10000, 50000} {
		b.Run(fmt.Sprint("rows=", rows), func(b *testing.B) {
			s, next := newStore(b), 0
			for b.Loop() {
				b.StopTimer()
				batch := busyBatch(next, rows)
				next += rows
				b.StartTimer()
				if err := s.InsertBatch(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(next)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkEncode is the client's part of InsertBatch over HTTP.
func BenchmarkEncode(b *testing.B) {
	batch := busyBatch(0, 10000)
	var x encoder
	for b.Loop() {
		x.reset()
		x.events(batch.Events)
	}
	b.ReportMetric(float64(b.N)*10000/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkChanged looks at 10,000 keys that changed, of a million events.
func BenchmarkChanged(b *testing.B) {
	const batches, rows = 20, 50000
	s := newStore(b)
	for i := range batches {
		if err := s.InsertBatch(b.Context(), busyBatch(i*rows, rows)); err != nil {
			b.Fatal(err)
		}
	}
	stretch := history.Stretch{
		Of: event.PartitionID{Topic: "task-events"}, From: 400000, To: 440000,
		Until: noon.AddDate(1, 0, 0), LoopRetries: 10, StuckAfterRest: 15 * time.Minute,
	}
	for b.Loop() {
		suspects, tasks, err := s.Changed(b.Context(), stretch)
		if err != nil || len(suspects)+len(tasks) > 0 {
			b.Fatal(len(suspects), len(tasks), err)
		}
	}
}

// BenchmarkHistories reads the events of 500 suspicious keys, of a million events.
func BenchmarkHistories(b *testing.B) {
	const batches, rows, keys = 20, 50000, 500
	s := newStore(b)
	for i := range batches {
		if err := s.InsertBatch(b.Context(), busyBatch(i*rows, rows)); err != nil {
			b.Fatal(err)
		}
	}
	var subjects []history.Subject
	for i := range keys {
		subjects = append(subjects, history.Subject{BusinessKey: fmt.Sprintf("settle_order:%d", i*397)})
	}
	for b.Loop() {
		events, err := s.Histories(b.Context(), subjects, history.Extent{Since: noon.AddDate(0, -1, 0), Limit: 1000})
		if err != nil || len(events) != keys {
			b.Fatal(len(events), err)
		}
	}
}
