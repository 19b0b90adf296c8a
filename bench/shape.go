package main

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"time"

	"auditor/event"
)

// shape makes the records of a topic, one after another, always the same ones but for the day.
type shape interface {
	next() (key, value []byte, at time.Time)
}

const (
	inFlight  = 2000                   // tasks that run at a time
	interval  = 100 * time.Microsecond // between two events: ten thousand a second
	workers   = 32
	taskNames = 20
)

// decoderConfig says how the tasks of raw Celery events get their business keys.
func decoderConfig() event.DecoderConfig {
	keys := map[string]string{}
	for i := range taskNames {
		keys[taskName(i)] = "settle_order:{{ arg 0 }}"
	}
	return event.DecoderConfig{Keys: keys}
}

func taskName(i int) string { return fmt.Sprintf("shop.settle_%02d", i) }

// source is what both shapes draw from.
type source struct {
	*rand.Rand
	now  time.Time
	made int
}

// newSource begins anew; two with different numbers have nothing in common.
func newSource(number byte) source {
	// Yesterday, for what is older than the tables keep it would go at once; and all in one week.
	day := time.Now().UTC().Truncate(24 * time.Hour).Add(-24 * time.Hour)
	return source{Rand: rand.New(rand.NewChaCha8([32]byte{number})), now: day}
}

// tick moves the clock to the next event, unevenly.
func (s *source) tick() time.Time {
	s.now = s.now.Add(time.Duration(s.Int64N(int64(2 * interval))))
	return s.now
}

// uuid gives a random UUID, version 4.
func (s *source) uuid() string { return s.id(s.Uint64(), 4) }

// uuid7 gives a UUID of version 7, of which all but the time is random.
func (s *source) uuid7(at time.Time) string {
	return s.id(uint64(at.UnixMilli())<<16|s.Uint64N(1<<16), 7)
}

func (s *source) id(high uint64, version byte) string {
	var b [16]byte
	low := s.Uint64()
	for i := range 8 {
		b[i], b[8+i] = byte(high>>(56-8*i)), byte(low>>(56-8*i))
	}
	b[6], b[8] = b[6]&0x0f|version<<4, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// shop makes auditor JSON, about 336 bytes an event: each task is received, started, has an effect, and succeeds.
type shop struct {
	source
	tasks [inFlight]shopTask
}

type shopTask struct {
	id, key, name, worker string
	pid, step             int
	started               time.Time
}

func newShop() *shop { return &shop{source: newSource(1)} }

func (s *shop) next() (key, value []byte, at time.Time) {
	t := &s.tasks[s.IntN(inFlight)]
	at = s.tick()
	if t.step == 0 {
		s.made++
		worker := s.IntN(workers)
		*t = shopTask{id: s.uuid(), key: fmt.Sprintf("settle_order:%d", 100_000+s.made), name: taskName(s.IntN(taskNames)),
			worker: fmt.Sprintf("w1@shop-%02d", worker), pid: 4000 + worker, started: at}
	}
	kind := []string{"received", "started", "effect", "succeeded"}[t.step]
	t.step = (t.step + 1) % 4
	value = fmt.Appendf(nil, `{"event_id":"%s","type":"%s","time":"%s","system":"celery","task":"%s","task_id":"%s","business_key":"%s",`+
		`"retries":0,"queue":"orders","worker":"%s","pid":%d`,
		s.uuid7(at), kind, at.Format("2006-01-02T15:04:05.000000Z"), t.name, t.id, t.key, t.worker, t.pid)
	switch kind {
	case "received":
		value = append(value, `,"redelivered":false`...)
	case "effect":
		value = fmt.Appendf(value, `,"effect":{"name":"payment.charge","idempotency_key":"%s","amount":"%d.%02d","currency":"EUR"}`,
			t.key, 5+s.IntN(200), s.IntN(100))
	case "succeeded":
		value = fmt.Appendf(value, `,"runtime":%.6f`, at.Sub(t.started).Seconds())
	}
	return []byte(t.key), append(value, '}'), at.Add(time.Duration(s.IntN(5)) * time.Millisecond)
}

// celery makes what Celery's client and workers send, as captured of version 5.2: each task is sent, received, started, and
// succeeds, and each worker tells every two seconds that it lives.
type celery struct {
	source
	tasks   [inFlight]celeryTask
	clock   int
	heard   time.Time // when workers last told that they live
	talking int       // which of them is next to tell
}

type celeryTask struct {
	id, name  string
	order     int
	step, pid int
	worker    string
	started   time.Time
}

func newCelery() *celery {
	s := newSource(1)
	return &celery{source: s, heard: s.now}
}

func (c *celery) next() (key, value []byte, at time.Time) {
	at = c.tick()
	c.clock += c.IntN(3)
	stamp := fmt.Sprintf("%d.%06d%d", at.Unix(), at.Nanosecond()/1000, c.IntN(10))
	arrived := at.Add(time.Duration(1+c.IntN(3)) * time.Millisecond)
	if at.Sub(c.heard) > 2*time.Second || c.talking > 0 {
		c.heard = at
		c.talking = (c.talking + 1) % workers
		return nil, fmt.Appendf(nil, `{"hostname": "celery@shop-%02d", "utcoffset": 0, "pid": %d, "clock": %d, "freq": 2.0, "active": %d, "processed": %d, `+
			`"loadavg": [%.2f, %.2f, %.2f], "sw_ident": "py-celery", "sw_ver": "5.2.6", "sw_sys": "Linux", "timestamp": %s, "type": "worker-heartbeat"}`,
			c.talking, 4000+c.talking, c.clock, c.IntN(8), c.made/workers, 4*c.Float64(), 3*c.Float64(), 2*c.Float64(), stamp), arrived
	}
	t := &c.tasks[c.IntN(inFlight)]
	if t.step == 0 {
		c.made++
		worker := c.IntN(workers)
		*t = celeryTask{id: c.uuid(), name: taskName(c.IntN(taskNames)), order: 100_000 + c.made,
			worker: fmt.Sprintf("celery@shop-%02d", worker), pid: 4000 + worker}
	}
	step := t.step
	t.step = (t.step + 1) % 4
	named := fmt.Sprintf(`"name": "%s", "args": "('%d',)", "kwargs": "{}", "root_id": "%s", "parent_id": null, "retries": 0, "eta": null, "expires": null`,
		t.name, t.order, t.id)
	head := fmt.Sprintf(`{"hostname": "%s", "utcoffset": 0, "pid": %d, "clock": %d, "uuid": "%s", "timestamp": %s`, t.worker, t.pid, c.clock, t.id, stamp)
	switch step {
	case 0:
		head = fmt.Sprintf(`{"hostname": "gen%d@web-%02d", "utcoffset": 0, "pid": %d, "clock": %d, "uuid": "%s", "timestamp": %s`,
			300+t.order%8, t.order%8, 300+t.order%8, c.clock, t.id, stamp)
		value = []byte(head + ", " + named + `, "queue": "orders", "exchange": "", "routing_key": "orders", "type": "task-sent"}`)
	case 1:
		value = []byte(head + ", " + named + `, "type": "task-received"}`)
	case 2:
		t.started = at
		value = []byte(head + `, "type": "task-started"}`)
	default:
		value = fmt.Appendf([]byte(head), `, "result": "'done'", "runtime": %.16f, "type": "task-succeeded"}`, at.Sub(t.started).Seconds())
	}
	return []byte(t.id), value, arrived
}
