package ingest

import (
	"github.com/prometheus/client_golang/prometheus"

	"auditor/event"
	"auditor/event/proof"
)

// metrics counts what passes through. Labels are topics, partitions, reasons of fixed lists: none comes from a record.
type metrics struct {
	records    *prometheus.CounterVec // topic
	events     *prometheus.CounterVec // topic
	rejects    *prometheus.CounterVec // topic, reason
	batches    *prometheus.CounterVec // topic
	lost       *prometheus.CounterVec // topic
	gaps       *prometheus.CounterVec // topic
	replays    *prometheus.CounterVec // outcome
	retries    *prometheus.CounterVec // side
	divided    *prometheus.CounterVec // cause
	checks     *prometheus.CounterVec // outcome
	batchRows  prometheus.Histogram
	insertTime prometheus.Histogram
}

// Outcomes of a range that had been sent before.
const (
	replayComplete = "complete" // all of it was stored and confirmed
	replayStored   = "stored"   // all of its rows were stored
	replayMissing  = "missing"  // none of its rows was stored
	replayPartial  = "partial"  // some of its rows were stored
)

// Sides to which a request is made.
const (
	sideKafka = "kafka"
	sideStore = "store"
)

// Causes for which a batch is divided.
const (
	dividedByContent = "content"
	dividedBySize    = "size"
)

// Outcomes of a comparison of a partition.
const (
	checkComplete   = "complete"
	checkIncomplete = "incomplete"
	checkFailed     = "failed" // the store could not be asked
)

func newMetrics(r prometheus.Registerer, topics []string, b *budget, status func() Status, proofs func() []proof.Proof) *metrics {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "auditor", Subsystem: "ingest", Name: name, Help: help}, labels)
		r.MustRegister(v)
		return v
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "auditor", Subsystem: "ingest", Name: name, Help: help, Buckets: buckets})
		r.MustRegister(h)
		return h
	}
	m := &metrics{
		records:    vec("records_total", "Kafka records stored.", "topic"),
		events:     vec("events_total", "Events stored.", "topic"),
		rejects:    vec("rejects_total", "Records or elements that could not be read as an event, stored with their bytes.", "topic", "reason"),
		batches:    vec("batches_total", "Batches stored.", "topic"),
		lost:       vec("lost_offsets_total", "Offsets that retention deleted before they were read.", "topic"),
		gaps:       vec("gaps_total", "Ranges that retention deleted before they were read.", "topic"),
		replays:    vec("replays_total", "Ranges compared with the store because they may have been sent before, by what was found.", "outcome"),
		retries:    vec("retries_total", "Requests that failed and were made again, by side.", "side"),
		divided:    vec("divided_batches_total", "Batches that the store refused and that were sent in parts, by cause.", "cause"),
		checks:     vec("verify_checks_total", "Comparisons of a partition in the background, by what was found.", "outcome"),
		batchRows:  histogram("batch_rows", "Events and rejects in a batch.", prometheus.ExponentialBuckets(1, 4, 10)),
		insertTime: histogram("insert_seconds", "Time of one attempt to insert a batch.", prometheus.ExponentialBuckets(0.001, 2.5, 12)),
	}
	for _, topic := range topics { // a rate begins with the first of its kind only where the counter was there before
		for _, c := range []*prometheus.CounterVec{m.records, m.events, m.batches, m.lost, m.gaps} {
			c.WithLabelValues(topic)
		}
		for _, reason := range event.Reasons {
			m.rejects.WithLabelValues(topic, string(reason))
		}
	}
	for _, side := range []string{sideKafka, sideStore} {
		m.retries.WithLabelValues(side)
	}
	for _, outcome := range []string{replayComplete, replayStored, replayMissing, replayPartial} {
		m.replays.WithLabelValues(outcome)
	}
	for _, cause := range []string{dividedByContent, dividedBySize} {
		m.divided.WithLabelValues(cause)
	}
	for _, outcome := range []string{checkComplete, checkIncomplete, checkFailed} {
		m.checks.WithLabelValues(outcome)
	}
	r.MustRegister(&statusCollector{status: status, budget: b}, &proofCollector{proofs: proofs})
	return m
}

