package queries

import (
	"fmt"
	"testing"
	"time"

	"auditor/event"
	"auditor/event/history"
	"auditor/event/review"
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

// engineTime is for how long the engine's threads have worked so far, merges included.
func engineTime(b *testing.B, s *Store) time.Duration {
	var micros []struct {
		Sum uint64 `ch:"micros"`
	}
	const text = "SELECT sum(value) AS micros FROM system.events WHERE event = 'OSCPUVirtualTimeMicroseconds'"
	if err := s.conn.Select(b.Context(), &micros, text); err != nil {
		b.Fatal(err)
	}
	return time.Duration(micros[0].Sum) * time.Microsecond
}

func BenchmarkInsertBatch(b *testing.B) {
	for _, rows := range []int{10, 100, 1000, 10000, 50000} {
		b.Run(fmt.Sprint("rows=", rows), func(b *testing.B) {
			s, next := newStore(b), 0
			before := engineTime(b, s)
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
			b.ReportMetric((engineTime(b, s)-before).Seconds()*1000/float64(b.N), "engine-ms/op")
		})
	}
}

// BenchmarkEncode is the client's part of InsertBatch over HTTP.
func BenchmarkEncode(b *testing.B) {
	batch := busyBatch(0, 10000)
	var x encoder
	for b.Loop() {
		for _, write := range eventParts(batch.Events) {
			x.reset()
			write(&x)
		}
	}
	b.ReportMetric(float64(b.N)*10000/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkChanged looks at keys that changed, one every four offsets, of a million events: which they are, and what they told.
func BenchmarkChanged(b *testing.B) {
	const batches, rows = 20, 50000
	s := newStore(b)
	for i := range batches {
		if err := s.InsertBatch(b.Context(), busyBatch(i*rows, rows)); err != nil {
			b.Fatal(err)
		}
	}
	for _, offsets := range []int64{4, 40000, 200000} {
		b.Run(fmt.Sprint("offsets=", offsets), func(b *testing.B) {
			for b.Loop() {
				keys, err := s.StretchKeys(b.Context(), event.PartitionID{Topic: "task-events"}, 400000, 400000+offsets)
				if err != nil {
					b.Fatal(err)
				}
				q := history.Stretch{Keys: pluck(keys, func(a *history.Arrived) uint64 { return a.Hash }), Until: noon.AddDate(1, 0, 0)}
				told := 0
				if err := s.Told(b.Context(), q, func(*history.Told) { told++ }); err != nil || told < len(keys) {
					b.Fatal(told, len(keys), err)
				}
			}
		})
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

// BenchmarkReview reviews all tasks, and one of twenty, of a million events and of four million: what it reads is bounded.
func BenchmarkReview(b *testing.B) {
	const rows = 50000
	s, stored := newStore(b), 0
	for _, millions := range []int{1, 4} {
		for ; stored < millions*1_000_000; stored += rows {
			if err := s.InsertBatch(b.Context(), busyBatch(stored, rows)); err != nil {
				b.Fatal(err)
			}
		}
		for name, task := range map[string]*string{"all": nil, "one": new("shop.task_7")} {
			b.Run(fmt.Sprintf("events=%dM/%s", millions, name), func(b *testing.B) {
				worked, read := engineTime(b, s), rowsRead(b, s)
				oneIn := int64(0)
				for b.Loop() {
					all, err := s.Review(b.Context(), review.Query{Task: task, Settings: settings})
					if err != nil || len(all) == 0 {
						b.Fatal(len(all), err)
					}
					oneIn = all[0].Sample.OneIn
				}
				b.ReportMetric((engineTime(b, s)-worked).Seconds()*1000/float64(b.N), "engine-ms/op")
				b.ReportMetric(float64(rowsRead(b, s)-read)/float64(b.N), "rows-read/op")
				b.ReportMetric(float64(oneIn), "one-key-in")
			})
		}
	}
}

// rowsRead is how many rows of tables statements have read so far.
func rowsRead(b *testing.B, s *Store) uint64 {
	b.Helper()
	var read []struct {
		Sum uint64 `ch:"read"`
	}
	if err := s.conn.Select(b.Context(), &read, "SELECT sum(value) AS read FROM system.events WHERE event = 'SelectedRows'"); err != nil {
		b.Fatal(err)
	}
	return read[0].Sum
}
