package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// The last line of what a run says is one JSON object with what counts.
func TestLastLine(t *testing.T) {
	s := newStream(1, opening, 5*time.Hour, 5000)
	read(s)
	r := newReport(1, s, compare(&s.truth, nil), 0)
	var said bytes.Buffer
	r.print(&said)
	if err := r.printLine(&said); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(said.String()), "\n")
	var last map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatal(err)
	}
	if last["tasks"].(float64) < 5000 || last["precision"] != 1.0 || last["recall"] != 0.0 || r.perfect() {
		t.Errorf("nothing was found, and it says %v", last)
	}
}

func TestRefusedOptions(t *testing.T) {
	for _, args := range []string{"-tasks 10", "-span 1h", "-span 30h", "-seed x", "-auditor /nowhere", "rest"} {
		if err := command(t.Context(), append([]string{"-auditor", "/bin/true"}, strings.Fields(args)...), new(bytes.Buffer)); err == nil {
			t.Errorf("%s is taken", args)
		}
	}
}
