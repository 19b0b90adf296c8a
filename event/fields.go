package event

import (
	"math"
	"time"
)

// field reads the value of one name into a draft. The value is not null.
type field func(*draft, value) *fault

// fields are the names of auditor JSON. Everything else goes to the attributes.
var fields = map[string]field{
	"event_id":     text(func(e *draft) *string { return &e.ID }),
	"type":         text(func(e *draft) *string { return (*string)(&e.Type) }),
	"outcome":      text(func(e *draft) *string { return &e.outcome }),
	"time":         moment(func(e *draft) *time.Time { return &e.Time }),
	"namespace":    text(func(e *draft) *string { return &e.Namespace }),
	"system":       text(func(e *draft) *string { return &e.System }),
	"task":         text(func(e *draft) *string { return &e.Task }),
	"task_id":      text(func(e *draft) *string { return &e.TaskID }),
	"business_key": text(func(e *draft) *string { return &e.BusinessKey }),
	"execution_id": text(func(e *draft) *string { return &e.ExecutionID }),
	"retries":      count(func(e *draft) *int { return &e.Retries }),
	"max_retries":  count(func(e *draft) *int { return &e.MaxRetries }),
	"retry_in":     wholeSeconds(func(e *draft) *int { return &e.RetryIn }),
	"queue":        text(func(e *draft) *string { return &e.Queue }),
	"worker":       text(func(e *draft) *string { return &e.Worker }),
	"pid":          count(func(e *draft) *int { return &e.PID }),
	"redelivered":  optional(func(e *draft) **bool { return &e.Redelivered }),
	"acks_late":    optional(func(e *draft) **bool { return &e.AcksLate }),
	"effect":       object("effect", effectFields, func(e *draft) { e.Effect = &Effect{} }),
	"error":        object("error", errorFields, func(e *draft) { e.Error = &Error{} }),
	"skip":         object("skip", skipFields, func(e *draft) { e.Skip = &Skip{} }),
	"eta":          moment(func(e *draft) *time.Time { return &e.ETA }),
	"expires":      moment(func(e *draft) *time.Time { return &e.Expires }),
	"deadline":     moment(func(e *draft) *time.Time { return &e.Deadline }),
	"first_sent":   moment(func(e *draft) *time.Time { return &e.FirstSent }),
	"runtime":      seconds(func(e *draft) *float64 { return &e.Runtime }),
	"requeue":      flag(func(e *draft) *bool { return &e.Requeue }),
	"terminated":   flag(func(e *draft) *bool { return &e.Terminated }),
	"expired":      flag(func(e *draft) *bool { return &e.Expired }),
	"active":       count(func(e *draft) *int { return &e.Active }),
	"request_id":   text(func(e *draft) *string { return &e.RequestID }),
	"root_id":      text(func(e *draft) *string { return &e.RootID }),
	"parent_id":    text(func(e *draft) *string { return &e.ParentID }),
	"traceparent":  text(func(e *draft) *string { return &e.Traceparent }),
	"args_digest":  text(func(e *draft) *string { return &e.ArgsDigest }),
	"emitter":      text(func(e *draft) *string { return &e.Emitter }),
	"seq":          sequence(func(e *draft) *int64 { return &e.Seq }),
	"attributes":   attributes,
}

var effectFields = map[string]field{
	"name":            text(func(e *draft) *string { return &e.Effect.Name }),
	"target":          text(func(e *draft) *string { return &e.Effect.Target }),
	"idempotency_key": text(func(e *draft) *string { return &e.Effect.IdempotencyKey }),
	"deduplicated":    flag(func(e *draft) *bool { return &e.Effect.Deduplicated }),
	"amount":          decimal(func(e *draft) *string { return &e.Effect.Amount }),
	"currency":        text(func(e *draft) *string { return &e.Effect.Currency }),
}

var errorFields = map[string]field{
	"type":      text(func(e *draft) *string { return &e.Error.Type }),
	"message":   message(func(e *draft) *string { return &e.Error.Message }),
	"permanent": flag(func(e *draft) *bool { return &e.Error.Permanent }),
}

var skipFields = map[string]field{
	"reason": text(func(e *draft) *string { return &e.Skip.Reason }),
	"holder": text(func(e *draft) *string { return &e.Skip.Holder }),
}

// keep makes a field of how its value is read and where it goes.
func keep[T any](read func(value) (T, *fault), at func(*draft) *T) field {
	return func(dr *draft, v value) *fault {
		x, bad := read(v)
		if bad == nil {
			*at(dr) = x
		}
		return bad
	}
}

func text(at func(*draft) *string) field      { return keep(value.text, at) }
func decimal(at func(*draft) *string) field   { return keep(value.decimal, at) }
func moment(at func(*draft) *time.Time) field { return keep(value.time, at) }
func flag(at func(*draft) *bool) field        { return keep(value.bool, at) }
func seconds(at func(*draft) *float64) field  { return keep(value.seconds, at) }

func longText(at func(*draft) *string) field { return keep(value.long, at) }

// message is text that is cut rather than rejected when it is long.
func message(at func(*draft) *string) field {
	return keep(func(v value) (string, *fault) {
		s, bad := v.long()
		return cut(s, maxMessage), bad
	}, at)
}

func count(at func(*draft) *int) field {
	return keep(func(v value) (int, *fault) {
		n, bad := v.integer(math.MaxInt32)
		return int(n), bad
	}, at)
}

// wholeSeconds rounds up, so that an attempt is not expected before its time.
func wholeSeconds(at func(*draft) *int) field {
	return keep(func(v value) (int, *fault) {
		n, bad := v.seconds()
		if bad == nil && n > math.MaxInt32 {
			bad = faultf(ReasonOutOfRange, "%.64s, must be at most %d seconds", v, math.MaxInt32)
		}
		return int(math.Ceil(min(n, math.MaxInt32))), bad
	}, at)
}

func optional(at func(*draft) **bool) field {
	return keep(func(v value) (*bool, *fault) {
		b, bad := v.bool()
		return &b, bad
	}, at)
}

func sequence(at func(*draft) *int64) field {
	return keep(func(v value) (int64, *fault) { return v.integer(math.MaxInt64) }, at)
}

func attributes(dr *draft, v value) *fault {
	if v.kind() != '{' {
		return faultf(ReasonWrongType, "a JSON %s, must be an object", v.what())
	}
	dr.attributes = v
	return nil
}

// object reads an object of its own fields after begin has made room for it. What has no field there is kept in the
// attributes, under the object's name.
func object(name string, fields map[string]field, begin func(*draft)) field {
	return func(dr *draft, v value) *fault {
		if v.kind() != '{' {
			return faultf(ReasonWrongType, "a JSON %s, must be an object", v.what())
		}
		begin(dr)
		outer := dr.extra
		dr.extra = nil
		for name, inner := range v.members() {
			if bad := dr.set(fields, member{name, inner}); bad != nil {
				return bad
			}
		}
		if inner := dr.extra; len(inner) > 0 {
			outer = append(outer, member{name: name, value: joined(inner)})
		}
		dr.extra = outer
		return nil
	}
}
