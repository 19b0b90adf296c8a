package main

import (
	"io"
	"strings"
	"testing"
)

// Scripts and supervisors tell a command line that makes no sense from what went wrong.
func TestExitCodes(t *testing.T) {
	for _, test := range []struct {
		line string
		want int
	}{
		{"--help", 0},
		{"version", 0},
		{"config check", 0},
		{"", 2},
		{"runn", 2},
		{"run --lisen 127.0.0.1:1", 2},
		{"run --roles painter", 2},
		{"demo --listen nowhere", 2},
		{"run --embedded --log-level loud", 2},
		{"--config gone.yaml config check", 1},
		{"run", 1}, // no server is named
		{"evaluate gone.jsonl", 1},
		{"review", 1}, // no server is named
		{"review --since whenever", 2},
		{"review --since 1h --file gone.jsonl", 2},
		{"review --file gone.jsonl", 1},
		{"rejects", 2},
		{"rejects show here", 2},
		{"rejects replay", 2},
		{"rejects list", 1}, // no server is named
		{"verify --from whenever", 2},
		{"verify --from 5", 2}, // of which partition?
		{"verify", 3},
	} {
		err := run(t.Context(), strings.Fields(test.line), func(string) string { return "" }, strings.NewReader(""), io.Discard, io.Discard)
		if got := report(err, io.Discard); got != test.want {
			t.Errorf("auditor %s: exit code %d, want %d (%v)", test.line, got, test.want, err)
		}
	}
}
