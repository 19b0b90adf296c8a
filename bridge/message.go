package bridge

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"auditor/event"
)

// maxMessage is how many bytes of one message are looked at. Celery puts at most some dozen events into one.
const maxMessage = 8 << 20

// Message is what a broker passes on at once: one event or a list of them.
type Message struct {
	ContentType string
	Compression string // empty: none
	Body        []byte
	Broken      string // why the body could not be unpacked; empty: it could
}

// Reasons for which a message holds no event, beside those of event.Reasons.
const (
	reasonEnvelope    event.Reason = "bad_envelope" // not what kombu makes of a message
	reasonContentType event.Reason = "content_type" // not JSON: the application's event_serializer is another, or it compresses
)

// envelope is how kombu writes a message where the broker has no form of its own for it.
type envelope struct {
	Body        string `json:"body"`
	ContentType string `json:"content-type"`
	Headers     struct {
		Compression string `json:"compression"`
	} `json:"headers"`
	Properties struct {
		BodyEncoding string `json:"body_encoding"`
	} `json:"properties"`
}

// unpack opens kombu's envelope.
func unpack(text string) Message {
	if len(text) > maxMessage {
		return Message{Broken: fmt.Sprintf("%d bytes, may have %d", len(text), maxMessage)}
	}
	var e envelope
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return Message{Broken: err.Error()}
	}
	m := Message{ContentType: e.ContentType, Compression: e.Headers.Compression, Body: []byte(e.Body)}
	if e.Properties.BodyEncoding == "base64" {
		body, err := base64.StdEncoding.DecodeString(e.Body)
		if err != nil {
			return Message{Broken: err.Error()}
		}
		m.Body = body
	}
	return m
}

// events gives the events of a message, each as it was written, or says why it has none.
func (m Message) events() (events []json.RawMessage, reason event.Reason, detail string) {
	mediaType, _, _ := strings.Cut(m.ContentType, ";")
	switch {
	case m.Broken != "":
		return nil, reasonEnvelope, m.Broken
	case m.Compression != "":
		return nil, reasonContentType, fmt.Sprintf("compressed as %.64q; must not be compressed", m.Compression)
	case mediaType != "application/json":
		return nil, reasonContentType, fmt.Sprintf("content type %.64q; event_serializer must be json", m.ContentType)
	case len(m.Body) > maxMessage:
		return nil, event.ReasonTooLarge, fmt.Sprintf("%d bytes, may have %d", len(m.Body), maxMessage)
	}
	body := strings.TrimLeft(string(m.Body), " \t\r\n")
	if !strings.HasPrefix(body, "[") {
		return []json.RawMessage{json.RawMessage(strings.TrimRight(body, " \t\r\n"))}, "", ""
	}
	if err := json.Unmarshal([]byte(body), &events); err != nil {
		return nil, event.ReasonNotJSON, err.Error()
	}
	return events, "", ""
}
