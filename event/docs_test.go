package event_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"auditor/event"
)

// The documentation for users must be true: its examples can be read, and it names every field, type and reason.
func TestDocumentation(t *testing.T) {
	data, err := os.ReadFile("../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	docs := string(data)
	d := newDecoder(t, event.DecoderConfig{})
	examples := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(docs, -1)
	if len(examples) < 5 {
		t.Errorf("found %d examples", len(examples))
	}
	for _, example := range examples {
		if _, rejects := d.Decode(event.Record{Value: []byte(example[1])}); len(rejects) > 0 {
			t.Errorf("rejected as %s: %s\n%s", rejects[0].Reason, rejects[0].Detail, example[1])
		}
	}
	fields := map[string]any{"outcome": nil}
	if err := json.Unmarshal([]byte(everyField), &fields); err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(between(docs, "## Fields", "## Formats"), -1)
	for _, row := range rows {
		if _, known := fields[row[1]]; !known {
			t.Errorf("%s is documented, but is no field", row[1])
		}
		delete(fields, row[1])
	}
	for name := range fields {
		t.Errorf("field %s is not documented", name)
	}
	for _, kind := range event.Types {
		if !strings.Contains(docs, "`"+string(kind)+"`") {
			t.Errorf("type %s is not documented", kind)
		}
	}
	rows = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\|").FindAllStringSubmatch(docs[strings.Index(docs, "## What cannot be read"):], -1)
	var reasons []event.Reason
	for _, row := range rows {
		reasons = append(reasons, event.Reason(row[1]))
	}
	if got, want := join(reasons), join(event.Reasons); got != want {
		t.Errorf("documented reasons\n%s\nwant\n%s", got, want)
	}
}

func between(s, from, to string) string {
	_, s, _ = strings.Cut(s, from)
	s, _, _ = strings.Cut(s, to)
	return s
}

func join(reasons []event.Reason) string {
	var names []string
	for _, r := range reasons {
		names = append(names, string(r))
	}
	return strings.Join(names, " ")
}
