package rules

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
)

// quote cites an event as evidence.
func quote(e *event.Event, says string) finding.Evidence {
	return finding.Evidence{Says: says, EventID: e.ID, Type: e.Type, Time: e.Time, Worker: e.Worker, TaskID: e.TaskID,
		Topic: e.Topic, Partition: e.Partition, Offset: e.Offset, Index: e.Index}
}

// clock writes a moment with its zone, to the millisecond.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000Z") }

// span writes a duration as a person would: 9.3 s, 3 m, 1 h 0 m 1 s.
func span(d time.Duration) string {
	if d < 0 {
		return "-" + span(-d)
	}
	if d < time.Minute {
		if d < time.Second {
			return fmt.Sprintf("%d ms", d.Milliseconds())
		}
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	d = d.Round(time.Second)
	var parts []string
	if h := d / time.Hour; h > 0 {
		parts = append(parts, fmt.Sprintf("%d h", h))
	}
	if m := d / time.Minute % 60; m > 0 || len(parts) > 0 {
		parts = append(parts, fmt.Sprintf("%d m", m))
	}
	parts = append(parts, fmt.Sprintf("%d s", d/time.Second%60))
	for strings.HasPrefix(parts[len(parts)-1], "0 ") {
		parts = parts[:len(parts)-1]
	}
	return strings.Join(parts, " ")
}

// sameDay leaves out the date of moments on the day that was named last, so that a text reads as it would be told.
func sameDay(text string) string {
	named := ""
	return date.ReplaceAllStringFunc(text, func(d string) string {
		if d == named {
			return ""
		}
		named = d
		return d
	})
}

var date = regexp.MustCompile(`\d{4}-\d{2}-\d{2} `)

func times(n int) string {
	if n == 2 {
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}

func workerOf(r *history.Run) string {
	if r.Worker == "" {
		return "A worker"
	}
	return r.Worker
}

// nameOf is a task's name, or a word for a task that tells none.
func nameOf(task string) string { return cmp.Or(task, "work") }
