// Package historytest writes histories in short, for tests: one event a line.
package historytest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"auditor/event"
)

// Day is the midnight that the seconds of Events count from.
var Day = time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)

// At is a moment so many seconds into the day.
func At(seconds float64) time.Time { return Day.Add(time.Duration(seconds * float64(time.Second))) }

// Events reads one event a line: seconds, type, task id, and then name=value: w (worker), r (retries), key, task, pid,
// name (of the effect), idem (its idempotency key), target, dropped (deduplicated), err, in (retry_in), eta, expires,
// deadline (seconds), requeue, redelivered, active, exec, runtime, id, reason and holder (of a skip), emitter, seq. Lines that
// are empty are passed over. The task is "shop.settle" and the key "order:1" unless told; key= makes it empty.
func Events(t testing.TB, text string) []event.Event {
	t.Helper()
	var all []event.Event
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		e, err := parse(words)
		if err != nil {
			t.Fatalf("%s: %v", strings.TrimSpace(line), err)
		}
		e.Offset = int64(len(all))
		if e.ID == "" {
			e.ID = fmt.Sprintf("e%d", len(all))
		}
		all = append(all, e)
	}
	return all
}

func parse(words []string) (event.Event, error) {
	e := event.Event{Task: "shop.settle", BusinessKey: "order:1", Retries: event.Unknown, MaxRetries: event.Unknown,
		RetryIn: event.Unknown, Active: event.Unknown, Seq: event.Unknown}
	if len(words) < 2 {
		return e, fmt.Errorf("wants seconds and a type")
	}
	seconds, err := strconv.ParseFloat(words[0], 64)
	if err != nil {
		return e, err
	}
	e.Time, e.Type = At(seconds), event.Type(words[1])
	words = words[2:]
	if len(words) > 0 && !strings.Contains(words[0], "=") {
		e.TaskID, words = words[0], words[1:]
	}
	for _, word := range words {
		name, value, _ := strings.Cut(word, "=")
		if err := set(&e, name, value); err != nil {
			return e, fmt.Errorf("%s: %w", word, err)
		}
	}
	if e.TaskID == "" {
		e.Task, e.BusinessKey = "", ""
	}
	return e, nil
}

func set(e *event.Event, name, value string) error {
	number, err := strconv.ParseFloat(value, 64)
	effect := func() *event.Effect {
		if e.Effect == nil {
			e.Effect = &event.Effect{}
		}
		return e.Effect
	}
	skip := func() *event.Skip {
		if e.Skip == nil {
			e.Skip = &event.Skip{}
		}
		return e.Skip
	}
	yes := true
	switch name {
	case "w":
		e.Worker = value
	case "key":
		e.BusinessKey = value
	case "task":
		e.Task = value
	case "name":
		effect().Name = value
	case "idem":
		effect().IdempotencyKey = value
	case "target":
		effect().Target = value
	case "dropped":
		effect().Deduplicated = true
	case "err":
		e.Error = &event.Error{Type: value}
	case "requeue":
		e.Requeue = true
	case "redelivered":
		e.Redelivered = &yes
	case "reason":
		skip().Reason = value
	case "holder":
		skip().Holder = value
	case "emitter":
		e.Emitter = value
	case "exec":
		e.ExecutionID = value
	case "id":
		e.ID = value
	default:
		return setNumber(e, name, number, err)
	}
	return nil
}

func setNumber(e *event.Event, name string, number float64, err error) error {
	if err != nil {
		return err
	}
	switch name {
	case "r":
		e.Retries = int(number)
	case "seq":
		e.Seq = int64(number)
	case "pid":
		e.PID = int(number)
	case "in":
		e.RetryIn = int(number)
	case "active":
		e.Active = int(number)
	case "eta":
		e.ETA = At(number)
	case "expires":
		e.Expires = At(number)
	case "deadline":
		e.Deadline = At(number)
	case "runtime":
		e.Runtime = number
	default:
		return fmt.Errorf("no such name")
	}
	return nil
}
