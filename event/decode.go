package event

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"auditor/event/pattern"
)

// Defaults of a DecoderConfig, and the bounds that have no setting.
const (
	DefaultMaxBytes = 1 << 20
	DefaultMaxSkew  = 2 * 365 * 24 * time.Hour

	maxElements = 10_000  // events in one record
	maxRepeated = 8 << 20 // bytes of its key and headers that they may repeat together
	maxText     = 1 << 10 // bytes of an id or a name; a longer one is rejected
	maxMessage  = 8 << 10 // bytes of an error message; a longer one is cut
	maxDetail   = 512     // bytes of a reject's detail; a longer one is cut
)

// DecoderConfig is what decoding depends on beside the record. The zero value is ready for use.
type DecoderConfig struct {
	MaxBytes  int               // bytes of one event, DefaultMaxBytes when 0
	MaxSkew   time.Duration     // how far an event's time may be from its record's, DefaultMaxSkew when 0
	Namespace string            // namespace of events that name none
	Keys      map[string]string // task name, or pattern of names, to the template of its business key, such as "order:{{ arg 0 }}"; see ParseKeyTemplate
}

// Decoder turns records into events. It is immutable: safe for concurrent use, and what it answers depends on its
// configuration and the record alone.
//
// A record may hold, without being told which: auditor JSON, a CloudEvent 1.0 in structured or binary mode whose data
// is auditor JSON or a raw Celery event, a raw Celery event, or an array of any of these.
type Decoder struct {
	maxBytes  int
	maxSkew   time.Duration
	namespace string
	keys      map[string]*KeyTemplate
	patterns  []string // of keys, those that say the most first
}

