package event

import (
	"encoding/base64"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// headers is what a record's headers say of its value.
type headers struct {
	structured bool     // each element is a CloudEvent
	binary     []member // the attributes of the CloudEvent of which the value is the data; nil when it is none
}

// size is how many bytes of the headers become part of each element.
func (h *headers) size() int {
	n := 0
	for _, m := range h.binary {
		n += len(m.name) + len(m.value)
	}
	return n
}

// readHeaders reads a record's headers as the Kafka protocol binding of CloudEvents has them: a content-type of
// application/cloudevents... means structured mode (or the batch format), ce_specversion means binary mode.
func readHeaders(all []Header) (headers, *fault) {
	var h headers
	var contentType string
	isBinary := false
	for _, header := range all {
		name, isAttribute := strings.CutPrefix(header.Key, "ce_")
		switch {
		case strings.EqualFold(header.Key, "content-type"):
			contentType = string(header.Value)
		case !isAttribute:
			continue
		case find(h.binary, name) != "":
			return h, faultf(ReasonDuplicateName, "header ce_%.64s is there twice", name)
		case !utf8.Valid(header.Value) || !utf8.ValidString(name):
			return h, faultf(ReasonBadUTF8, "header ce_%.64s is no UTF-8", strings.ToValidUTF8(name, "\uFFFD"))
		default:
			quoted, _ := jsontext.AppendQuote(nil, header.Value)
			h.binary = append(h.binary, member{name: name, value: value(quoted)})
			isBinary = isBinary || name == "specversion"
		}
	}
	const prefix = "application/cloudevents"
	h.structured = len(contentType) >= len(prefix) && strings.EqualFold(contentType[:len(prefix)], prefix)
	if h.structured || !isBinary {
		h.binary = nil
	}
	return h, nil
}

// cloudEvent is a CloudEvents envelope. Its context attributes fill what the data leaves open:
//
//	source and id   event_id
//	time            time
//	type            type, by its last word: task.succeeded, com.example.shop.succeeded.v1
//	partitionkey    business_key
//	subject         business_key, when there is no partitionkey
//	traceparent     traceparent
//
// All of them are kept in the event's attributes, under cloudevent.
type cloudEvent struct {
	context []member
	id      string
	kind    string
	key     string
	trace   string
	time    time.Time
}

// open takes a CloudEvent out of its envelope. Without one it gives the members back as they are.
func (h headers) open(s *scratch, members []member) (*cloudEvent, []member, *fault) {
	switch {
	case h.binary != nil && find(members, "specversion") == "":
		cloud, bad := readEnvelope(h.binary)
		return cloud, members, bad
	case h.structured || find(members, "specversion") != "":
		cloud, bad := readEnvelope(members)
		if bad != nil {
			return nil, nil, bad
		}
		data, bad := envelopeData(s, members)
		return cloud, data, bad
	}
	return nil, members, nil
}

// readEnvelope reads the context attributes.
func readEnvelope(members []member) (*cloudEvent, *fault) {
	c := &cloudEvent{}
	texts := map[string]string{}
	for _, m := range members {
		switch m.name {
		case "data", "data_base64", "datacontenttype", "specversion":
		default:
			c.context = append(c.context, m)
		}
		switch m.name {
		case "specversion", "id", "source", "type", "subject", "partitionkey", "traceparent":
			if m.value == "null" {
				continue
			}
			text, bad := m.value.text()
			if bad != nil {
				return nil, bad.in("CloudEvent " + m.name)
			}
			texts[m.name] = text
		case "time":
			if m.value == "null" {
				continue
			}
			t, bad := m.value.time()
			if bad != nil {
				return nil, bad.in("CloudEvent time")
			}
			c.time = t
		}
	}
	if v := texts["specversion"]; v != "1.0" {
		return nil, faultf(ReasonBadCloudEvent, "specversion %.16q, must be 1.0", v)
	}
	for _, name := range []string{"id", "source", "type"} {
		if texts[name] == "" {
			return nil, faultf(ReasonBadCloudEvent, "the envelope tells no %s", name)
		}
	}
	if strings.ContainsAny(texts["source"], " \t\r\n") {
		return nil, faultf(ReasonBadCloudEvent, "source %.64q, must be a URI reference", texts["source"])
	}
	c.id = texts["source"] + " " + texts["id"] // no source holds a blank, so no two pairs make one id
	if len(c.id) > maxText {
		return nil, faultf(ReasonTooLong, "CloudEvent source and id have %d bytes, may have %d", len(c.id), maxText)
	}
	c.kind, c.trace, c.key = texts["type"], texts["traceparent"], texts["partitionkey"]
	if c.key == "" {
		c.key = texts["subject"]
	}
	return c, nil
}

// envelopeData gives the members of a structured CloudEvent's data: none when it has no data.
func envelopeData(s *scratch, members []member) ([]member, *fault) {
	data, encoded := find(members, "data"), find(members, "data_base64")
	switch {
	case data != "" && encoded != "":
		return nil, faultf(ReasonBadCloudEvent, "the envelope has data and data_base64")
	case data != "":
		parsed, bad := s.parse([]byte(data))
		return parsed, bad.in("data")
	case encoded == "":
		return nil, nil
	}
	text, bad := encoded.long()
	if bad != nil {
		return nil, bad.in("data_base64")
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, faultf(ReasonBadCloudEvent, "data_base64: %v", err)
	}
	parsed, bad := s.parse(raw)
	return parsed, bad.in("data_base64")
}

// complete gives the draft what its data left open.
func (c *cloudEvent) complete(dr *draft) {
	if dr.ID == "" {
		dr.ID = c.id
	}
	if dr.Time.IsZero() {
		dr.Time = c.time
	}
	if dr.BusinessKey == "" && dr.TaskID != "" {
		dr.BusinessKey = c.key
	}
	if dr.Traceparent == "" {
		dr.Traceparent = c.trace
	}
	if dr.Type == "" && dr.outcome == "" {
		dr.Type = c.eventType()
	}
	dr.extra = append(dr.extra, member{name: "cloudevent", value: joined(c.context)})
}

// eventType reads the last word of the envelope's type, a version such as v1 aside.
func (c *cloudEvent) eventType() Type {
	kind := c.kind
	if i := strings.LastIndexByte(kind, '.'); i >= 0 && strings.HasPrefix(kind[i+1:], "v") && isDigits(kind[i+2:]) {
		kind = kind[:i]
	}
	return Type(kind[strings.LastIndexByte(kind, '.')+1:])
}
