package event

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// Bounds of what is scanned: how deeply objects and arrays may be nested, and how many names an object may have. Names are
// compared with each other, which takes minutes where an event's mebibyte is full of like ones.
const (
	maxScanDepth = 32
	maxScanNames = 256
)

// scanner checks JSON as strictly as the decoder that it stands before, and several times as fast, for it need not say what is
// wrong. Whatever it does not know to be right (escapes, deep nesting, many names, any fault) it leaves to that decoder.
type scanner struct {
	raw   []byte
	text  string   // the same, to take names and values from
	at    int      // next byte to read
	names []string // of the objects that are being read
}

// object reads an object and gives its members to use, where that is not nil. It reports whether all is right.
func (s *scanner) object(depth int, use func(name string, v value)) bool {
	if depth > maxScanDepth {
		return false
	}
	s.at++
	if s.blank(); s.is('}') {
		s.at++
		return true
	}
	first, seen := len(s.names), uint64(0)
	for {
		start := s.at
		if !s.is('"') || !s.string() {
			return false
		}
		name := s.text[start+1 : s.at-1]
		if !s.isNew(name, first, &seen) {
			return false
		}
		if s.blank(); !s.is(':') {
			return false
		}
		s.at++
		s.blank()
		start = s.at
		if !s.value(depth) {
			return false
		}
		if use != nil {
			use(name, value(s.text[start:s.at]))
		}
		s.blank()
		switch {
		case s.is(','):
			s.at++
			s.blank()
		case s.is('}'):
			s.at++
			s.names = s.names[:first]
			return true
		default:
			return false
		}
	}
}

// isNew reports whether an object, whose names begin at first, has had no such name and may have one more, and notes it. A bit
// of seen stands for many names: only where it is set must they be compared.
func (s *scanner) isNew(name string, first int, seen *uint64) bool {
	if len(s.names)-first == maxScanNames {
		return false
	}
	bit := uint64(1)
	if n := len(name); n > 0 {
		bit <<= (uint(name[0])*7 + uint(name[n-1])*3 + uint(n)) % 64
	}
	if *seen&bit != 0 {
		for _, other := range s.names[first:] {
			if other == name {
				return false
			}
		}
	}
	*seen |= bit
	s.names = append(s.names, name)
	return true
}

func (s *scanner) array(depth int) bool {
	if depth > maxScanDepth {
		return false
	}
	s.at++
	if s.blank(); s.is(']') {
		s.at++
		return true
	}
	for s.value(depth) {
		s.blank()
		switch {
		case s.is(','):
			s.at++
			s.blank()
		case s.is(']'):
			s.at++
			return true
		default:
			return false
		}
	}
	return false
}

// value reads a value inside of depth objects and arrays.
func (s *scanner) value(depth int) bool {
	if s.at >= len(s.raw) {
		return false
	}
	switch s.raw[s.at] {
	case '"':
		return s.string()
	case '{':
		return s.object(depth+1, nil)
	case '[':
		return s.array(depth + 1)
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	return s.number()
}

func (s *scanner) is(c byte) bool { return s.at < len(s.raw) && s.raw[s.at] == c }

func (s *scanner) blank() {
	for s.at < len(s.raw) {
		switch s.raw[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

func (s *scanner) literal(word string) bool {
	end := s.at + len(word)
	if end > len(s.text) || s.text[s.at:end] != word {
		return false
	}
	s.at = end
	return true
}

// number reads a number: a minus, no zero before other digits, digits after the point and in the exponent.
func (s *scanner) number() bool {
	if s.is('-') {
		s.at++
	}
	if s.is('0') {
		s.at++
	} else if !s.digits() {
		return false
	}
	if s.is('.') {
		s.at++
		if !s.digits() {
			return false
		}
	}
	if s.is('e') || s.is('E') {
		s.at++
		if s.is('+') || s.is('-') {
			s.at++
		}
		return s.digits()
	}
	return true
}

func (s *scanner) digits() bool {
	start := s.at
	for s.at < len(s.raw) && s.raw[s.at]-'0' <= 9 {
		s.at++
	}
	return s.at > start
}

// One byte in each of a word's eight.
const (
	ones      = 0x0101010101010101
	tops      = 0x80 * ones
	quotes    = '"' * ones
	escapes   = '\\' * ones
	printable = 0x20 * ones
)

// string reads a string without escapes. It looks at eight bytes at a time for one that is not plain: a quote, a backslash, a
// control character, or part of a character beyond ASCII. Of those that the subtractions find the lowest is one for certain.
func (s *scanner) string() bool {
	start := s.at + 1
	plain := true // all ASCII
	for i := start; ; {
		if i+8 <= len(s.raw) {
			w := binary.LittleEndian.Uint64(s.raw[i:])
			q, e := w^quotes, w^escapes
			odd := ((q-ones)&^q | (e-ones)&^e | (w-printable)&^w | w) & tops
			if odd == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(odd) / 8
		}
		if i >= len(s.raw) {
			return false
		}
		switch c := s.raw[i]; {
		case c == '"':
			s.at = i + 1
			return plain || utf8.Valid(s.raw[start:i])
		case c == '\\' || c < ' ':
			return false
		case c >= utf8.RuneSelf:
			plain = false
		}
		i++
	}
}
