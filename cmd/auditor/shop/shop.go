// Package shop simulates a web shop's task queue: publishers, workers, retries, and now and then the troubles that the
// field knows. It is what the demo shows and, because it knows the truth about itself, what the rules are tested on.
//
// A Shop reads no clock and starts no goroutine. The same seed, start and tag always give the same events, in the order
// of their times; whoever wants them in real time waits for each (see Play).
package shop

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"auditor/event"
	"auditor/internal/agenda"
)

// Names of the tasks that the shop runs.
const (
	settleOrder = "shop.settle_order"
	sendReceipt = "mail.send_receipt"
	notifyCRM   = "crm.notify"
	handleHook  = "webhook.handle"
	buildReport = "report.build"
)

// ordersPerSecond is the mean rate of orders; each order brings four tasks or five.
const ordersPerSecond = 14

// visibilityTimeout is how long the shop's broker waits for an acknowledgement before it delivers a task again.
const visibilityTimeout = 10 * time.Second

// Shop is one simulated shop. It is not safe for concurrent use.
type Shop struct {
	rng     *rand.Rand
	start   time.Time
	tag     string
	now     time.Duration // since start
	agenda  agenda.Agenda[func()]
	told    []event.Event // of this moment, not yet handed out
	workers []*worker
	counts  map[string]int64 // numbers given out so far, by what they number
	closing bool             // nothing new begins
	truth   Truth
}

// New opens a shop at the moment start. Keys and ids carry the tag, so that shops with different tags, such as the same
// demo started twice on one data directory, never share a key.
func New(seed uint64, start time.Time, tag string) *Shop {
	s := &Shop{
		rng:    rand.New(rand.NewPCG(seed, 0x5eed)),
		start:  start.UTC().Truncate(time.Microsecond),
		tag:    tag,
		counts: make(map[string]int64),
	}
	for i, host := range []string{"host-a", "host-a", "host-b", "host-b"} {
		w := &worker{name: fmt.Sprintf("w%d@%s", i+1, host)}
		s.workers = append(s.workers, w)
		s.boot(w)
	}
	s.after(0, s.takeOrder)
	s.after(s.between(time.Second, 3*time.Second), s.orderReport)
	s.planTroubles()
	return s
}

// Truth is what the shop knows about its troubles so far.
func (s *Shop) Truth() *Truth { return &s.truth }

// Next is the next event, in the order of time. There is always one.
func (s *Shop) Next() event.Event {
	for len(s.told) == 0 {
		at, do, _ := s.agenda.Next()
		s.now = at
		do()
	}
	e := s.told[0]
	s.told = s.told[1:]
	return e
}

// Close lets nothing new begin and gives what is left to say about the tasks in hand, retries and redeliveries included,
// at the times at which it would have been said. Only what is stuck stays stuck. Next must not be called afterwards.
func (s *Shop) Close() []event.Event {
	s.closing = true
	for s.agenda.Len() > 0 {
		at, do, _ := s.agenda.Next()
		s.now = at
		do()
	}
	left := s.told
	s.told = nil
	return left
}

// after plans do for d from now.
func (s *Shop) after(d time.Duration, do func()) { s.agenda.Add(s.now+d, do) }

// time is the present moment, as precise as an event tells it.
func (s *Shop) time() time.Time { return s.start.Add(s.now).Truncate(time.Microsecond) }

// between is a random duration in [low, high).
func (s *Shop) between(low, high time.Duration) time.Duration {
	return low + time.Duration(s.rng.Int64N(int64(high-low)))
}

// number gives out 1, 2, 3, ... for each kind of thing.
func (s *Shop) number(of string) int64 {
	s.counts[of]++
	return s.counts[of]
}

// tell lets emitter say e now.
func (s *Shop) tell(emitter string, e event.Event) {
	e.ID = fmt.Sprintf("%s-%d", s.tag, s.number("event"))
	e.Time = s.time()
	e.System = "shop"
	e.Emitter = emitter + "/" + s.tag
	e.Seq = s.number("emitter " + emitter)
	s.told = append(s.told, e)
}

// takeOrder lets one customer order something and plans the next order, in a rate that rises and falls slowly.
func (s *Shop) takeOrder() {
	if s.closing {
		return
	}
	order := s.newOrder()
	s.publish(s.settlement(order))
	rate := ordersPerSecond * (1 + 0.3*math.Sin(2*math.Pi*s.now.Minutes()/10))
	s.after(time.Duration(s.rng.ExpFloat64()/rate*float64(time.Second)), s.takeOrder)
}

// orderReport lets a report be built every few seconds.
func (s *Shop) orderReport() {
	if s.closing {
		return
	}
	s.publish(s.report())
	s.after(s.between(2*time.Second, 6*time.Second), s.orderReport)
}