// NewDecoder checks the configuration. Its error names every setting that is wrong.
func NewDecoder(c DecoderConfig) (*Decoder, error) {
	d := &Decoder{maxBytes: c.MaxBytes, maxSkew: c.MaxSkew, namespace: c.Namespace, keys: make(map[string]*KeyTemplate, len(c.Keys))}
	if d.maxBytes == 0 {
		d.maxBytes = DefaultMaxBytes
	}
	if d.maxSkew == 0 {
		d.maxSkew = DefaultMaxSkew
	}
	var errs []error
	if d.maxBytes < 0 {
		errs = append(errs, fmt.Errorf("maximum size of an event is %d bytes, must be positive", c.MaxBytes))
	}
	if d.maxSkew < 0 {
		errs = append(errs, fmt.Errorf("maximum skew is %s, must be positive", c.MaxSkew))
	}
	if len(c.Namespace) > maxText {
		errs = append(errs, fmt.Errorf("namespace has %d bytes, may have %d", len(c.Namespace), maxText))
	}
	for _, task := range slices.SortedFunc(maps.Keys(c.Keys), func(a, b string) int { return pattern.Compare(b, a) }) {
		key, err := ParseKeyTemplate(c.Keys[task])
		if err != nil {
			errs = append(errs, fmt.Errorf("business key of task %q: %w", task, err))
		}
		d.keys[task] = key
		if pattern.Is(task) {
			d.patterns = append(d.patterns, task)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return d, nil
}

// MaxBytes is how many bytes one event may have.
func (d *Decoder) MaxBytes() int { return d.maxBytes }

// keyOf gives the template of a task's business key; nil when there is none.
func (d *Decoder) keyOf(task string) *KeyTemplate {
	if key := d.keys[task]; key != nil {
		return key
	}
	for _, p := range d.patterns {
		if pattern.Fits(p, task) {
			return d.keys[p]
		}
	}
	return nil
}

// Decode reads a record. Every element of it becomes an event or a reject, in order, and a record that cannot be read
// as a whole becomes one reject; so there is always at least one of the two. One bad element of an array rejects that
// element only, unless key and headers would be repeated too often. Nothing of the result aliases the record; its rejects share
// key and headers.
func (d *Decoder) Decode(r Record) (events []Event, rejects []Reject) { return d.Append(nil, nil, r) }

// Append is Decode for many records: it adds what r holds to events and rejects. An event is large, and this way it is written
// once, where it stays.
func (d *Decoder) Append(events []Event, rejects []Reject, r Record) ([]Event, []Reject) {
	elements, bad := d.split(r.Value)
	if bad != nil {
		return events, append(rejects, r.whole(bad))
	}
	envelope, bad := readHeaders(r.Headers)
	if bad != nil {
		return events, append(rejects, r.whole(bad))
	}
	events = slices.Grow(events, len(elements))
	eventsBefore, rejectsBefore, repeated := len(events), len(rejects), 0
	for i, raw := range elements {
		events = append(events, Event{})
		e := &events[len(events)-1]
		if bad := d.decode(e, raw, envelope, r.Time); bad != nil {
			events = events[:len(events)-1]
			if len(rejects) == rejectsBefore {
				r.keep()
			}
			rejects = append(rejects, r.reject(i, bad, raw))
			repeated += r.besideValue()
		} else {
			e.Position = r.at(i)
			e.KafkaTime = r.Time.UTC()
			repeated += envelope.size()
		}
		if i > 0 && repeated > maxRepeated {
			bad := faultf(ReasonTooMany, "the %d elements repeat more than %d bytes of the record's key and headers", len(elements), maxRepeated)
			return events[:eventsBefore], append(rejects[:rejectsBefore], r.whole(bad))
		}
	}
	return events, rejects
}

// at is the position of the record's i-th element.
func (r *Record) at(i int) Position {
	return Position{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Index: int32(i)}
}

// whole rejects the record as a whole.
func (r *Record) whole(f *fault) Reject {
	r.keep()
	return r.reject(0, f, r.Value)
}

// keep gives the record a key and headers of its own, which its rejects may then hold.
func (r *Record) keep() { r.Key, r.Headers = bytes.Clone(r.Key), cloneHeaders(r.Headers) }

// besideValue is how many bytes the key and the headers take where they are stored.
func (r *Record) besideValue() int {
	const lengths = 16 // of a header without a letter
	n := len(r.Key)
	for _, h := range r.Headers {
		n += lengths + len(h.Key) + len(h.Value)
	}
	return n
}

// reject makes a reject of the i-th element, once the record's key and headers are its own.
func (r *Record) reject(i int, f *fault, raw []byte) Reject {
	return Reject{
		Position:  r.at(i),
		KafkaTime: r.Time.UTC(),
		Reason:    f.reason,
		Detail:    cut(strings.ToValidUTF8(f.detail, "\uFFFD"), maxDetail),
		Key:       r.Key,
		Headers:   r.Headers,
		Raw:       bytes.Clone(raw),
	}
}

func cloneHeaders(headers []Header) []Header {
	if len(headers) == 0 {
		return nil
	}
	own := make([]Header, 0, len(headers))
	for _, h := range headers {
		own = append(own, Header{Key: h.Key, Value: bytes.Clone(h.Value)})
	}
	return own
}

// split finds the elements of a record: those of its array, or the one value that it is. Elements of an array are only
// known to follow the grammar; each is read strictly later on, so that a fault stays its own.
func (d *Decoder) split(record []byte) ([][]byte, *fault) {
	trimmed := bytes.Trim(record, " \t\r\n")
	if len(trimmed) == 0 {
		return nil, faultf(ReasonEmpty, "the record has no value")
	}
	if trimmed[0] != '[' {
		return [][]byte{record}, nil
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(trimmed), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	array, err := dec.ReadValue()
	if err != nil {
		return nil, syntaxFault(err, trimmed)
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return nil, faultf(ReasonTrailingData, "more bytes follow the array")
	}
	var elements [][]byte
	for element := range value(array).elements() {
		if len(elements) == maxElements {
			return nil, faultf(ReasonTooMany, "the array has more than %d elements", maxElements)
		}
		elements = append(elements, []byte(element))
	}
	if len(elements) == 0 {
		return nil, faultf(ReasonEmpty, "the array has no elements")
	}
	return elements, nil
}

// decode reads one element into e.
func (d *Decoder) decode(e *Event, raw []byte, h headers, kafkaTime time.Time) *fault {
	if len(raw) > d.maxBytes {
		return faultf(ReasonTooLarge, "%d bytes, an event may have %d", len(raw), d.maxBytes)
	}
	s := scratches.Get().(*scratch)
	defer s.release()
	members, bad := s.parse(raw)
	if bad != nil {
		return bad
	}
	cloud, members, bad := h.open(s, members)
	if bad != nil {
		return bad
	}
	dr := draft{Event: e, members: members}
	if bad := dr.fill(cloud); bad != nil {
		return bad
	}
	return d.finish(&dr, kafkaTime)
}

// finish checks what a filled draft must have, and adds what the configuration says.
func (d *Decoder) finish(dr *draft, kafkaTime time.Time) *fault {
	e := dr.Event
	switch {
	case e.TaskID == "" && !e.Type.OfWorker():
		return faultf(ReasonNoTaskID, "the event tells no task id")
	case e.TaskID == "" && e.Worker == "":
		return faultf(ReasonNoTaskID, "the event tells neither a task id nor a worker")
	case e.Time.IsZero():
		return faultf(ReasonNoTime, "the event tells no time")
	case e.Type == Effected && (e.Effect == nil || e.Effect.Name == ""):
		return faultf(ReasonNoEffect, "the event tells of an effect without a name")
	}
	if kafkaTime.Unix() > 0 && kafkaTime.Sub(e.Time).Abs() > d.maxSkew {
		return faultf(ReasonImpossibleTime, "%s is too far from the record's %s",
			e.Time.Format(time.RFC3339Nano), kafkaTime.UTC().Format(time.RFC3339Nano))
	}
	if e.ID == "" {
		e.ID = dr.contentID()
	}
	if e.Namespace == "" {
		e.Namespace = d.namespace
	}
	if key := d.keyOf(e.Task); key != nil && e.BusinessKey == "" && e.TaskID != "" {
		dr.setKey(key)
	}
	return dr.setAttributes()
}
