package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"auditor/event/finding"
	"auditor/event/view"
	"auditor/ingest"
)

// How often progress is looked at, and told. A line on a terminal is written over; elsewhere each stays, so one is told
// when other findings are open than before, and now and then.
const (
	lookEvery = 2 * time.Second
	lineEvery = 30 * time.Second
)

// progress tells in one line how the demo is doing.
type progress struct {
	out      io.Writer
	terminal bool
	ingested func() ingest.Status
	findings func(context.Context) ([]view.FindingCount, error)
}

// run tells until ctx ends. What cannot be known just now is left out: this is no place for alarms.
func (p *progress) run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	width, told, findings := 0, time.Time{}, ""
	for {
		select {
		case <-ctx.Done():
			if p.terminal {
				fmt.Fprintln(p.out)
			}
			return nil
		case <-tick.C:
		}
		events, open := p.look(ctx)
		line := events + open
		switch {
		case p.terminal:
			fmt.Fprintf(p.out, "\r%-*s", width, line)
			width = len(line)
		case open != findings || time.Since(told) >= lineEvery:
			fmt.Fprintln(p.out, line)
			told, findings = time.Now(), open
		}
	}
}

// look tells of events and, where they can be known, of findings.
func (p *progress) look(ctx context.Context) (events, open string) {
	var stored, lag int64
	for _, s := range p.ingested().Partitions {
		stored += max(s.Next, 0)
		lag += s.Lag
	}
	events = fmt.Sprintf("%s, lag %d", count(int(stored), "event"), lag)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	counts, err := p.findings(ctx)
	if err != nil {
		return events, ""
	}
	return events, ", open findings: " + byRule(counts)
}

// byRule is how many findings of each rule are not resolved, in the order in which the store gives the rules.
func byRule(counts []view.FindingCount) string {
	var rules []string
	number := make(map[string]int)
	for _, c := range counts {
		if c.State == finding.Resolved {
			continue
		}
		if number[c.Rule] == 0 {
			rules = append(rules, c.Rule)
		}
		number[c.Rule] += c.Count
	}
	if len(rules) == 0 {
		return "none yet"
	}
	for i, rule := range rules {
		rules[i] = fmt.Sprintf("%s %d", rule, number[rule])
	}
	return strings.Join(rules, ", ")
}
