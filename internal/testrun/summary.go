package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// line is one event of go test -json.
type line struct {
	Action     string
	Package    string
	ImportPath string // of a build event
	Test       string
	Elapsed    float64
	Output     string
}

// test names one test, or one package when name is empty.
type test struct{ pkg, name string }

// summary gathers what go test tells.
type summary struct {
	out     io.Writer
	output  map[test][]string
	skipped map[test]string // reason
	failing map[string]bool // packages with a failed test
	passed  int
	failed  int
}

func newSummary(out io.Writer) *summary {
	return &summary{out: out, output: make(map[test][]string), skipped: make(map[test]string), failing: make(map[string]bool)}
}

// read takes in every event until the stream ends. Lines that are no events are passed through.
func (s *summary) read(events io.Reader) error {
	r := bufio.NewReader(events)
	for {
		text, err := r.ReadString('\n')
		if strings.TrimSpace(text) != "" {
			var l line
			if json.Unmarshal([]byte(text), &l) == nil && l.Action != "" {
				s.take(l)
			} else {
				fmt.Fprint(s.out, text)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *summary) take(l line) {
	t := test{l.Package, l.Test}
	switch l.Action {
	case "output":
		s.output[t] = append(s.output[t], l.Output)
	case "build-output":
		fmt.Fprint(s.out, l.Output)
	case "pass", "fail", "skip":
		if l.Test == "" {
			s.endPackage(t, l)
		} else {
			s.endTest(t, l.Action)
		}
	}
}

func (s *summary) endTest(t test, action string) {
	switch action {
	case "pass":
		s.passed++
	case "fail":
		s.failed++
		s.failing[t.pkg] = true
		fmt.Fprint(s.out, strings.Join(s.output[t], ""))
	case "skip":
		s.skipped[t] = reason(s.output[t])
	}
	delete(s.output, t)
}

func (s *summary) endPackage(t test, l line) {
	switch {
	case l.Action == "fail":
		fmt.Fprint(s.out, strings.Join(s.output[t], "")) // a panic or a leak belongs to no test
		if !s.failing[t.pkg] {                           // it did not build, or broke outside its tests
			s.failed++
		}
		fmt.Fprintf(s.out, "FAIL  %s  %.1fs\n", t.pkg, l.Elapsed)
	case l.Action == "pass":
		fmt.Fprintf(s.out, "ok    %s  %.1fs\n", t.pkg, l.Elapsed)
	}
	delete(s.output, t)
}

// close tells what was skipped and why, grouped by reason, and the counts.
func (s *summary) close() {
	byReason := make(map[string][]string)
	for t, why := range s.skipped {
		byReason[why] = append(byReason[why], strings.TrimPrefix(t.pkg, "auditor/")+" "+t.name)
	}
	if len(byReason) > 0 {
		fmt.Fprintln(s.out, "\nSkipped:")
	}
	for _, why := range slices.Sorted(maps.Keys(byReason)) {
		fmt.Fprintf(s.out, "  %s\n", why)
		slices.Sort(byReason[why])
		for _, name := range byReason[why] {
			fmt.Fprintf(s.out, "    %s\n", name)
		}
	}
	fmt.Fprintf(s.out, "\n%d passed, %d failed, %d skipped\n", s.passed, s.failed, len(s.skipped))
}

// reason is what a skipped test said last.
func reason(output []string) string {
	why := "no reason given"
	for _, text := range output {
		text = strings.TrimSpace(text)
		if text == "" || strings.HasPrefix(text, "=== ") || strings.HasPrefix(text, "--- ") {
			continue
		}
		_, after, found := strings.Cut(text, ".go:") // file.go:12: the reason
		if _, told, ok := strings.Cut(after, ": "); found && ok {
			text = told
		}
		why = text
	}
	return why
}
