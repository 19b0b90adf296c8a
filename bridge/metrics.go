package bridge

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"auditor/event"
)

// metrics counts what passes through. The labels are of a fixed list.
type metrics struct {
	messages, published, dropped, refused, lost, unheard, outages, away prometheus.Counter

	skipped *prometheus.CounterVec // reason
}

func newMetrics(r prometheus.Registerer, q *queue, connected func() bool) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "auditor", Subsystem: "bridge", Name: name, Help: help})
		r.MustRegister(c)
		return c
	}
	gauge := func(name, help string, value func() float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "auditor", Subsystem: "bridge", Name: name, Help: help}, value))
	}
	gauge("connected", "1 while the broker's events arrive, 0 otherwise.", func() float64 {
		if connected() {
			return 1
		}
		return 0
	})
	gauge("buffered_events", "Events held until Kafka takes them.", func() float64 { return float64(q.len()) })
	gauge("buffered_bytes", "Bytes of the events held, and of those being published.", func() float64 { return float64(q.bytes.Load()) })
	m := &metrics{
		messages:  counter("messages_total", "Messages from the broker, each with one event or more."),
		published: counter("published_events_total", "Events that Kafka has."),
		dropped:   counter("dropped_events_total", "Events dropped because the buffer was full."),
		refused:   counter("refused_events_total", "Events that Kafka will never take."),
		lost:      counter("lost_starts_total", "Starts of tasks that heartbeats prove and nobody told of: at least as many events were lost before they came here."),
		unheard:   counter("unheard_clocks_total", "Clocks of workers between heartbeats that came with no event: at most as many events of these were lost before they came here."),
		outages:   counter("outages_total", "Times that the connection to the broker was lost."),
		away:      counter("outage_seconds_total", "Seconds without connection, after the first."),
		skipped: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "auditor", Subsystem: "bridge", Name: "skipped_total",
			Help: "Messages and events left out because they are none that the auditor knows."}, []string{"reason"}),
	}
	r.MustRegister(m.skipped)
	for _, reason := range slices.Concat(event.Reasons, []event.Reason{reasonEnvelope, reasonContentType}) {
		m.skipped.WithLabelValues(string(reason))
	}
	return m
}
