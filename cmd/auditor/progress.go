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

// How often progress is told: a line on a terminal is written over, elsewhere each stays.
const (
	terminalEvery = 2 * time.Second
	lineEvery     = 30 * time.Second
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
	every := lineEvery
	if p.terminal {
		every = terminalEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	width := 0
	for {
		select {
		case <-ctx.Done():
			if p.terminal {
				fmt.Fprintln(p.out)
			}
			return nil
		case <-tick.C:
		}
		line := p.line(ctx)
		if !p.terminal {
			fmt.Fprintln(p.out, line)
			continue
		}
		fmt.Fprintf(p.out, "\r%-*s", width, line)
		width = len(line)
	}
}

func (p *progress) line(ctx context.Context) string {
	var stored, lag int64
	for _, s := range p.ingested().Partitions {
		stored += max(s.Next, 0)
		lag += s.Lag
	}
	parts := []string{count(int(stored), "event"), fmt.Sprintf("lag %d", lag)}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	counts, err := p.findings(ctx)
	if err != nil {
		return strings.Join(parts, ", ")
	}
	return strings.Join(append(parts, "open findings: "+byRule(counts)), ", ")
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
