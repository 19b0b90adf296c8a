package main

import (
	"fmt"
	"slices"
	"time"
)

// mixed makes auditor JSON of tasks such as a look of the rules meets: most of them well, some that retry, a few that run
// twice. Some work for a business key for which other tasks worked long before. Always the same ones, for the same past.
type mixed struct {
	source
	tasks  []mixedTask
	past   int     // tasks of the past, numbered from 0, whose keys may come again
	known  float64 // share of the new tasks that work for such a key
	begun  time.Time
	serial int  // of the next key that is new
	ending bool // no task is begun any longer
	counts keyCounts
	seen   map[string]bool // keys that the present count has had
	used   map[string]bool // keys of the past that have come again at all
}

// keyCounts tells apart the keys of some events by what the store knew of them.
type keyCounts struct {
	keys   int
	old    int // of which another task worked before, long ago
	recent int // of whose task the store had events before these, from seconds ago
}

type mixedTask struct {
	id, key, name, effect, worker string
	pid, step                     int
	steps                         []mixedStep
	begun                         time.Time
	old, carried                  bool
}

// mixedStep is one event of a task: what it tells, of which attempt, and of which delivery of it.
type mixedStep struct {
	kind     string
	retries  int
	delivery int
}

// The lives of tasks. One in retriedOnce retries, one in ranTwice is delivered again after it succeeded.
const (
	retriedOnce = 50
	ranTwice    = 1000
)

var (
	wellSteps    = []mixedStep{{"received", 0, 0}, {"started", 0, 0}, {"effect", 0, 0}, {"succeeded", 0, 0}}
	retriedSteps = []mixedStep{{"received", 0, 0}, {"started", 0, 0}, {"retried", 0, 0}, {"received", 1, 0}, {"started", 1, 0},
		{"effect", 1, 0}, {"succeeded", 1, 0}}
	twiceSteps = []mixedStep{{"received", 0, 0}, {"started", 0, 0}, {"effect", 0, 0}, {"succeeded", 0, 0},
		{"received", 0, 1}, {"started", 0, 1}, {"effect", 0, 1}, {"succeeded", 0, 1}}
)

// newMixed begins at a time, with tasks that no other of another number has, and with serial numbers for new keys that no other has.
func newMixed(number byte, begin time.Time, serial int, known float64) *mixed {
	s := newSource(number)
	s.now = begin
	return &mixed{source: s, tasks: make([]mixedTask, inFlight), known: known, serial: serial, used: map[string]bool{}}
}

// count begins to count keys anew: what is under way now has been told of before.
func (m *mixed) count() {
	m.counts, m.seen = keyCounts{}, map[string]bool{}
	for i := range m.tasks {
		m.tasks[i].carried = m.tasks[i].step > 0
	}
}

// left is how many events are missing until each task has ended. From then on, next gives no others.
func (m *mixed) left() (events int) {
	m.ending = true
	for i := range m.tasks {
		if t := &m.tasks[i]; t.step > 0 {
			events += len(t.steps) - t.step
		}
	}
	return events
}

func (m *mixed) next() (key, value []byte, at time.Time) {
	t := &m.tasks[m.IntN(len(m.tasks))]
	if m.ending {
		t = &m.tasks[slices.IndexFunc(m.tasks, func(t mixedTask) bool { return t.step > 0 })]
	}
	at = m.tick()
	if t.step == 0 {
		*t = m.begin(at)
	}
	m.note(t)
	step := t.steps[t.step]
	t.step = (t.step + 1) % len(t.steps)
	worker, pid := t.worker, t.pid
	if step.delivery > 0 {
		worker, pid = "w2"+worker[2:], pid+100
	}
	value = fmt.Appendf(nil, `{"event_id":"%s","type":"%s","time":"%s","system":"celery","task":"%s","task_id":"%s","business_key":"%s",`+
		`"retries":%d,"queue":"orders","worker":"%s","pid":%d`,
		m.uuid7(at), step.kind, at.Format("2006-01-02T15:04:05.000000Z"), t.name, t.id, t.key, step.retries, worker, pid)
	switch step.kind {
	case "received":
		value = fmt.Appendf(value, `,"redelivered":%t`, step.delivery > 0)
	case "retried":
		value = append(value, `,"error":{"type":"ConnectionError","message":"the payment service does not answer"},"retry_in":1`...)
	case "effect":
		value = fmt.Appendf(value, `,"effect":{"name":"%s","idempotency_key":"%s","amount":"%d.%02d","currency":"EUR"}`,
			t.effect, t.key, 5+m.IntN(200), m.IntN(100))
	case "succeeded":
		value = fmt.Appendf(value, `,"runtime":%.6f`, at.Sub(t.begun).Seconds())
	}
	return []byte(t.key), append(value, '}'), at.Add(time.Duration(m.IntN(5)) * time.Millisecond)
}

func (m *mixed) begin(at time.Time) mixedTask {
	m.made++
	worker := m.IntN(workers)
	t := mixedTask{id: m.uuid(), worker: fmt.Sprintf("w1@shop-%02d", worker), pid: 4000 + worker, begun: at, steps: wellSteps}
	if t.old = m.Float64() < m.known; t.old {
		t.key, t.name, t.effect = pastKey(m.IntN(m.past)), fmt.Sprintf("shop.mail_%02d", m.IntN(taskNames)), "mail.send"
	} else {
		m.serial++
		t.key, t.name, t.effect = pastKey(m.serial), taskName(m.IntN(taskNames)), "payment.charge"
	}
	switch {
	case m.IntN(ranTwice) == 0:
		t.steps = twiceSteps
	case m.IntN(retriedOnce) == 0:
		t.steps = retriedSteps
	}
	return t
}

func (m *mixed) note(t *mixedTask) {
	if m.seen == nil || m.seen[t.key] {
		return
	}
	m.seen[t.key] = true
	m.counts.keys++
	switch {
	case t.old:
		m.counts.old++
		m.used[t.key] = true
	case t.carried:
		m.counts.recent++
	}
}
