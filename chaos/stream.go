package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"auditor/internal/agenda"
)

// stream is the records of one trial, in the order in which they are sent. It is a function of the seed, the number of
// events, the length and the moment at which it starts: events happen when they are sent.
//
// Most of it is a healthy task queue. In it are planted the troubles that must be found, records that are no events, and
// records that the producer sends again.
type stream struct {
	rng    *rand.Rand
	start  time.Time
	length time.Duration // over which stories begin
	events int           // how many there are to be, at least

	pending  agenda.Agenda[step]
	told     int // events so far, what is none aside
	numbers  int // ids given out
	plants   []plant
	expected []expected
}

// plant is a trouble that begins at a moment.
type plant struct {
	at     time.Duration
	happen func(*story)
}

// Names of the healthy tasks and namespaces, which are many, for the rules judge each as a population.
var (
	tasks = []string{"shop.settle_order", "shop.cancel_order", "mail.send_receipt", "mail.send_reminder", "crm.notify", "crm.merge",
		"webhook.handle", "webhook.deliver", "stock.reserve", "stock.release", "report.build", "search.index"}
	namespaces = []string{"", "eu", "us"}
)

const (
	workers   = 16
	beatEvery = 2 * time.Second
)

// newStream begins a stream of so many events, told over length. Its last events come a few seconds later.
func newStream(seed uint64, start time.Time, length time.Duration, events int) *stream {
	s := &stream{rng: rand.New(rand.NewPCG(seed, 1)), start: start.UTC().Truncate(time.Microsecond), length: length, events: events}
	s.plan()
	for w := range workers {
		s.pending.Add(s.below(beatEvery), step{do: func(at time.Duration) { s.beat(at, w) }})
	}
	s.pending.Add(0, step{do: s.begin})
	return s
}

// next gives the next record, false after the last.
func (s *stream) next() (record, bool) {
	for {
		at, step, ok := s.pending.Next()
		if !ok || step.do == nil {
			return step.record, ok
		}
		step.do(at)
	}
}

// begin begins a story at a moment, and plans the next. What was told so far says when that is, so that the events are
// spread evenly.
func (s *stream) begin(at time.Duration) {
	if len(s.plants) > 0 && s.plants[0].at <= at {
		s.plants[0].happen(s.story(at))
		s.plants = s.plants[1:]
	} else {
		s.tellOne(at)
	}
	if s.told < s.events {
		s.pending.Add(time.Duration(float64(s.length)*float64(s.told)/float64(s.events)), step{do: s.begin})
	}
}

// beat lets a worker say that it lives.
func (s *stream) beat(at time.Duration, worker int) {
	active := s.rng.IntN(4)
	t := s.story(at)
	t.key, t.task, t.id, t.worker = "", "", "", workerName(worker)
	t.say(0, "heartbeat", func(w *word) { w.Active = &active })
	if s.told < s.events {
		s.pending.Add(at+beatEvery, step{do: func(at time.Duration) { s.beat(at, worker) }})
	}
}

func workerName(n int) string { return fmt.Sprintf("w%d@host-%c", n+1, 'a'+rune(n%4)) }

// send puts a record into the stream, and now and then a second time, as a producer does that missed an acknowledgement.
func (s *stream) send(r record) {
	s.put(r)
	if s.rng.IntN(100) == 0 {
		r.at += s.below(2 * time.Second)
		s.put(r)
	}
}

func (s *stream) put(r record) {
	for _, row := range r.rows {
		if row.reason == "" {
			s.told++
		}
	}
	s.pending.Add(r.at, step{record: r})
}

func (s *stream) below(d time.Duration) time.Duration { return time.Duration(s.rng.Int64N(int64(d))) }

func (s *stream) between(low, high time.Duration) time.Duration { return low + s.below(high-low) }

func (s *stream) number() int {
	s.numbers++
	return s.numbers
}

// step is a record to send, or something to do.
type step struct {
	record record
	do     func(at time.Duration)
}

// word is one event as it is told, in auditor JSON.
type word struct {
	ID          string         `json:"event_id,omitempty"`
	Type        string         `json:"type,omitempty"`
	Time        string         `json:"time,omitempty"`
	Namespace   string         `json:"namespace,omitempty"`
	System      string         `json:"system,omitempty"`
	Task        string         `json:"task,omitempty"`
	TaskID      string         `json:"task_id,omitempty"`
	BusinessKey string         `json:"business_key,omitempty"`
	Retries     *int           `json:"retries,omitempty"`
	RetryIn     float64        `json:"retry_in,omitempty"`
	Queue       string         `json:"queue,omitempty"`
	Worker      string         `json:"worker,omitempty"`
	Redelivered bool           `json:"redelivered,omitempty"`
	Active      *int           `json:"active,omitempty"`
	Runtime     float64        `json:"runtime,omitempty"`
	Expired     bool           `json:"expired,omitempty"`
	Effect      map[string]any `json:"effect,omitempty"`
	Error       map[string]any `json:"error,omitempty"`
	Skip        map[string]any `json:"skip,omitempty"`
	Attributes  map[string]any `json:"attributes,omitempty"`
}

func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // only types that can be encoded are told
	}
	return text
}
