package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// result is all that was measured.
type result struct {
	broker     string
	events     int
	eventBytes float64 // of a record's value, on average
	ways       []measured
	storage    storage
	celery     storage // zero where it was left out
}

// measured is one way's turns, one a round.
type measured struct {
	name  string
	turns []turn
}

func (m *measured) median(of func(turn) float64) float64 {
	var values []float64
	for _, t := range m.turns {
		values = append(values, of(t))
	}
	return median(values)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	middle := len(values) / 2
	if len(values)%2 == 1 {
		return values[middle]
	}
	return (values[middle-1] + values[middle]) / 2
}

// way gives what was measured of a way: no turns where it was left out.
func (r *result) way(name string) *measured {
	for i := range r.ways {
		if r.ways[i].name == name {
			return &r.ways[i]
		}
	}
	return &measured{}
}

// ratio is the median over the rounds of how a way's rate compares to the lowest of others' in the same round; 0 where
// one of them was not measured.
func (r *result) ratio(name string, others ...string) float64 {
	a := r.way(name)
	var values []float64
	for i, t := range a.turns {
		lowest := 0.0
		for _, other := range others {
			b := r.way(other)
			if len(b.turns) == 0 {
				return 0
			}
			if rate := b.turns[i].rate; lowest == 0 || rate < lowest {
				lowest = rate
			}
		}
		values = append(values, t.rate/lowest)
	}
	return median(values)
}

// perMillion is a median of seconds for a million events.
func (r *result) perMillion(m *measured, of func(turn) time.Duration) float64 {
	return m.median(func(t turn) float64 { return of(t).Seconds() / float64(r.events) * 1e6 })
}

func (r *result) print(w io.Writer) error {
	fmt.Fprintf(w, "%d events of %.0f bytes; broker: %s; medians of %d rounds\n\n", r.events, r.eventBytes, r.broker, len(r.ways[0].turns))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "way\tevents/s\tCPU s a million: ingester\tengine\tbroker\tpeak MiB\t")
	for i := range r.ways {
		m := &r.ways[i]
		fmt.Fprintf(table, "%s\t%.0f\t%.2f\t%.2f\t%.2f\t%.0f\t\n", m.name, m.median(func(t turn) float64 { return t.rate }),
			r.perMillion(m, func(t turn) time.Duration { return t.ingester }), r.perMillion(m, func(t turn) time.Duration { return t.engine }),
			r.perMillion(m, func(t turn) time.Duration { return t.broker }), m.median(func(t turn) float64 { return float64(t.peak) / (1 << 20) }))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, views := range []string{"feed", "all"} {
		if len(r.way(wayAuditor+", "+views).turns) > 0 {
			fmt.Fprintf(w, "\nauditor, %s: %.2f times the Kafka engine, %.2f of the lower ceiling", views, r.overEngine(views), r.ofCeiling(views))
		}
	}
	fmt.Fprintln(w)
	r.storage.print(w, "auditor JSON")
	if r.celery.events > 0 {
		r.celery.print(w, "raw Celery events")
	}
	return r.printJSON(w)
}

func (r *result) overEngine(views string) float64 {
	return r.ratio(wayAuditor+", "+views, wayEngine+", "+views)
}

func (r *result) ofCeiling(views string) float64 {
	return r.ratio(wayAuditor+", "+views, wayFetch, wayInsert+", "+views)
}

// printJSON writes the last line. Its first five figures are those of the feed or, where only that was measured, of all views.
func (r *result) printJSON(w io.Writer) error {
	views := "feed"
	if len(r.way(wayAuditor+", feed").turns) == 0 {
		views = "all"
	}
	rates := map[string]int{}
	for i := range r.ways {
		rates[r.ways[i].name] = int(r.ways[i].median(func(t turn) float64 { return t.rate }))
	}
	auditor := r.way(wayAuditor + ", " + views)
	ingester := r.perMillion(auditor, func(t turn) time.Duration { return t.ingester })
	engine := r.perMillion(auditor, func(t turn) time.Duration { return t.engine })
	return json.NewEncoder(w).Encode(struct {
		Ratio        float64        `json:"ratio_kafka_engine"`
		Fraction     float64        `json:"fraction_of_ceiling"`
		Bytes        float64        `json:"bytes_per_event"`
		CPU          float64        `json:"cpu_seconds_per_million"`
		Peak         float64        `json:"peak_rss_mib"`
		RatioAll     float64        `json:"ratio_kafka_engine_all_views"`
		FractionAll  float64        `json:"fraction_of_ceiling_all_views"`
		AuditorCPU   float64        `json:"auditor_cpu"`
		EngineCPU    float64        `json:"engine_cpu"`
		BytesArrived float64        `json:"bytes_per_event_before_merges"`
		BytesAll     float64        `json:"bytes_per_event_all_tables"`
		CeleryBytes  float64        `json:"celery_bytes_per_event"`
		CeleryAll    float64        `json:"celery_bytes_per_event_all_tables"`
		Rates        map[string]int `json:"rows_per_second"`
		Broker       string         `json:"broker"`
		Events       int            `json:"events"`
		Rounds       int            `json:"rounds"`
		SourceBytes  float64        `json:"source_bytes_per_event"`
	}{
		round(r.overEngine(views)), round(r.ofCeiling(views)), round(r.storage.events), round(ingester + engine),
		round(auditor.median(func(t turn) float64 { return float64(t.peak) / (1 << 20) })), round(r.overEngine("all")), round(r.ofCeiling("all")),
		round(ingester), round(engine), round(r.storage.arrived), round(r.storage.all), round(r.celery.events), round(r.celery.all), rates,
		r.broker, r.events, len(auditor.turns), round(r.eventBytes),
	})
}

// round cuts a figure to three decimals.
func round(x float64) float64 { return float64(int(x*1000+0.5)) / 1000 }
