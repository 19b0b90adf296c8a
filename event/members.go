package event

import (
	"bytes"
	"io"
	"iter"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// member is one name of a JSON object with the text of its value.
type member struct {
	name  string
	value value
}

// scratch is what reading an element needs and the next element can use again.
type scratch struct {
	buffer  bytes.Buffer
	decoder *jsontext.Decoder
	scanner scanner
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
	clear(s.scanner.names[:cap(s.scanner.names)])
	s.scanner = scanner{names: s.scanner.names[:0]}
	scratches.Put(s)
}

// parse reads raw, which must be one JSON object, strictly: no name twice at any depth, no bad UTF-8, nothing after
// it. The members refer to one copy of raw, never to raw itself, and are good until the scratch is released.
//
// What the scanner cannot vouch for, the decoder validates as a whole and tells what is wrong with it. Then it is split, for
// which the bounds of strings and nesting are enough.
func (s *scratch) parse(raw []byte) ([]member, *fault) {
	if members, ok := s.scan(raw); ok {
		return members, nil
	}
	return s.validate(raw)
}

// validate is parse for all that can come.
func (s *scratch) validate(raw []byte) ([]member, *fault) {
	s.buffer = *bytes.NewBuffer(raw)
	s.decoder.Reset(&s.buffer)
	valid, err := s.decoder.ReadValue()
	if err != nil {
		return nil, syntaxFault(err, raw)
	}
	text := value(valid)
	if _, err := s.decoder.ReadToken(); err != io.EOF {
		return nil, faultf(ReasonTrailingData, "more bytes follow the JSON %s", text.what())
	}
	if text.kind() != '{' {
		return nil, faultf(ReasonWrongType, "a JSON %s, must be an object", text.what())
	}
	start := len(s.members)
	for name, v := range text.members() {
		s.members = append(s.members, member{name, v})
	}
	return s.members[start:len(s.members):len(s.members)], nil
}

// scan is parse for most of what comes.
func (s *scratch) scan(raw []byte) ([]member, bool) {
	s.scanner.raw, s.scanner.text, s.scanner.at, s.scanner.names = raw, string(raw), 0, s.scanner.names[:0]
	start := len(s.members)
	s.scanner.blank()
	ok := s.scanner.is('{') && s.scanner.object(1, func(name string, v value) { s.members = append(s.members, member{name, v}) })
	s.scanner.blank()
	if !ok || s.scanner.at < len(raw) {
		s.members = s.members[:start]
		return nil, false
	}
	return s.members[start:len(s.members):len(s.members)], true
}

// members gives the names and values of an object.
func (v value) members() iter.Seq2[string, value] {
	return func(yield func(string, value) bool) {
		for i := v.skip(1); v[i] != '}'; i = v.skip(i) {
			end := v.end(i)
			name := v[i:end].unquote()
			i = v.skip(end)
			end = v.end(i)
			if !yield(name, v[i:end]) {
				return
			}
			i = end
		}
	}
}

// elements gives the values of an array.
func (v value) elements() iter.Seq[value] {
	return func(yield func(value) bool) {
		for i := v.skip(1); v[i] != ']'; i = v.skip(i) {
			end := v.end(i)
			if !yield(v[i:end]) {
				return
			}
			i = end
		}
	}
}

// skip gives the place of the first byte from i on that belongs to a value or ends the collection.
func (v value) skip(i int) int {
	for {
		switch v[i] {
		case ' ', '\t', '\r', '\n', ',', ':':
			i++
		default:
			return i
		}
	}
}

// end gives the place behind the value that begins at i.
func (v value) end(i int) int {
	switch v[i] {
	case '"':
		return v.endOfString(i)
	case '{', '[':
		for depth := 0; ; {
			switch v[i] {
			case '"':
				i = v.endOfString(i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			if i++; depth == 0 {
				return i
			}
		}
	}
	for ; i < len(v); i++ {
		switch v[i] {
		case ' ', '\t', '\r', '\n', ',', ']', '}':
			return i
		}
	}
	return i
}

// endOfString gives the place behind the string that begins at i.
func (v value) endOfString(i int) int {
	for i++; ; i++ {
		i += strings.IndexByte(string(v[i:]), '"')
		escapes := 0
		for v[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
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
