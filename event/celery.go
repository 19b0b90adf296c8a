package event

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
)

// celeryTypes says what the events that Celery's workers and clients send mean. The three of a worker are signs of
// life; which it was stays in the attributes as celery_type.
var celeryTypes = map[string]Type{
	"task-sent":        Sent,
	"task-received":    Received,
	"task-started":     Started,
	"task-succeeded":   Succeeded,
	"task-failed":      Failed,
	"task-retried":     Retried,
	"task-rejected":    Rejected,
	"task-revoked":     Revoked,
	"worker-online":    Heartbeat,
	"worker-heartbeat": Heartbeat,
	"worker-offline":   Heartbeat,
}

// celeryFields are the names of a raw Celery event. Everything else goes to the attributes, the arguments too. The
// timestamp counts from 1970 UTC wherever the worker runs: utcoffset, the hours of its zone, says nothing of when.
var celeryFields = map[string]field{
	"type":           text(func(e *draft) *string { return &e.celery.kind }),
	"timestamp":      moment(func(e *draft) *time.Time { return &e.Time }),
	"hostname":       text(func(e *draft) *string { return &e.Worker }),
	"pid":            count(func(e *draft) *int { return &e.PID }),
	"uuid":           text(func(e *draft) *string { return &e.TaskID }),
	"name":           text(func(e *draft) *string { return &e.Task }),
	"retries":        count(func(e *draft) *int { return &e.Retries }),
	"eta":            celeryMoment(func(e *draft) *time.Time { return &e.ETA }),
	"expires":        celeryMoment(func(e *draft) *time.Time { return &e.Expires }),
	"queue":          text(func(e *draft) *string { return &e.Queue }),
	"root_id":        text(func(e *draft) *string { return &e.RootID }),
	"parent_id":      text(func(e *draft) *string { return &e.ParentID }),
	"runtime":        seconds(func(e *draft) *float64 { return &e.Runtime }),
	"requeue":        flag(func(e *draft) *bool { return &e.Requeue }),
	"terminated":     flag(func(e *draft) *bool { return &e.Terminated }),
	"expired":        flag(func(e *draft) *bool { return &e.Expired }),
	"active":         count(func(e *draft) *int { return &e.Active }),
	"exception":      longText(func(e *draft) *string { return &e.celery.exception }),
	"emitter":        text(func(e *draft) *string { return &e.Emitter }), // of the bridge that carried it, with its number
	"seq":            sequence(func(e *draft) *int64 { return &e.Seq }),
	"local_received": func(*draft, value) *fault { return nil }, // when a monitor saw it: no part of the event
	"utcoffset":      func(*draft, value) *fault { return nil },
}

// celeryText is what a raw Celery event says in words of its own.
type celeryText struct {
	kind      string
	exception string
}

// isCelery reports whether an object is a raw Celery event: its type is of Celery's two families.
func isCelery(members []member) bool {
	v := find(members, "type")
	if v == "" || v.kind() != '"' {
		return false
	}
	kind := v.unquote()
	return strings.HasPrefix(kind, "task-") || strings.HasPrefix(kind, "worker-")
}

// readCelery reads a raw Celery event. Applications can send events of their own under either family's name; those tell
// the auditor nothing that it could count, and are rejected as of unknown type.
func (dr *draft) readCelery() *fault {
	for _, m := range dr.members {
		if bad := dr.set(celeryFields, m); bad != nil {
			return bad
		}
	}
	t, known := celeryTypes[dr.celery.kind]
	if !known {
		return faultf(ReasonUnknownType, "Celery event %.64q is none that the auditor knows", dr.celery.kind)
	}
	dr.Type = t
	dr.System = "celery"
	if t == Heartbeat {
		dr.extra = append(dr.extra, member{name: "celery_type", value: value(strconv.Quote(dr.celery.kind))})
	}
	if dr.Queue == "" {
		if v := find(dr.members, "routing_key"); v != "" && v.kind() == '"' {
			dr.Queue = cut(v.unquote(), maxText)
		}
	}
	dr.digestArguments()
	return dr.readException()
}

// digestArguments makes the digest of the arguments as they were told, so that a retry with others shows.
func (dr *draft) digestArguments() {
	args, kwargs := find(dr.members, "args"), find(dr.members, "kwargs")
	if args == "" && kwargs == "" {
		return
	}
	sum := sha256.Sum256([]byte(args.canonical() + "\n" + kwargs.canonical()))
	dr.ArgsDigest = "sha256:" + hex.EncodeToString(sum[:16])
}

// readException makes the error of an exception's repr and a traceback. A pool that lost its child reports a wrapper;
// then only the traceback names the real class.
func (dr *draft) readException() *fault {
	var trace string
	if v := find(dr.members, "traceback"); v != "" {
		text, bad := v.long()
		if bad != nil {
			return bad.in("traceback")
		}
		trace = text
	}
	if dr.celery.exception == "" && trace == "" {
		return nil
	}
	last := lastException(trace)
	e, named := exceptionOf(dr.celery.exception)
	if last.Type != "" && (!named || e.Type == "ExceptionWithTraceback") {
		e = last
	}
	if dr.Type == Retried && last.Type == "Retry" {
		dr.RetryIn = retryIn(last.Message)
	}
	e.Message = cut(e.Message, maxMessage)
	if e != (Error{}) {
		dr.Error = &e
	}
	return nil
}

// celeryMoment reads a time that may lack its zone: Celery writes such times in UTC.
func celeryMoment(at func(*draft) *time.Time) field {
	return keep(func(v value) (time.Time, *fault) {
		if v.kind() == '"' {
			if t, err := time.Parse("2006-01-02T15:04:05", v.unquote()); err == nil {
				return storable(t)
			}
		}
		return v.time()
	}, at)
}
