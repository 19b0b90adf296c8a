package web

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"auditor/event"
)

// parcel is what a request holds.
type parcel struct {
	records  []event.Record
	places   []badEvent // where each record stood in the request
	bad      []badEvent
	elements int
	events   []event.Event // of the record that was decoded last
}

func badForm(format string, args ...any) error {
	return &problem{Status: http.StatusBadRequest, Title: "Not understood", why: "form", Message: fmt.Sprintf(format, args...)}
}

func tooLarge(format string, args ...any) error {
	return &problem{Status: http.StatusRequestEntityTooLarge, Title: "Too large", why: "size", Message: fmt.Sprintf(format, args...)}
}

// read reads the events of a request: one object or an array of them, one a line, or a CloudEvent in any mode.
func (in *intake) read(r *http.Request) (parcel, error) {
	kind, err := kindOf(r.Header)
	if err != nil {
		return parcel{}, err
	}
	body, err := in.body(r)
	if err != nil {
		return parcel{}, err
	}
	in.metrics.bytes.Add(float64(len(body)))
	return in.split(kind, body)
}

// kind is how the body of a request is to be read.
type kind struct {
	lines   bool           // one record a line
	binary  bool           // the data of one CloudEvent
	headers []event.Header // as Kafka would have them
}

// kindOf reads what the headers say of the body.
func kindOf(h http.Header) (kind, error) {
	text := h.Get("Content-Type")
	media, parameters, err := mime.ParseMediaType(text)
	if err != nil {
		media = ""
	}
	if charset := parameters["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		media = ""
	}
	switch media {
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines":
		return kind{lines: true}, nil
	case "application/cloudevents+json", "application/cloudevents-batch+json":
		return kind{headers: []event.Header{{Key: "content-type", Value: []byte(media)}}}, nil
	case "application/json":
		if h.Get("Ce-Specversion") == "" {
			return kind{}, nil
		}
		attributes, err := binaryAttributes(h)
		return kind{binary: true, headers: attributes}, err
	}
	return kind{}, &problem{Status: http.StatusUnsupportedMediaType, Title: "Not understood", why: "form",
		Message: "Content-Type: must be application/json, application/x-ndjson, application/cloudevents+json or application/cloudevents-batch+json, in UTF-8"}
}

// binaryAttributes gives a CloudEvent's attributes, which HTTP carries in headers with escapes, as Kafka carries them.
func binaryAttributes(h http.Header) ([]event.Header, error) {
	var out []event.Header
	for name, values := range h {
		attribute, found := strings.CutPrefix(strings.ToLower(name), "ce-")
		if !found {
			continue
		}
		for _, v := range values {
			text, err := url.PathUnescape(v)
			if err != nil {
				return nil, badForm("%s: holds a broken escape", name)
			}
			out = append(out, event.Header{Key: "ce_" + attribute, Value: []byte(text)})
		}
	}
	slices.SortFunc(out, func(a, b event.Header) int { return strings.Compare(a.Key, b.Key) })
	return out, nil
}

// body reads the body and unpacks it. Neither what is sent nor what that unpacks to may be larger than the limit.
func (in *intake) body(r *http.Request) ([]byte, error) {
	packed := false
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
	case "gzip":
		packed = true
	default:
		return nil, &problem{Status: http.StatusUnsupportedMediaType, Title: "Not understood", why: "form", Message: "Content-Encoding: must be gzip, or none"}
	}
	limit := int64(in.Config.MaxBytes)
	var from io.Reader = r.Body
	if packed {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, brokenBody(err, limit)
		}
		defer unpacked.Close()
		from = unpacked
	}
	body, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err != nil {
		return nil, brokenBody(err, limit)
	}
	if int64(len(body)) > limit {
		return nil, tooLarge("The events have more than %d bytes, which is intake.max_bytes. Nothing was taken; send fewer at once.", limit)
	}
	return body, nil
}

// brokenBody says why a body could not be read.
func brokenBody(err error, limit int64) error {
	var much *http.MaxBytesError
	if errors.As(err, &much) {
		return tooLarge("The request has more than %d bytes, which is intake.max_bytes. Nothing was taken; send fewer at once.", limit)
	}
	return badForm("body: %v", err)
}

// split reads the events of a body. It depends on the configuration and the clock alone.
func (in *intake) split(k kind, body []byte) (parcel, error) {
	var p parcel
	now := in.now()
	if !k.lines {
		if trimmed := bytes.TrimLeft(body, " \t\r\n"); k.binary && len(trimmed) > 0 && trimmed[0] == '[' {
			return p, badForm("body: is the data of one CloudEvent, and so must be one object")
		}
		return p, in.add(&p, event.Record{Time: now, Headers: k.headers, Value: body}, 0)
	}
	number := 0
	for line := range bytes.Lines(body) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if err := in.add(&p, event.Record{Time: now, Value: line}, number); err != nil {
			return p, err
		}
	}
	if p.elements == 0 {
		return p, in.add(&p, event.Record{Time: now}, 0)
	}
	return p, nil
}

// add decodes a record of the request as ingest would, and makes a record of each event in it.
func (in *intake) add(p *parcel, r event.Record, line int) error {
	events, rejects := in.Decoder.Append(p.events[:0], nil, r)
	p.events = events
	first := p.elements
	if p.elements += len(events) + len(rejects); p.elements > in.Config.MaxEvents {
		return tooLarge("The request has more than %d events, which is intake.max_events. Nothing was taken; send fewer at once.", in.Config.MaxEvents)
	}
	refuse := func(index int32, reason event.Reason, detail string) {
		p.bad = append(p.bad, badEvent{first + int(index), line, reason, detail})
	}
	next := 0
	for i := range events {
		e := &events[i]
		for ; next < len(rejects) && rejects[next].Index < e.Index; next++ {
			refuse(rejects[next].Index, rejects[next].Reason, rejects[next].Detail)
		}
		out := event.RecordOf(e)
		if out.Time = r.Time; len(out.Value) > in.Decoder.MaxBytes() { // what was left out, such as the id, may make it so
			refuse(e.Index, event.ReasonTooLarge, fmt.Sprintf("%d bytes, an event may have %d", len(out.Value), in.Decoder.MaxBytes()))
			continue
		}
		p.records = append(p.records, out)
		p.places = append(p.places, badEvent{Index: first + int(e.Index), Line: line})
	}
	for _, reject := range rejects[next:] {
		refuse(reject.Index, reject.Reason, reject.Detail)
	}
	return nil
}
