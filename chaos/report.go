package main

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"
)

// report is what came of a trial, as its last line tells it.
type report struct {
	Seed   uint64 `json:"seed"`
	Broker string `json:"broker"`
	Faults int    `json:"faults"`
	verdict
	Problems   int          `json:"problems"` // beside what the checker finds: ends that were not clean, time limits that passed
	Seconds    float64      `json:"seconds"`
	CPUSeconds float64      `json:"cpu_seconds"` // of this process and all that it started
	Clean      bool         `json:"clean"`
	Kinds      map[kind]int `json:"kinds"`

	problems []string
}

// judge fills in what follows from the rest.
func (r *report) judge(t *trial) {
	r.Faults = t.faults()
	if r.Faults < t.least() {
		r.problems = append(r.problems, fmt.Sprintf("only %d faults happened, of %d at least", r.Faults, t.least()))
	}
	r.Problems = len(r.problems)
	r.Clean = r.verdict.clean() && r.Problems == 0
}

// print says what came of it: a table, what is wrong, and one JSON object.
func (r *report) print(w io.Writer) error {
	fmt.Fprintln(w)
	for _, o := range often {
		fmt.Fprintf(w, "%4d  %s\n", r.Kinds[o.kind], o.kind)
	}
	fmt.Fprintf(w, "%4d  faults\n\n", r.Faults)
	for _, count := range []struct {
		n    int
		what string
	}{
		{r.Events, "events in the log"}, {r.Rejects, "records and elements that are none"}, {r.Missing, "events missing"},
		{r.RejectsMissing, "rejects missing"}, {r.Duplicates, "rows twice"}, {r.Unexpected, "rows of nothing"}, {r.Wrong, "rows wrong"},
		{r.Ledger, "faults of the ledger"}, {r.Derived, "rows of derived tables missing or wrong"},
		{r.FalseFindings, "false findings"}, {r.MissedFindings, "findings missed"}, {r.Problems, "other problems"},
	} {
		fmt.Fprintf(w, "%8d  %s\n", count.n, count.what)
	}
	for _, example := range r.examples {
		fmt.Fprintln(w, "WRONG:", example)
	}
	for _, problem := range r.problems {
		fmt.Fprintln(w, "PROBLEM:", problem)
	}
	line, err := json.Marshal(r)
	if err == nil {
		_, err = fmt.Fprintf(w, "\n%s\n", line)
	}
	return err
}

// printSeries says what came of several trials: a line for each, and one JSON object.
func printSeries(w io.Writer, reports []*report) {
	sum := struct {
		Trials int `json:"trials"`
		Clean  int `json:"clean"`
		Faults int `json:"faults"`
		Events int `json:"events"`
	}{Trials: len(reports)}
	fmt.Fprintf(w, "\n%6s %-9s %7s %8s %8s  %s\n", "seed", "broker", "faults", "events", "seconds", "")
	for _, r := range reports {
		says := "NOT CLEAN"
		if r.Clean {
			says = "clean"
			sum.Clean++
		}
		sum.Faults, sum.Events = sum.Faults+r.Faults, sum.Events+r.Events
		fmt.Fprintf(w, "%6d %-9s %7d %8d %8.1f  %s\n", r.Seed, r.Broker, r.Faults, r.Events, r.Seconds, says)
	}
	line, _ := json.Marshal(sum) // it has nothing that could not be encoded
	fmt.Fprintf(w, "\n%s\n", line)
}

// console prints lines with the time since the stream began.
type console struct {
	mu    sync.Mutex
	w     io.Writer
	begun time.Time
}

func newConsole(w io.Writer) *console { return &console{w: w, begun: time.Now()} }

func (c *console) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun = time.Now()
}

func (c *console) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.w, "%6.1fs  %s\n", time.Since(c.begun).Seconds(), fmt.Sprintf(format, args...))
}
