package main

import (
	"fmt"
	"time"
)

// story is what happens to one task, told as it happens.
type story struct {
	*stream
	at        time.Duration // of the last word
	shift     time.Duration // how long before it was told everything happened
	namespace string
	task      string
	id        string // task id
	key       string // business key
	worker    string
	retries   int
	form      form
	packed    []word
}

// form is how a story is told.
type form int

const (
	plain  form = iota
	packed      // all of it in one record, an array
	cloud       // as CloudEvents
)

func (s *stream) story(at time.Duration) *story {
	n := s.number()
	task := tasks[s.rng.IntN(len(tasks))]
	return &story{stream: s, at: at, namespace: namespaces[s.rng.IntN(len(namespaces))], task: task,
		id: fmt.Sprintf("t%d", n), key: fmt.Sprintf("%s:%d", task, n), worker: workerName(s.rng.IntN(workers))}
}

// say tells a word of the story, some time after the last.
func (t *story) say(after time.Duration, kind string, change ...func(*word)) {
	t.at += after
	w := word{
		ID: fmt.Sprintf("e%d", t.number()), Type: kind, Time: t.time(), Namespace: t.namespace, System: "chaos",
		Task: t.task, TaskID: t.id, BusinessKey: t.key, Worker: t.worker,
	}
	if t.id != "" && kind != "sent" {
		retries := t.retries
		w.Retries = &retries
	}
	for _, f := range change {
		f(&w)
	}
	switch t.form {
	case packed:
		t.packed = append(t.packed, w)
	case cloud:
		envelope := map[string]any{"specversion": "1.0", "source": "chaos", "id": w.ID, "type": "task." + kind, "data": w}
		id := "chaos " + w.ID
		w.ID = ""
		envelope["data"] = w
		t.send(record{at: t.at, key: t.partitionKey(), value: marshal(envelope), content: content{[]row{{id: id}}}})
	default:
		t.send(record{at: t.at, key: t.partitionKey(), value: marshal(w), content: content{[]row{{id: w.ID}}}})
	}
}

func (t *story) time() string {
	return t.start.Add(t.at - t.shift).Truncate(time.Microsecond).Format(time.RFC3339Nano)
}

func (t *story) partitionKey() string {
	if t.key == "" {
		return t.worker
	}
	return t.key
}

// end sends what is packed. Now and then one element of the array is no event.
func (t *story) end() {
	if len(t.packed) == 0 {
		return
	}
	var rows []row
	value := []byte("[")
	put := func(element []byte, r row) {
		if len(rows) > 0 {
			value = append(value, ',')
		}
		value, rows = append(value, element...), append(rows, r)
	}
	bad := t.rng.IntN(4 * len(t.packed))
	for i, w := range t.packed {
		if i == bad {
			element := fmt.Sprintf(`{"event_id":"e%d","type":"started"}`, t.number())
			put([]byte(element), row{reason: "no_task_id", raw: element})
		}
		put(marshal(w), row{id: w.ID})
	}
	t.send(record{at: t.at, key: t.partitionKey(), value: append(value, ']'), content: content{rows}})
}

// short is a pause within a run.
func (t *story) short() time.Duration { return t.between(2*time.Millisecond, 200*time.Millisecond) }

func (t *story) effect(w *word) {
	w.Effect = map[string]any{"name": t.task + ".done", "idempotency_key": t.id, "amount": "12.50", "currency": "EUR"}
}

func refused(w *word) {
	w.Error = map[string]any{"type": "TimeoutError", "message": "no answer within 2 s"}
}

// publish puts the task into the queue.
func (t *story) publish() {
	worker := t.worker
	t.worker = "web-1"
	t.say(0, "sent", func(w *word) { w.Queue = "default" })
	t.worker = worker
}

// run lets a worker do the task, up to and with its effect.
func (t *story) run(change ...func(*word)) {
	t.say(t.short(), "received", change...)
	t.say(t.short(), "started")
	t.say(t.short(), "effect", t.effect)
}

func (t *story) succeed() {
	t.say(t.short(), "succeeded", func(w *word) { w.Runtime = 0.125 })
}

// tellOne tells a healthy story, or sends what is no event.
func (s *stream) tellOne(at time.Duration) {
	t := s.story(at)
	switch n := s.rng.IntN(1000); {
	case n < 45: // a story has about five events
		t.nonsense()
	case n < 60:
		t.celery()
	case n < 110:
		t.form = packed
		t.healthy()
	case n < 130:
		t.form = cloud
		t.healthy()
	default:
		t.healthy()
	}
	t.end()
}

