package timeline

import (
	"fmt"
	"strings"
	"time"

	"auditor/event"
	"auditor/event/history"
)

// Row is one run in words: the drawing's content for those who cannot see it, and for all who want to copy it.
type Row struct {
	Number  int
	Worker  string
	Task    string
	TaskID  string
	Begin   time.Time
	Length  string // from start to end; empty when the end was not seen
	Retries string // empty when not told
	Outcome string
	Effects []Effect
	Gap     string // what led to the run
}

// Effect is one effect of a run in words.
type Effect struct {
	Text  string
	Class string // first, extra, guarded, dropped
	Event *event.Event
}

// Rows gives every run of the history, those that the drawing leaves out included.
func (t *Timeline) Rows() []Row {
	led := map[*history.Run]gap{}
	for _, g := range t.gaps {
		led[g.to] = g
	}
	rows := make([]Row, 0, len(t.history.Runs))
	for _, r := range t.history.Runs {
		row := Row{Number: r.Number, Worker: r.Worker, Task: r.Task, TaskID: r.TaskID, Begin: r.Begin(), Outcome: outcome(r)}
		if r.End != nil {
			row.Length = Length(alive(r).length())
		}
		if r.Retries != event.Unknown {
			row.Retries = fmt.Sprint(r.Retries)
		}
		for _, m := range t.marks[r] {
			row.Effects = append(row.Effects, Effect{Text: m.String(), Class: kindClass[m.kind], Event: m.event})
		}
		if g, ok := led[r]; ok {
			row.Gap = t.sayGap(g)
		}
		if redelivered(r) {
			row.Outcome = "redelivered, " + row.Outcome
		}
		rows = append(rows, row)
	}
	return rows
}

// outcome is how a run ended, in a few words.
func outcome(r *history.Run) string {
	if r.End == nil {
		if r.Started == nil && len(r.Effects) == 0 {
			return "never started"
		}
		return "no end seen"
	}
	text := strings.ReplaceAll(string(r.End.Type), "_", " ")
	switch {
	case r.End.Error != nil && r.End.Error.Type != "":
		text += ": " + r.End.Error.Type
	case r.End.Skip != nil && r.End.Skip.Reason != "":
		text += ": " + strings.ReplaceAll(r.End.Skip.Reason, "_", " ")
	case r.End.Type == event.Revoked && r.End.Expired:
		text = "expired"
	}
	if len(r.Conflicting) > 0 {
		text += ", then " + string(r.Conflicting[0].Type)
	}
	return text
}

// redelivered reports whether the broker said that it had delivered the message before.
func redelivered(r *history.Run) bool {
	for _, e := range []*event.Event{r.Received, r.Started} {
		if e != nil && e.Redelivered != nil && *e.Redelivered {
			return true
		}
	}
	return false
}

// names says what a run was, in as many words as there may be room for, the longest first.
func names(r *history.Run) []string {
	number := fmt.Sprintf("run %d", r.Number)
	how := ""
	if redelivered(r) {
		how = ", redelivered"
	}
	if r.Retries > 0 {
		how += fmt.Sprintf(", retry %d", r.Retries)
	}
	plain, _, _ := strings.Cut(outcome(r), ":")
	return []string{
		number + how + ", " + outcome(r), number + how + ", " + plain, number + how, number, fmt.Sprint(r.Number),
	}
}
