// Package reject holds what could not be read as an event, what became of it since, and the rules of sending it again.
// Like all below event it is pure: no I/O, no clock.
package reject

import (
	"encoding/json"
	"time"

	"auditor/event"
)

// State is what became of a reject.
type State string

// The states of a reject.
const (
	Open     State = "open"     // nothing was done with it, or what was tried has surely failed
	Unknown  State = "unknown"  // it was sent again, or was about to be, and nobody knows whether it arrived
	Replayed State = "replayed" // it was sent again, as it was or mended, and Kafka has it
	Purged   State = "purged"   // its bytes were deleted; place, reason and time are kept
)

// States lists every state.
var States = []State{Open, Unknown, Replayed, Purged}

// Reject is a rejected record, or element of a record's array, and what became of it.
type Reject struct {
	event.Reject         // Raw may be cut, in lists
	Size         int     // bytes of the whole value
	State        State   //
	Log          []Entry // what was done with it, the oldest first; nil in lists
}

// Action is one thing that was done with a reject.
type Action string

// The actions. Each replay is an Intended and, once its outcome is known, a Sent or a NotSent of the same attempt.
const (
	Intended Action = "intended" // it is about to be sent
	Sent     Action = "sent"     // Kafka has it
	NotSent  Action = "not_sent" // Kafka surely has it not
	Unclear  Action = "unclear"  // nobody could say; the note says why
	Purge    Action = "purge"    // somebody asked for its bytes to be deleted
)

// How many bytes an entry's By and Note may have.
const (
	LongestBy   = 100
	LongestNote = 2000
)

// Entry is one entry of a reject's log. What follows Note is told by Intended and Sent only.
type Entry struct {
	event.Position                // of the reject
	KafkaTime      time.Time      // of the reject
	Time           time.Time      // when it was done
	Action         Action         //
	Attempt        string         // the same for all entries of one replay, or of one purge
	By             string         // who asked for it
	Note           string         // why; or what went wrong
	To             event.Position // Intended: the first offset at which it can arrive. Sent: where it arrived. Index is 0
	Mended         bool           // other bytes were sent than those that were rejected
	Digest         string         // of the bytes that were sent: sha256 and its hexadecimal digits
	EventIDs       []string       // the events that they make; none where the decoder was overruled
}

// Fate is what the store knows of a replay: of one that was sent, whether it was read, and of one whose outcome is unknown,
// whether it has arrived.
type Fate struct {
	Attempt string
	Event   *event.Position // where its event is stored, or the first of them; nil: nowhere yet
	Reject  *event.Position // where it was rejected again; nil: it was not
}

// MarshalJSON writes the reject as the API and the commands tell it; bytes are base64.
func (r Reject) MarshalJSON() ([]byte, error) {
	type header struct {
		Name  string `json:"name"`
		Value []byte `json:"value"`
	}
	headers := make([]header, len(r.Headers))
	for i, h := range r.Headers {
		headers[i] = header{h.Key, text(h.Value)}
	}
	return json.Marshal(struct {
		Position  string       `json:"position"`
		Topic     string       `json:"topic"`
		Partition int32        `json:"partition"`
		Offset    int64        `json:"offset"`
		Index     int32        `json:"index"`
		Time      time.Time    `json:"time"`
		Reason    event.Reason `json:"reason"`
		Detail    string       `json:"detail"`
		State     State        `json:"state"`
		Key       []byte       `json:"key"`
		Headers   []header     `json:"headers,omitempty"`
		Raw       []byte       `json:"raw"`
		Size      int          `json:"size"`
		Log       []Entry      `json:"log,omitempty"`
	}{event.FormatPosition(r.Position), r.Topic, r.Partition, r.Offset, r.Index, r.KafkaTime, r.Reason, r.Detail, r.State,
		text(r.Key), headers, text(r.Raw), r.Size, r.Log})
}

// text is never nil, so that JSON says "" and not null.
func text(b []byte) []byte { return append([]byte{}, b...) }

// MarshalJSON writes an entry without the reject that it is of.
func (e Entry) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Time     time.Time `json:"time"`
		Action   Action    `json:"action"`
		Attempt  string    `json:"attempt"`
		By       string    `json:"by"`
		Note     string    `json:"note"`
		To       *place    `json:"to,omitempty"`
		Mended   bool      `json:"mended,omitempty"`
		Digest   string    `json:"digest,omitempty"`
		EventIDs []string  `json:"event_ids,omitempty"`
	}{e.Time, e.Action, e.Attempt, e.By, e.Note, placeOf(e.To), e.Mended, e.Digest, e.EventIDs})
}

// place is a place in Kafka, as JSON tells it.
type place struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    *int64 `json:"offset,omitempty"`
}

func placeOf(p event.Position) *place {
	if p.Topic == "" {
		return nil
	}
	return &place{p.Topic, p.Partition, &p.Offset}
}
