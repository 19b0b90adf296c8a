package main

import (
	"math"
	"time"
)

// task is the shape of one kind of work.
type task struct {
	name             string
	prefix           string // of its business keys
	queue            string
	weight           int // how often it is published, beside the others
	fastest, slowest time.Duration
	effects          []string
	targets          int  // to how many its effect is done in one run; 0: to no one in particular
	guarded          bool // the receiver of its effects drops copies by their idempotency key
	retry            retryPolicy
	early            bool // acknowledged before it runs
	lean             bool // tells neither its publication nor its arrival
	executions       bool // tells which delivery each event belongs to
	priority         string
}

// retryPolicy is how attempts follow one another.
type retryPolicy struct {
	most   int
	first  time.Duration
	factor float64
	jitter bool
}

// delay is the pause before the next attempt.
func (p retryPolicy) delay(w *world, attempt int) time.Duration {
	d := time.Duration(float64(p.first) * math.Pow(p.factor, float64(attempt)))
	if p.jitter {
		d = w.between(d/2, 3*d/2)
	}
	return d
}

var (
	backOff = retryPolicy{most: 3, first: 4 * time.Second, factor: 2, jitter: true}
	fixed   = retryPolicy{most: 5, first: 30 * time.Second, factor: 1}
)

const ms = time.Millisecond

// The tasks. Those of which troubles tell by their own success have no effects.
var (
	settleOrder = &task{name: "shop.settle_order", prefix: "settle_order", queue: "orders", weight: 25, fastest: 40 * ms, slowest: 2 * time.Second,
		effects: []string{"payment.charge"}, guarded: true, retry: backOff, executions: true}
	sendReceipt = &task{name: "mail.send_receipt", prefix: "receipt", queue: "mail", weight: 25, fastest: 100 * ms, slowest: 3 * time.Second,
		effects: []string{"email.send"}, targets: 1, retry: backOff}
	notifyCRM  = &task{name: "crm.notify", prefix: "crm", queue: "crm", weight: 15, fastest: 20 * ms, slowest: 400 * ms, retry: backOff}
	handleHook = &task{name: "webhook.handle", prefix: "webhook", queue: "webhooks", weight: 15, fastest: 5 * ms, slowest: 150 * ms,
		retry: backOff, lean: true, executions: true}
	buildReport = &task{name: "report.build", prefix: "report", queue: "reports", weight: 4, fastest: 10 * time.Second, slowest: 4 * time.Minute,
		effects: []string{"report.publish"}, retry: backOff}
	fulfilOrder = &task{name: "stock.fulfil", prefix: "order", queue: "stock", weight: 8, fastest: 500 * ms, slowest: 8 * time.Second,
		effects: []string{"stock.reserve", "shipping.book", "email.confirm"}, retry: backOff, executions: true}
	pushNews = &task{name: "newsletter.push", prefix: "newsletter", queue: "bulk", weight: 3, fastest: 2 * time.Second, slowest: 20 * time.Second,
		effects: []string{"email.send"}, targets: 5, retry: backOff, early: true, priority: "low"}
	warmCache = &task{name: "cache.warm", prefix: "cache", queue: "low", weight: 5, fastest: 10 * ms, slowest: 300 * ms, retry: backOff, early: true, priority: "low"}
)

var tasks = []*task{settleOrder, sendReceipt, notifyCRM, handleHook, buildReport, fulfilOrder, pushNews, warmCache}

// among draws a task by weight, of those that fit.
func (w *world) among(fits func(*task) bool) *task {
	sum := 0
	for _, t := range tasks {
		if fits(t) {
			sum += t.weight
		}
	}
	n := w.rng.IntN(sum)
	for _, t := range tasks {
		if !fits(t) {
			continue
		}
		if n -= t.weight; n < 0 {
			return t
		}
	}
	return nil
}

func anyTask(*task) bool      { return true }
func repeatable(t *task) bool { return !t.guarded }
func tells(t *task) bool      { return !t.lean }
func lateAck(t *task) bool    { return !t.early }

// polled is a task that retries in order to wait.
const polled = "celery.chord_unlock"

// Tasks of which only the plan publishes.
var (
	exportOrders = &task{name: "orders.export", prefix: "export", queue: "reports", fastest: 20 * time.Second, slowest: 2 * time.Minute,
		effects: []string{"file.upload"}, guarded: true, retry: backOff}
	chargeFees  = &task{name: "fees.charge", prefix: "fee", queue: "fees", fastest: 50 * ms, slowest: 500 * ms, effects: []string{"fee.charge"}, retry: backOff}
	fulfilEarly = func() *task {
		t := *fulfilOrder
		t.early = true
		return &t
	}()
)
