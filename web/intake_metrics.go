package web

import "github.com/prometheus/client_golang/prometheus"

type intakeMetrics struct {
	events  *prometheus.CounterVec
	rejects *prometheus.CounterVec
	refused *prometheus.CounterVec
	bytes   prometheus.Counter
	seconds prometheus.Histogram
}

func newIntakeMetrics(registerer prometheus.Registerer) *intakeMetrics {
	m := &intakeMetrics{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "auditor_intake_events_total", Help: "Events sent over HTTP: accepted, rejected, or unconfirmed by Kafka.",
		}, []string{"outcome"}),
		rejects: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "auditor_intake_rejects_total", Help: "Events sent over HTTP that could not be read, by reason.",
		}, []string{"reason"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "auditor_intake_refused_total", Help: "Requests with events that were refused as a whole: closed, token, scope, rate, busy, size, form, or kafka.",
		}, []string{"why"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "auditor_intake_bytes_total", Help: "Bytes of events sent over HTTP, unpacked.",
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "auditor_intake_kafka_seconds", Help: "Time until Kafka had acknowledged the events of a request.",
			Buckets: []float64{.005, .02, .1, .5, 2, 10},
		}),
	}
	if registerer != nil {
		registerer.MustRegister(m.events, m.rejects, m.refused, m.bytes, m.seconds)
	}
	return m
}
