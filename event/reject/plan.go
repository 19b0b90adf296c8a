package reject

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"auditor/event"
)

// OriginHeader is the header of a record that was sent again. It names the reject that the record came of.
const OriginHeader = "auditor-reject"

// Order says how a reject is to be sent again.
type Order struct {
	Value []byte // what to send in place of the reject's own bytes; nil: those
	Topic string // where to; empty: to the topic that it came from
	Again bool   // also if it was sent before, or may have been
	Force bool   // also if it is no event still, or another event than the one that was sent before
	By    string // who asks for it
	Note  string // why
}

// Plan is what a replay sends.
type Plan struct {
	Record   event.Record // to which partition: where it came from, or AnyPartition in another topic; without an offset
	Mended   bool         // its value is not the reject's own
	Digest   string       // of its value
	EventIDs []string     // of the events that it makes, in order; none where the decoder was overruled
}

// AnyPartition leaves it to the sender to choose a partition, by the record's key.
const AnyPartition = -1

// Cause is why a reject is not sent again, from a short fixed list.
type Cause string

// The causes.
const (
	CausePurged     Cause = "purged"          // nothing is left to send
	CauseReplayed   Cause = "replayed"        // it was sent already; Again overrules
	CauseUnknown    Cause = "unknown_outcome" // it may have been sent already; Again overrules
	CauseBadBatch   Cause = "bad_batch"       // its bytes are many records, and no one record
	CauseNoEvent    Cause = "no_event"        // ingest would reject it again; Force overrules
	CauseOtherEvent Cause = "other_event"     // what was sent before makes another event, and both would count; Force overrules
	CauseAtOnce     Cause = "at_once"         // somebody else replays it at the same time
	CauseNotOne     Cause = "not_one"         // there is none at that position, or several
)

// Refusal is the error that says why a reject is not sent again. Nothing was sent then.
type Refusal struct {
	Cause Cause
	Why   string // a clause, for a person
}

// Error says why.
func (r *Refusal) Error() string { return r.Why }

func refuse(cause Cause, format string, args ...any) error {
	return &Refusal{cause, fmt.Sprintf(format, args...)}
}

// Decoder is what ingest reads records with.
type Decoder interface {
	Decode(event.Record) ([]event.Event, []event.Reject)
}

// Plan says what carrying out the order on r sends, or gives a *Refusal. r must be whole, with its log.
//
// The same bytes make the same events: those that carry no id have one made of their content. So it does no harm to the
// judgement when a replay whose outcome is unknown is made again and arrives twice; Plan sees to it that what is sent
// the second time is the same event, though it was mended in another way.
//
// The record carries the time of the replay, since by that its row is filed and the rules notice it.
func (o Order) Plan(r Reject, d Decoder, now time.Time) (Plan, error) {
	if err := o.allowed(r); err != nil {
		return Plan{}, err
	}
	value := o.Value
	if value == nil {
		value = r.Raw
	}
	p := Plan{
		Record: event.Record{
			Position: event.Position{Topic: r.Topic, Partition: r.Partition},
			Time:     now.UTC().Truncate(time.Millisecond),
			Key:      r.Key,
			Value:    value,
			Headers:  append(slices.DeleteFunc(slices.Clone(r.Headers), isOrigin), event.Header{Key: OriginHeader, Value: []byte(event.FormatPosition(r.Position))}),
		},
		Mended: !bytes.Equal(value, r.Raw),
		Digest: digest(value),
	}
	if o.Topic != "" && o.Topic != r.Topic {
		p.Record.Position = event.Position{Topic: o.Topic, Partition: AnyPartition}
	}
	events, bad, err := decode(d, p.Record)
	if err != nil {
		return Plan{}, err
	}
	for i := range events {
		p.EventIDs = append(p.EventIDs, events[i].ID)
	}
	switch {
	case o.Force:
	case len(bad) == 1 && len(events) == 0:
		return Plan{}, refuse(CauseNoEvent, "it would be rejected again: %s: %s", bad[0].Reason, bad[0].Detail)
	case len(bad) > 0:
		return Plan{}, refuse(CauseNoEvent, "%d of its %d elements would be rejected again, first element %d: %s: %s",
			len(bad), len(bad)+len(events), bad[0].Index, bad[0].Reason, bad[0].Detail)
	default:
		return p, sameEvents(p, r)
	}
	return p, nil
}

// decode reads a record. One on which the decoder fails is refused, for ingest would keep it as a reject again.
func decode(d Decoder, r event.Record) (events []event.Event, bad []event.Reject, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = refuse(CauseNoEvent, "it would be rejected again: %s: the decoder failed: %v", event.ReasonDecoderFailed, fault)
		}
	}()
	events, bad = d.Decode(r)
	return events, bad, nil
}

