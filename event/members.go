package event

import (
	"bytes"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// member is one name of a JSON object with the text of its value.
type member struct {
	name  string
	value value
}

// scratch is what parsing needs and the next event can use again.
type scratch struct {
	buffer  bytes.Buffer
	decoder *jsontext.Decoder
	members []member
}

var scratches = sync.Pool{New: func() any {
	s := &scratch{}
	s.decoder = jsontext.NewDecoder(&s.buffer)
	return s
}}

// release gives the scratch back; the members that it parsed must not be used any more.
func (s *scratch) release() {
	s.buffer = bytes.Buffer{}
	s.decoder.Reset(&s.buffer)
	clear(s.members)
	s.members = s.members[:0]
	scratches.Put(s)
}

// parse reads raw, which must be one JSON object, strictly: no name twice at any depth, no bad UTF-8, nothing after
// it. The members refer to one copy of raw, never to raw itself, and are good until the scratch is released.
func (s *scratch) parse(raw []byte) ([]member, *fault) {
	s.buffer = *bytes.NewBuffer(raw)
	s.decoder.Reset(&s.buffer)
	start := len(s.members)
	if s.decoder.PeekKind() != '{' {
		return nil, s.notObject(raw)
	}
	if _, err := s.decoder.ReadToken(); err != nil {
		return nil, syntaxFault(err, raw)
	}
	text := string(raw)
	for s.decoder.PeekKind() != '}' {
		quoted, err := s.next(text)
		if err != nil {
			return nil, syntaxFault(err, raw)
		}
		v, err := s.next(text)
		if err != nil {
			return nil, syntaxFault(err, raw)
		}
		s.members = append(s.members, member{name: quoted.unquote(), value: v})
	}
	if _, err := s.decoder.ReadToken(); err != nil {
		return nil, syntaxFault(err, raw)
	}
	if _, err := s.decoder.ReadToken(); err != io.EOF {
		return nil, faultf(ReasonTrailingData, "more bytes follow the object")
	}
	return s.members[start:len(s.members):len(s.members)], nil
}

// next reads a value and finds it in text, the whole input.
func (s *scratch) next(text string) (value, error) {
	v, err := s.decoder.ReadValue()
	if err != nil {
		return "", err
	}
	end := s.decoder.InputOffset()
	return value(text[end-int64(len(v)) : end]), nil
}

// notObject says what raw is when it is no object.
func (s *scratch) notObject(raw []byte) *fault {
	v, err := s.decoder.ReadValue()
	if err != nil {
		return syntaxFault(err, raw)
	}
	kind := v.Kind()
	if _, err := s.decoder.ReadToken(); err != io.EOF {
		return faultf(ReasonTrailingData, "more bytes follow the %s", kind)
	}
	return faultf(ReasonWrongType, "a JSON %s, must be an object", kind)
}

// find gives the value of the member called name, and "" when there is none or it is null.
func find(members []member, name string) value {
	for _, m := range members {
		if m.name == name && m.value != "null" {
			return m.value
		}
	}
	return ""
}