// healthy tells a story in which nothing is wrong.
func (t *story) healthy() {
	switch n := t.rng.IntN(1000); {
	case n < 10: // fails once, and waits before it tries again
		t.publish()
		t.say(t.short(), "started")
		wait := t.between(500*time.Millisecond, 3*time.Second)
		t.say(t.short(), "retried", refused, func(w *word) { w.RetryIn = wait.Seconds() })
		t.retries++
		t.at += wait
		t.run()
		t.succeed()
	case n < 30: // fails for good
		t.publish()
		t.say(t.short(), "started")
		t.say(t.short(), "failed", refused)
	case n < 50: // expires in the queue
		t.publish()
		t.say(t.short(), "revoked", func(w *word) { w.Expired = true })
	case n < 80: // is published twice, and the copy stands aside
		t.publish()
		t.run()
		first := t.id
		t.succeed()
		t.id = fmt.Sprintf("t%d", t.number())
		t.publish()
		t.say(t.short(), "received")
		t.say(t.short(), "skipped", func(w *word) {
			w.Skip = map[string]any{"reason": "already_processed", "holder": first}
		})
	case n < 85: // is delivered twice, and the receiver drops the second effect
		t.publish()
		t.run()
		t.succeed()
		t.worker = workerName(t.rng.IntN(workers))
		t.say(t.short(), "received", redelivered)
		t.say(t.short(), "started")
		t.say(t.short(), "effect", t.effect, func(w *word) { w.Effect["deduplicated"] = true })
		t.succeed()
	case n < 200: // tells its end only
		t.say(0, "started")
		t.succeed()
	default:
		t.publish()
		t.run()
		t.succeed()
	}
}

func redelivered(w *word) { w.Redelivered = true }

// celery tells a story in Celery's own events, which carry no business key.
func (t *story) celery() {
	uuid := fmt.Sprintf("c%d", t.number())
	pid := 100 + t.rng.IntN(1000)
	say := func(after time.Duration, kind string, more map[string]any) {
		t.at += after
		e := map[string]any{"type": kind, "uuid": uuid, "hostname": t.worker, "pid": pid, "utcoffset": 0,
			"timestamp": json6(t.start.Add(t.at))}
		for k, v := range more {
			e[k] = v
		}
		t.send(record{at: t.at, key: uuid, value: marshal(e), content: content{[]row{{}}}})
	}
	say(0, "task-received", map[string]any{"name": "celery." + t.task, "args": "[1]", "kwargs": "{}", "retries": 0})
	say(t.short(), "task-started", nil)
	say(t.short(), "task-succeeded", map[string]any{"result": "None", "runtime": 0.05})
}

// nonsense sends a record that is no event.
func (t *story) nonsense() {
	id, at := fmt.Sprintf("bad%d", t.number()), t.time()
	kinds := []struct{ reason, text string }{
		{"not_json", id + " is not JSON"},
		{"not_json", fmt.Sprintf(`{"event_id":%q,"type":"started","time":%q`, id, at)},
		{"duplicate_name", fmt.Sprintf(`{"event_id":%q,"type":"started","time":%q,"task_id":"a","business_key":"a","business_key":"b"}`, id, at)},
		{"wrong_type", fmt.Sprintf(`{"event_id":%q,"type":"started","time":%q,"task_id":"a","retries":"many"}`, id, at)},
		{"no_task_id", fmt.Sprintf(`{"event_id":%q,"type":"started","time":%q}`, id, at)},
		{"no_time", fmt.Sprintf(`{"event_id":%q,"type":"started","task_id":"a"}`, id)},
		{"unknown_type", fmt.Sprintf(`{"event_id":%q,"type":"exploded","time":%q,"task_id":"a"}`, id, at)},
		{"contradiction", fmt.Sprintf(`{"event_id":%q,"type":"failed","outcome":"succeeded","time":%q,"task_id":"a"}`, id, at)},
		{"impossible_time", fmt.Sprintf(`{"event_id":%q,"type":"started","time":"1999-12-31T23:59:59Z","task_id":"a"}`, id)},
		{"bad_utf8", fmt.Sprintf(`{"event_id":%q,"type":"started","time":%q,"task_id":"`, id, at) + "\xff\"}"},
		{"trailing_data", fmt.Sprintf(`{"event_id":%q,"type":"started","time":%q,"task_id":"a"} {}`, id, at)},
		{"no_effect", fmt.Sprintf(`{"event_id":%q,"type":"effect","time":%q,"task_id":"a"}`, id, at)},
		{"empty", ""},
	}
	kind := kinds[t.rng.IntN(len(kinds))]
	t.send(record{at: t.at, key: id, value: []byte(kind.text), content: content{[]row{{reason: kind.reason, raw: kind.text}}}})
}

// json6 is a time in Unix seconds, exact to the microsecond.
func json6(at time.Time) jsonNumber {
	return jsonNumber(fmt.Sprintf("%d.%06d", at.Unix(), at.Nanosecond()/1000))
}

type jsonNumber string

// MarshalJSON writes the digits as they are.
func (n jsonNumber) MarshalJSON() ([]byte, error) { return []byte(n), nil }