var (
	assignedDesc = prometheus.NewDesc("auditor_ingest_assigned", "1 while this process is in the consumer group and knows its partitions.", nil, nil)
	lagDesc      = prometheus.NewDesc("auditor_ingest_lag", "Records of a partition that are not yet in the store.", []string{"topic", "partition"}, nil)
	nextDesc     = prometheus.NewDesc("auditor_ingest_next_offset", "Next offset of a partition to read.", []string{"topic", "partition"}, nil)
	stoppedDesc  = prometheus.NewDesc("auditor_ingest_stopped_partitions", "Partitions that stand still until somebody acts, by reason.", []string{"reason"}, nil)
	takenDesc    = prometheus.NewDesc("auditor_ingest_memory_bytes", "What is taken of the memory that all batches in flight may take together.", nil, nil)
	waitingDesc  = prometheus.NewDesc("auditor_ingest_memory_waiting", "Partitions that wait for memory, and fetch nothing meanwhile.", nil, nil)
)

// statusCollector tells the status as metrics, so that a partition that was given up disappears from them.
type statusCollector struct {
	status func() Status
	budget *budget
}

// Describe names the metrics.
func (c *statusCollector) Describe(out chan<- *prometheus.Desc) {
	out <- assignedDesc
	out <- lagDesc
	out <- nextDesc
	out <- stoppedDesc
	out <- takenDesc
	out <- waitingDesc
}

// Collect reads the status.
func (c *statusCollector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	s := c.status()
	assigned := 0.0
	if s.Assigned {
		assigned = 1
	}
	gauge(assignedDesc, assigned)
	taken, waiting := c.budget.state()
	gauge(takenDesc, float64(taken))
	gauge(waitingDesc, float64(waiting))
	stopped := make(map[Reason]int)
	for _, p := range s.Partitions {
		if p.Stopped != "" {
			stopped[p.Stopped]++
		}
		if p.Next >= 0 {
			number := itoa(p.Partition)
			gauge(lagDesc, float64(p.Lag), p.Topic, number)
			gauge(nextDesc, float64(p.Next), p.Topic, number)
		}
	}
	for _, reason := range Reasons {
		gauge(stoppedDesc, float64(stopped[reason]), string(reason))
	}
}

var (
	verifiedDesc   = prometheus.NewDesc("auditor_ingest_verified_offset", "Offset of a partition before which all was compared: Kafka, the ledger and the tables.", []string{"topic", "partition"}, nil)
	verifiedAtDesc = prometheus.NewDesc("auditor_ingest_verified_timestamp_seconds", "When a partition was last compared.", []string{"topic", "partition"}, nil)
	missingDesc    = prometheus.NewDesc("auditor_ingest_missing", "Records of a partition of which rows are not in the tables.", []string{"topic", "partition"}, nil)
	duplicatesDesc = prometheus.NewDesc("auditor_ingest_duplicates", "Rows of a partition that lie in the tables beside another of the same place.", []string{"topic", "partition"}, nil)
	holesDesc      = prometheus.NewDesc("auditor_ingest_ledger_holes", "Offsets of a partition that the ledger does not cover, between others that it does.", []string{"topic", "partition"}, nil)
)

// proofCollector tells what is known of this process's partitions, so that one that was given up disappears.
type proofCollector struct{ proofs func() []proof.Proof }

// Describe names the metrics.
func (c *proofCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{verifiedDesc, verifiedAtDesc, missingDesc, duplicatesDesc, holesDesc} {
		out <- d
	}
}

// Collect reads what is known.
func (c *proofCollector) Collect(out chan<- prometheus.Metric) {
	for _, p := range c.proofs() {
		gauge := func(d *prometheus.Desc, v int64) {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), p.Topic, itoa(p.Partition))
		}
		gauge(verifiedDesc, p.Next)
		gauge(missingDesc, proof.Count(p.Troubles, proof.Missing))
		gauge(duplicatesDesc, proof.Count(p.Troubles, proof.Doubled))
		gauge(holesDesc, proof.Count(p.Troubles, proof.Hole))
		if !p.Checked.IsZero() {
			gauge(verifiedAtDesc, p.Checked.Unix())
		}
	}
}
