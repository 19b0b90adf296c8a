package archive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strings"
)

// flowerTask is a task as Flower exports it: what it knows of the latest attempt.
type flowerTask struct {
	UUID      string   `json:"uuid"`
	Name      string   `json:"name"`
	State     string   `json:"state"`
	Args      any      `json:"args"`
	Kwargs    any      `json:"kwargs"`
	Worker    any      `json:"worker"` // its name, or an object with one
	Client    string   `json:"client"`
	Key       string   `json:"routing_key"`
	Root      any      `json:"root_id"`
	Parent    any      `json:"parent_id"`
	Exception string   `json:"exception"`
	Traceback string   `json:"traceback"`
	Runtime   *float64 `json:"runtime"`
	Retries   *float64 `json:"retries"`
	ETA       any      `json:"eta"`
	Expires   any      `json:"expires"`
	Sent      *float64 `json:"sent"`
	Received  *float64 `json:"received"`
	Started   *float64 `json:"started"`
	Succeeded *float64 `json:"succeeded"`
	Failed    *float64 `json:"failed"`
	Retried   *float64 `json:"retried"`
	Revoked   *float64 `json:"revoked"`
	Rejected  *float64 `json:"rejected"`
}

// isFlowerTask tells a task of Flower from an event: it has an id and a state, and is of no type.
func isFlowerTask(value []byte) bool {
	if !bytes.Contains(value, []byte(`"uuid"`)) || !bytes.Contains(value, []byte(`"state"`)) {
		return false
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(value, &members) != nil {
		return false
	}
	return members["uuid"] != nil && members["state"] != nil && members["type"] == nil
}

// flowerEvents makes Celery's events of a task of Flower: one for each moment that it knows. They hold nothing that another export
// of the same task would tell otherwise, so that an event of two exports has one id.
func flowerEvents(value []byte) ([][]byte, error) {
	var t flowerTask
	if err := json.Unmarshal(value, &t); err != nil {
		return nil, fmt.Errorf("no task of Flower: %w", err)
	}
	type happened struct {
		kind string
		at   *float64
		more map[string]any
	}
	failure := map[string]any{"exception": t.Exception, "traceback": t.Traceback}
	all := []happened{
		{"task-sent", t.Sent, map[string]any{"name": t.Name, "args": t.Args, "kwargs": t.Kwargs, "hostname": t.Client, "eta": t.ETA, "expires": t.Expires}},
		{"task-received", t.Received, map[string]any{"name": t.Name, "args": t.Args, "kwargs": t.Kwargs, "retries": t.Retries, "eta": t.ETA, "expires": t.Expires}},
		{"task-started", t.Started, nil},
		{"task-succeeded", t.Succeeded, map[string]any{"runtime": t.Runtime}},
		{"task-failed", t.Failed, failure},
		{"task-retried", t.Retried, nil},
		{"task-revoked", t.Revoked, nil},
		{"task-rejected", t.Rejected, nil},
	}
	if t.State == "RETRY" {
		all[5].more = failure
	}
	slices.SortStableFunc(all, func(a, b happened) int { return compareTimes(a.at, b.at) })
	var out [][]byte
	for _, h := range all {
		if h.at == nil || *h.at == 0 {
			continue
		}
		e := map[string]any{"type": h.kind, "uuid": t.UUID, "timestamp": *h.at}
		if h.kind != "task-sent" {
			e["hostname"] = workerName(t.Worker)
		}
		if h.kind == "task-sent" || h.kind == "task-received" { // as Celery does
			e["root_id"], e["parent_id"], e["routing_key"] = t.Root, t.Parent, t.Key
		}
		for name, v := range h.more {
			e[name] = v
		}
		for name, v := range e {
			if v == nil || v == "" {
				delete(e, name)
			}
		}
		text, err := json.Marshal(e)
		if err != nil {
			return nil, err
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the task of Flower tells no time at all")
	}
	return out, nil
}

func compareTimes(a, b *float64) int {
	at := func(t *float64) float64 {
		if t == nil {
			return math.Inf(1)
		}
		return *t
	}
	switch x, y := at(a), at(b); {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

func workerName(worker any) any {
	if object, ok := worker.(map[string]any); ok {
		return object["hostname"]
	}
	return worker
}

// isFlowerExport reports whether a file is what Flower's /api/tasks answers: one object of tasks by their ids.
func isFlowerExport(beginning []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(beginning))
	for _, want := range []json.Delim{'{', 0, '{'} {
		token, err := decoder.Token()
		if err != nil {
			return false
		}
		if delim, isDelim := token.(json.Delim); isDelim != (want != 0) || delim != want {
			return false
		}
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return false
		}
		if name == "uuid" {
			return true
		}
		var skipped json.RawMessage
		if decoder.Decode(&skipped) != nil {
			return false
		}
	}
	return false
}

// flowerExport gives the tasks of an export.
func flowerExport(r io.Reader) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		limited := &boundedReader{from: r, left: MaxLine}
		decoder := json.NewDecoder(limited)
		if _, err := decoder.Token(); err != nil {
			yield(Record{}, err)
			return
		}
		number := int64(1)
		for ; decoder.More(); number++ {
			limited.left = MaxLine
			var value json.RawMessage
			_, err := decoder.Token()
			if err == nil {
				err = decoder.Decode(&value)
			}
			if err != nil {
				yield(Record{Number: number, Bad: "the export breaks off: " + err.Error()}, nil)
				return
			}
			if !yield(Record{Number: number, Value: value}, nil) {
				return
			}
		}
		if _, err := decoder.Token(); err != nil {
			yield(Record{Number: number, Bad: "the export breaks off: " + strings.TrimSpace(err.Error())}, nil)
		}
	}
}
