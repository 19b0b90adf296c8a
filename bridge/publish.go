package bridge

import (
	"context"
	"time"

	"auditor/event"
)

// attempt is how long Kafka may take until it is told that it does not take events.
const attempt = 30 * time.Second

// publish publishes what the queue holds until that is closed and empty, and gives how many events were left when ctx ended.
func (b *Bridge) publish(ctx context.Context) (left int) {
	for {
		batch := b.queue.gather()
		if len(batch) == 0 {
			return left
		}
		if ctx.Err() != nil || !b.deliver(ctx, batch) {
			left += len(batch)
		}
		b.queue.release(batch)
	}
}

// deliver publishes a batch, as often as it takes, and reports whether Kafka has it.
func (b *Bridge) deliver(ctx context.Context, batch []event.Record) bool {
	var wait backoff
	for {
		limited, stop := context.WithTimeout(ctx, attempt)
		refused, err := b.publisher.Publish(limited, batch)
		stop()
		if err == nil {
			for _, why := range refused {
				b.log.Error("Kafka does not take an event, which is lost", "error", why)
			}
			b.metrics.refused.Add(float64(len(refused)))
			b.metrics.published.Add(float64(len(batch) - len(refused)))
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		b.log.Error("Kafka does not take events, trying again", "events", len(batch), "buffered", b.queue.len(), "error", err)
		if !pause(ctx, wait.next()) {
			return false
		}
	}
}
