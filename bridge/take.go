package bridge

import (
	"encoding/json"
	"strconv"

	"auditor/event"
)

// take takes over what a message tells. It is called by one goroutine at a time, and never waits.
func (b *Bridge) take(m Message) {
	b.metrics.messages.Inc()
	events, reason, detail := m.events()
	if reason != "" {
		b.skip(reason, detail)
		return
	}
	for _, raw := range events {
		b.takeOne(raw)
	}
}

func (b *Bridge) takeOne(raw json.RawMessage) {
	events, rejects := b.decoder.Decode(event.Record{Value: raw})
	if len(rejects) > 0 {
		b.skip(rejects[0].Reason, rejects[0].Detail)
		return
	}
	e := &events[0]
	if len(events) != 1 || e.System != "celery" || e.Emitter != "" || e.Seq != event.Unknown || raw[0] != '{' {
		b.skip(event.ReasonUnknownType, "no event of Celery's own")
		return
	}
	b.weigh(raw, e)
	b.hold(event.Record{Key: event.RecordOf(e).Key, Value: b.numbers.write(raw)})
}

// hold puts a record into the buffer, or drops it where that is full. It tells of the first that is dropped, and when there is room again.
func (b *Bridge) hold(r event.Record) {
	held := b.queue.offer(r)
	switch {
	case held && b.dropping > 0:
		b.log.Info("the buffer has room again", "dropped", b.dropping)
		b.dropping = 0
	case !held:
		if b.dropping++; b.dropping == 1 {
			b.log.Warn("the buffer is full: events are dropped until Kafka takes some")
		}
		b.metrics.dropped.Inc()
	}
}

// weigh looks for what a worker's heartbeats and clock say of events that did not arrive.
func (b *Bridge) weigh(raw json.RawMessage, e *event.Event) {
	var s sign
	if err := json.Unmarshal(raw, &s); err != nil {
		return // numbers of another kind: the event counts, its signs do not
	}
	found := b.workers.hear(worker{e.Worker, e.PID}, s, e.Type == event.Started)
	if found.unheard > 0 {
		b.metrics.unheard.Add(float64(found.unheard))
	}
	if found.lost > 0 && !b.config.SilentTasks {
		b.numbers.skip(found.lost)
		b.metrics.lost.Add(float64(found.lost))
		b.log.Warn("a worker started more tasks than it was heard to: events were lost on their way to the broker or to here",
			"worker", e.Worker, "starts", found.lost)
	}
}

// skip counts what is no event, and tells of the first of its kind.
func (b *Bridge) skip(reason event.Reason, detail string) {
	b.metrics.skipped.WithLabelValues(string(reason)).Inc()
	if !b.told[reason] {
		b.told[reason] = true
		b.log.Warn("left out what is no event of Celery's; the next of this kind are only counted", "reason", reason, "detail", detail)
	}
}

// numbers gives events the bridge's name and their numbers.
type numbers struct {
	emitter string
	next    int64
}

// skip leaves numbers out.
func (n *numbers) skip(count int64) { n.next += count }

// write gives the event, an object, its number.
func (n *numbers) write(object []byte) []byte {
	name, _ := json.Marshal(n.emitter) // a string always can be
	out := make([]byte, 0, len(object)+len(name)+40)
	out = append(out, `{"emitter":`...)
	out = append(out, name...)
	out = append(out, `,"seq":`...)
	out = strconv.AppendInt(out, n.next, 10)
	out = append(out, ',')
	n.next++
	return append(out, object[1:]...)
}
