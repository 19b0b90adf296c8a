package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// rulesResult is what a benchmark of the rules measured.
type rulesResult struct {
	options rulesOptions
	sizes   [2]sized // small, large
}

// sized is what was measured with one number of events stored.
type sized struct {
	events     int
	parts      int // of the table events
	start      time.Duration
	ticks      []tick
	statements []statementCost
}

// tick is what the rules' look at the new events came to.
type tick struct {
	wall            time.Duration
	engine, auditor time.Duration // processor time, with that of the merges of what the look wrote
	ingest          time.Duration // processor time that the same events took to ingest
	rows            int           // read by the engine
	keys            keyCounts
}

func (t *tick) cpu() time.Duration { return t.engine + t.auditor }

// statementCost is what one statement came to in a tick.
type statementCost struct {
	name               string
	calls              int
	rows, parts, marks int
	time, cpu          time.Duration
}

func (s *sized) median(of func(*tick) float64) float64 {
	var values []float64
	for i := range s.ticks {
		values = append(values, of(&s.ticks[i]))
	}
	return median(values)
}

func (s *sized) wall() float64 {
	return s.median(func(t *tick) float64 { return t.wall.Seconds() * 1000 })
}
func (s *sized) cpu() float64 { return s.median(func(t *tick) float64 { return t.cpu().Seconds() }) }
func (s *sized) ingest() float64 {
	return s.median(func(t *tick) float64 { return t.ingest.Seconds() })
}
func (s *sized) rows() float64 { return s.median(func(t *tick) float64 { return float64(t.rows) }) }

// ratio is what the ticks took of a processor in parts of what it took to ingest the same events, all together: some of them judge
// the populations too.
func (s *sized) ratio() float64 {
	var ticks, ingest time.Duration
	for i := range s.ticks {
		ticks, ingest = ticks+s.ticks[i].cpu(), ingest+s.ticks[i].ingest
	}
	return ticks.Seconds() / max(ingest.Seconds(), 0.01)
}

// longest is the longest tick, in milliseconds.
func (s *sized) longest() (ms float64) {
	for i := range s.ticks {
		ms = max(ms, s.ticks[i].wall.Seconds()*1000)
	}
	return ms
}

// share is the part of the keys that has a past, as a fraction.
func (s *sized) share(of func(keyCounts) int) float64 {
	return s.median(func(t *tick) float64 { return float64(of(t.keys)) / float64(max(t.keys.keys, 1)) })
}

func (r *rulesResult) print(w io.Writer) error {
	small, large := &r.sizes[0], &r.sizes[1]
	fmt.Fprintf(w, "ticks of the rules over %d new events each; medians of %d\n\n", r.options.fresh, r.options.ticks)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "events stored\tparts\ttick ms\tCPU s: engine\tauditor\tto ingest them\trows read\tkeys\twith an old past\ta recent one\tfirst look ms\t")
	for _, s := range []*sized{small, large} {
		fmt.Fprintf(table, "%d\t%d\t%.0f\t%.2f\t%.2f\t%.2f\t%.0f\t%.0f\t%.0f %%\t%.0f %%\t%.0f\t\n", s.events, s.parts, s.wall(),
			s.median(func(t *tick) float64 { return t.engine.Seconds() }), s.median(func(t *tick) float64 { return t.auditor.Seconds() }),
			s.ingest(), s.rows(), s.median(func(t *tick) float64 { return float64(t.keys.keys) }),
			100*s.share(keyCounts.ofOld), 100*s.share(keyCounts.ofRecent), s.start.Seconds()*1000)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, s := range []*sized{small, large} {
		if err := s.printStatements(w); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	return json.NewEncoder(w).Encode(struct {
		TickSmall   float64 `json:"tick_ms_10m"`
		TickLarge   float64 `json:"tick_ms_100m"`
		Growth      float64 `json:"growth"`
		Ratio       float64 `json:"cpu_ratio_to_ingest"`
		RatioSmall  float64 `json:"cpu_ratio_to_ingest_10m"`
		CPU         float64 `json:"tick_cpu_seconds"`
		Ingest      float64 `json:"ingest_cpu_seconds"`
		Longest     float64 `json:"longest_tick_ms_100m"`
		RowsSmall   float64 `json:"rows_read_10m"`
		RowsLarge   float64 `json:"rows_read_100m"`
		Known       float64 `json:"keys_with_an_old_past"`
		Recent      float64 `json:"keys_with_a_recent_past"`
		EventsSmall int     `json:"events_10m"`
		EventsLarge int     `json:"events_100m"`
		New         int     `json:"new_events"`
		Ticks       int     `json:"ticks"`
	}{
		round(small.wall()), round(large.wall()), round(large.wall() / small.wall()), round(large.ratio()),
		round(small.ratio()), round(large.cpu()), round(large.ingest()), round(large.longest()), small.rows(), large.rows(),
		round(large.share(keyCounts.ofOld)), round(large.share(keyCounts.ofRecent)),
		small.events, large.events, r.options.fresh, r.options.ticks,
	})
}

func (c keyCounts) ofOld() int    { return c.old }
func (c keyCounts) ofRecent() int { return c.recent }

// printStatements tells what the statements of one tick read.
func (s *sized) printStatements(w io.Writer) error {
	if len(s.statements) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\none tick, by statement, with %d events stored\n\n", s.events)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "statement\tcalls\tms\tCPU ms\trows read\tparts\tgranules\t")
	for _, c := range s.statements {
		fmt.Fprintf(table, "%s\t%d\t%.1f\t%.1f\t%d\t%d\t%d\t\n", c.name, c.calls, c.time.Seconds()*1000, c.cpu.Seconds()*1000, c.rows, c.parts, c.marks)
	}
	return table.Flush()
}
