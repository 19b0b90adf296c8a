package shop

import (
	"fmt"
	"time"

	"auditor/event"
)

// job is one message in the queue: what a task id stands for, over all its attempts.
type job struct {
	task        string
	id          string
	key         string
	queue       string
	runtime     time.Duration
	effect      event.Effect // the effect's name is empty when the task has none
	guarded     bool         // the receiver of the effect drops copies by idempotency key
	done        *int         // how often the effect happened, dropped copies aside; shared by every copy of the message
	cause       string       // why the effect will happen again; empty while nothing is wrong
	retries     int
	redelivered bool
	mishap      func(*job) *failure // what goes wrong in this attempt; nil: nothing
	succeeded   func()              // what follows; nil: nothing
}

// failure is how one attempt goes wrong.
type failure struct {
	err   event.Error
	again time.Duration // until the next attempt; 0: there is none
	skip  string        // the attempt stands aside for this reason instead of failing
}

// order is one customer's order.
type order struct {
	number   string
	customer string
	amount   string
}

func (s *Shop) newOrder() order {
	return order{
		number:   fmt.Sprintf("%s-%d", s.tag, 1000+s.number("order")),
		customer: fmt.Sprintf("customer%d@example.com", s.rng.IntN(5000)),
		amount:   fmt.Sprintf("%d.%02d", 5+s.rng.IntN(200), s.rng.IntN(100)),
	}
}

func (s *Shop) newJob(task, key, queue string, fastest, slowest time.Duration) *job {
	return &job{
		task:    task,
		id:      fmt.Sprintf("%s-%016x", s.tag, s.rng.Uint64()),
		key:     key,
		queue:   queue,
		runtime: s.between(fastest, slowest),
		done:    new(int),
		mishap:  s.flakiness(),
	}
}

// settlement charges an order, guarded by an idempotency key that every copy shares, and then lets the receipt be sent
// and everyone be told.
func (s *Shop) settlement(o order) *job {
	j := s.newJob(settleOrder, "settle_order:"+o.number, "orders", 40*time.Millisecond, 400*time.Millisecond)
	j.effect = event.Effect{Name: "payment.charge", IdempotencyKey: "charge-" + o.number, Amount: o.amount, Currency: "EUR"}
	j.guarded = true
	j.succeeded = func() {
		s.publish(s.receipt(o))
		s.publish(s.newJob(notifyCRM, "crm:"+o.number, "crm", 20*time.Millisecond, 300*time.Millisecond))
		for i := range 1 + s.rng.IntN(2) {
			key := fmt.Sprintf("webhook:%s:%d", o.number, i+1)
			s.publish(s.newJob(handleHook, key, "webhooks", 5*time.Millisecond, 150*time.Millisecond))
		}
	}
	return j
}

// receipt mails an order's receipt. Nothing guards it: the mail server takes every copy.
func (s *Shop) receipt(o order) *job {
	j := s.newJob(sendReceipt, "receipt:"+o.number, "mail", 100*time.Millisecond, 900*time.Millisecond)
	j.effect = event.Effect{Name: "email.send", Target: o.customer}
	return j
}

// report builds and publishes one report.
func (s *Shop) report() *job {
	key := fmt.Sprintf("report:%s-%d", s.tag, s.number("report"))
	j := s.newJob(buildReport, key, "reports", 500*time.Millisecond, 1500*time.Millisecond)
	j.effect = event.Effect{Name: "report.publish"}
	return j
}

// flakiness is the everyday failure: one attempt in forty meets a time-out before its effect, and tries again after a
// back-off that doubles and is spread by chance.
func (s *Shop) flakiness() func(*job) *failure {
	return func(j *job) *failure {
		if j.redelivered || j.retries >= 3 || s.rng.IntN(40) > 0 {
			return nil
		}
		backOff := time.Duration(1<<j.retries) * time.Second
		return &failure{
			err:   event.Error{Type: "TimeoutError", Message: "no answer within 2 s"},
			again: s.between(backOff/2, 3*backOff/2),
		}
	}
}
