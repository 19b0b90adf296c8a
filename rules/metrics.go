package rules

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts the rules' work.
type metrics struct {
	looks    *prometheus.CounterVec
	seconds  prometheus.Histogram
	suspects prometheus.Counter
	findings *prometheus.CounterVec
	judged   prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		looks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "auditor_rules_looks_total",
			Help: "Looks at what is new, by outcome."}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "auditor_rules_look_seconds",
			Help: "How long a look at what is new took.", Buckets: prometheus.ExponentialBuckets(0.005, 2, 14)}),
		suspects: prometheus.NewCounter(prometheus.CounterOpts{Name: "auditor_rules_suspects_total",
			Help: "Changed keys whose history was read, for they may be in trouble."}),
		findings: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "auditor_rules_findings_total",
			Help: "New findings, by rule and severity."}, []string{"rule", "severity"}),
		judged: prometheus.NewGauge(prometheus.GaugeOpts{Name: "auditor_rules_judged_time_seconds",
			Help: "When a look last left nothing to be judged: no change, no task that is due, no population."}),
	}
	for _, c := range []prometheus.Collector{m.looks, m.seconds, m.suspects, m.findings, m.judged} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) look(took time.Duration, err error) {
	outcome := "ok"
	if err != nil {
		outcome = "error"
	}
	m.looks.WithLabelValues(outcome).Inc()
	m.seconds.Observe(took.Seconds())
}

// userMetrics counts the evaluations of the rules that users wrote. There are as many labels as rules.
type userMetrics struct {
	runs    *prometheus.CounterVec
	failing *prometheus.GaugeVec
}

func newUserMetrics(registerer prometheus.Registerer) (*userMetrics, error) {
	m := &userMetrics{
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "auditor_user_rule_runs_total",
			Help: "Evaluations of rules that users wrote, by outcome."}, []string{"rule", "outcome"}),
		failing: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "auditor_user_rule_failing",
			Help: "1 while the last evaluation of a rule that a user wrote failed."}, []string{"rule"}),
	}
	for _, c := range []prometheus.Collector{m.runs, m.failing} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// begin has each rule's metrics there from the start.
func (m *userMetrics) begin(rule string) {
	m.failing.WithLabelValues(rule).Set(0)
	for _, outcome := range []string{"ok", "error"} {
		m.runs.WithLabelValues(rule, outcome)
	}
}
