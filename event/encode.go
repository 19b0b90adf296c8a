package event

import (
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// MarshalJSON writes the event as AppendJSON does. It never fails.
func (e *Event) MarshalJSON() ([]byte, error) { return e.AppendJSON(nil), nil }

// AppendJSON appends the event as one object of auditor JSON, fields in a fixed order, what was not told left out. It
// decodes to an equal event, but for the place and time in Kafka, which are no part of it. Attributes must be valid.
func (e *Event) AppendJSON(dst []byte) []byte {
	w := writer{append(dst, '{')}
	w.text("event_id", e.ID)
	w.text("type", string(e.Type))
	w.time("time", e.Time)
	w.text("namespace", e.Namespace)
	w.text("system", e.System)
	w.text("task", e.Task)
	w.text("task_id", e.TaskID)
	w.text("business_key", e.BusinessKey)
	w.text("execution_id", e.ExecutionID)
	w.integer("retries", int64(e.Retries), Unknown)
	w.integer("max_retries", int64(e.MaxRetries), Unknown)
	w.integer("retry_in", int64(e.RetryIn), Unknown)
	w.text("queue", e.Queue)
	w.text("worker", e.Worker)
	w.integer("pid", int64(e.PID), 0)
	w.optional("redelivered", e.Redelivered)
	w.optional("acks_late", e.AcksLate)
	if f := e.Effect; f != nil {
		w.open("effect")
		w.text("name", f.Name)
		w.text("target", f.Target)
		w.text("idempotency_key", f.IdempotencyKey)
		w.flag("deduplicated", f.Deduplicated)
		w.text("amount", f.Amount)
		w.text("currency", f.Currency)
		w.close()
	}
	if f := e.Error; f != nil {
		w.open("error")
		w.text("type", f.Type)
		w.text("message", f.Message)
		w.flag("permanent", f.Permanent)
		w.close()
	}
	if f := e.Skip; f != nil {
		w.open("skip")
		w.text("reason", f.Reason)
		w.text("holder", f.Holder)
		w.close()
	}
	w.time("eta", e.ETA)
	w.time("expires", e.Expires)
	w.time("deadline", e.Deadline)
	w.time("first_sent", e.FirstSent)
	w.seconds("runtime", e.Runtime)
	w.flag("requeue", e.Requeue)
	w.flag("terminated", e.Terminated)
	w.flag("expired", e.Expired)
	w.integer("active", int64(e.Active), Unknown)
	w.text("request_id", e.RequestID)
	w.text("root_id", e.RootID)
	w.text("parent_id", e.ParentID)
	w.text("traceparent", e.Traceparent)
	w.text("args_digest", e.ArgsDigest)
	w.text("emitter", e.Emitter)
	w.integer("seq", e.Seq, Unknown)
	if e.Attributes != "" {
		w.name("attributes")
		w.b = append(w.b, e.Attributes...)
	}
	return append(w.b, '}')
}

// writer appends the members of an object.
type writer struct{ b []byte }

func (w *writer) name(name string) {
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(w.b, '"')
	w.b = append(w.b, name...)
	w.b = append(w.b, '"', ':')
}

func (w *writer) open(name string) {
	w.name(name)
	w.b = append(w.b, '{')
}

func (w *writer) close() { w.b = append(w.b, '}') }

func (w *writer) text(name, s string) {
	if s != "" {
		w.name(name)
		w.b, _ = jsontext.AppendQuote(w.b, s) // bad UTF-8 is written as U+FFFD
	}
}

func (w *writer) integer(name string, n, absent int64) {
	if n != absent {
		w.name(name)
		w.b = strconv.AppendInt(w.b, n, 10)
	}
}

func (w *writer) seconds(name string, s float64) {
	if s > 0 && s <= math.MaxFloat64 {
		w.name(name)
		w.b = strconv.AppendFloat(w.b, s, 'g', -1, 64)
	}
}

func (w *writer) flag(name string, set bool) {
	if set {
		w.name(name)
		w.b = append(w.b, "true"...)
	}
}

func (w *writer) optional(name string, b *bool) {
	if b != nil {
		w.name(name)
		w.b = strconv.AppendBool(w.b, *b)
	}
}

func (w *writer) time(name string, t time.Time) {
	if !t.IsZero() {
		w.name(name)
		w.b = append(w.b, '"')
		w.b = t.UTC().AppendFormat(w.b, time.RFC3339Nano)
		w.b = append(w.b, '"')
	}
}
