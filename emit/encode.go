package emit

import (
	"encoding/json"
	"time"

	"auditor/event"
)

// wire is the event as auditor JSON. What was not told is left out.
type wire struct {
	EventID     string          `json:"event_id,omitempty"`
	Type        event.Type      `json:"type"`
	Time        string          `json:"time"`
	Namespace   string          `json:"namespace,omitempty"`
	System      string          `json:"system,omitempty"`
	Task        string          `json:"task,omitempty"`
	TaskID      string          `json:"task_id,omitempty"`
	BusinessKey string          `json:"business_key,omitempty"`
	ExecutionID string          `json:"execution_id,omitempty"`
	Retries     *int            `json:"retries,omitempty"`
	MaxRetries  *int            `json:"max_retries,omitempty"`
	RetryIn     *int            `json:"retry_in,omitempty"`
	Queue       string          `json:"queue,omitempty"`
	Worker      string          `json:"worker,omitempty"`
	PID         int             `json:"pid,omitempty"`
	Redelivered *bool           `json:"redelivered,omitempty"`
	AcksLate    *bool           `json:"acks_late,omitempty"`
	Effect      *wireEffect     `json:"effect,omitempty"`
	Error       *wireError      `json:"error,omitempty"`
	Skip        *wireSkip       `json:"skip,omitempty"`
	ETA         string          `json:"eta,omitempty"`
	Expires     string          `json:"expires,omitempty"`
	Deadline    string          `json:"deadline,omitempty"`
	FirstSent   string          `json:"first_sent,omitempty"`
	Runtime     float64         `json:"runtime,omitempty"`
	Requeue     bool            `json:"requeue,omitempty"`
	Terminated  bool            `json:"terminated,omitempty"`
	Expired     bool            `json:"expired,omitempty"`
	Active      *int            `json:"active,omitempty"`
	RequestID   string          `json:"request_id,omitempty"`
	RootID      string          `json:"root_id,omitempty"`
	ParentID    string          `json:"parent_id,omitempty"`
	Traceparent string          `json:"traceparent,omitempty"`
	ArgsDigest  string          `json:"args_digest,omitempty"`
	Emitter     string          `json:"emitter,omitempty"`
	Seq         *int64          `json:"seq,omitempty"`
	Attributes  json.RawMessage `json:"attributes,omitempty"`
}

type wireEffect struct {
	Name           string `json:"name"`
	Target         string `json:"target,omitempty"`
	IdempotencyKey string `json:"idempotency_key,omitempty"`
	Deduplicated   bool   `json:"deduplicated,omitempty"`
	Amount         string `json:"amount,omitempty"`
	Currency       string `json:"currency,omitempty"`
}

type wireError struct {
	Type      string `json:"type,omitempty"`
	Message   string `json:"message,omitempty"`
	Permanent bool   `json:"permanent,omitempty"`
}

type wireSkip struct {
	Reason string `json:"reason,omitempty"`
	Holder string `json:"holder,omitempty"`
}

// Encode writes e as auditor JSON, which the decoder of package event reads back as the same event. Where an event
// stands in Kafka is no part of it.
func Encode(e event.Event) ([]byte, error) {
	w := wire{
		EventID: e.ID, Type: e.Type, Time: stamp(e.Time), Namespace: e.Namespace, System: e.System, Task: e.Task,
		TaskID: e.TaskID, BusinessKey: e.BusinessKey, ExecutionID: e.ExecutionID, Retries: told(e.Retries),
		MaxRetries: told(e.MaxRetries), RetryIn: told(e.RetryIn), Queue: e.Queue, Worker: e.Worker, PID: e.PID,
		Redelivered: e.Redelivered, AcksLate: e.AcksLate, ETA: stamp(e.ETA), Expires: stamp(e.Expires),
		Deadline: stamp(e.Deadline), FirstSent: stamp(e.FirstSent), Runtime: e.Runtime, Requeue: e.Requeue,
		Terminated: e.Terminated, Expired: e.Expired, Active: told(e.Active), RequestID: e.RequestID, RootID: e.RootID,
		ParentID: e.ParentID, Traceparent: e.Traceparent, ArgsDigest: e.ArgsDigest, Emitter: e.Emitter,
		Seq: told(e.Seq), Attributes: json.RawMessage(e.Attributes),
	}
	if e.Effect != nil {
		effect := wireEffect(*e.Effect)
		w.Effect = &effect
	}
	if e.Error != nil {
		failure := wireError(*e.Error)
		w.Error = &failure
	}
	if e.Skip != nil {
		skip := wireSkip(*e.Skip)
		w.Skip = &skip
	}
	return json.Marshal(w)
}

func told[N int | int64](n N) *N {
	if n == event.Unknown {
		return nil
	}
	return &n
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