func isOrigin(h event.Header) bool { return h.Key == OriginHeader }

func digest(value []byte) string {
	sum := sha256.Sum256(value)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// allowed refuses what must not be sent, whatever it is.
func (o Order) allowed(r Reject) error {
	last := r.lastSent()
	switch {
	case r.State == Purged:
		return refuse(CausePurged, "its bytes were purged, nothing is left to send")
	case r.State == Replayed && !o.Again:
		return refuse(CauseReplayed, "it was sent to %s:%d:%d already, at %s by %s",
			last.To.Topic, last.To.Partition, last.To.Offset, last.Time.UTC().Format(time.DateTime), last.By)
	case r.State == Unknown && !o.Again:
		open := r.Unsettled()[0]
		return refuse(CauseUnknown, "it may have been sent to %s:%d at %s by %s: the outcome is unknown",
			open.To.Topic, open.To.Partition, open.Time.UTC().Format(time.DateTime), open.By)
	case r.Reason == event.ReasonBadBatch && o.Value == nil:
		return refuse(CauseBadBatch, "it is a whole batch of records, which cannot be sent as one: take its events out of the bytes, and send them in its place as one JSON array")
	}
	return nil
}

// sameEvents refuses a plan that makes other events than an earlier replay of r which arrived, or may have.
func sameEvents(p Plan, r Reject) error {
	for _, e := range r.Log {
		arrived := e.Action == Sent || e.Action == Intended && slices.ContainsFunc(r.Unsettled(), func(open Entry) bool { return open.Attempt == e.Attempt })
		if arrived && len(e.EventIDs) > 0 && !slices.Equal(e.EventIDs, p.EventIDs) {
			return refuse(CauseOtherEvent, "it was sent as the event %s before, and this would be another one, %s: give it that event_id to have them counted as one",
				e.EventIDs[0], p.EventIDs[0])
		}
	}
	return nil
}

// StateOf gives the state that follows from a reject's log.
func StateOf(purged bool, log []Entry) State {
	r := Reject{Log: log}
	switch {
	case purged:
		return Purged
	case r.lastSent().Action == Sent:
		return Replayed
	case len(r.Unsettled()) > 0:
		return Unknown
	}
	return Open
}

// lastSent is the last replay that arrived; the zero entry when there was none.
func (r Reject) lastSent() Entry {
	for _, e := range slices.Backward(r.Log) {
		if e.Action == Sent {
			return e
		}
	}
	return Entry{}
}

// Unsettled gives the replays whose outcome is unknown, the oldest first: what each intended.
func (r Reject) Unsettled() []Entry {
	var open []Entry
	for _, e := range r.Log {
		settles := func(other Entry) bool {
			return other.Attempt == e.Attempt && (other.Action == Sent || other.Action == NotSent)
		}
		if e.Action == Intended && !slices.ContainsFunc(r.Log, settles) {
			open = append(open, e)
		}
	}
	return open
}

// Outcome is what became of an order.
type Outcome string

// The outcomes.
const (
	WasSent     Outcome = "sent"       // Kafka has it
	WouldBeSent Outcome = "would_send" // nothing was done: the order was only tried
	HadArrived  Outcome = "arrived"    // nothing was sent: an earlier replay, whose outcome was unknown, has arrived
	WasRefused  Outcome = "refused"    // nothing was sent: it must not be
	HasFailed   Outcome = "failed"     // nothing was sent: it could not be
	WasLeftOpen Outcome = "unknown"    // it may have been sent
)

// Result is what became of an order on one reject.
type Result struct {
	Position event.Position // of the reject
	Outcome  Outcome
	To       event.Position // WasSent, HadArrived: where it is. WouldBeSent: where it would go, without an offset
	EventIDs []string       // the events that it makes
	Mended   bool
	Err      error // why it was not sent, a *Refusal where it was refused; WasSent: why that is not in the log
}

// MarshalJSON writes the result as the commands and the API tell it.
func (r Result) MarshalJSON() ([]byte, error) {
	out := struct {
		Position string   `json:"position"`
		Outcome  Outcome  `json:"outcome"`
		To       *place   `json:"to,omitempty"`
		EventIDs []string `json:"event_ids,omitempty"`
		Mended   bool     `json:"mended,omitempty"`
		Cause    Cause    `json:"cause,omitempty"` // of a refusal
		Error    string   `json:"error,omitempty"`
	}{event.FormatPosition(r.Position), r.Outcome, placeOf(r.To), r.EventIDs, r.Mended, "", ""}
	if r.Outcome == WouldBeSent && out.To != nil {
		out.To.Offset = nil
	}
	if r.Err != nil {
		out.Error = r.Err.Error()
	}
	if refusal := new(Refusal); errors.As(r.Err, &refusal) {
		out.Cause = refusal.Cause
	}
	return json.Marshal(out)
}
