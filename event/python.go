package event

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// exceptionOf reads the repr of a Python exception: ConnectionError('upstream 503') is the type ConnectionError with the
// message upstream 503. It reports false when the repr has another form; then it is all message.
func exceptionOf(repr string) (Error, bool) {
	name, rest, found := strings.Cut(repr, "(")
	message, closed := strings.CutSuffix(rest, ")")
	class := className(name)
	if !found || !closed || class == "" {
		return Error{Message: repr}, false
	}
	message = strings.TrimSuffix(message, ",")
	if n := len(message); n >= 2 && (message[0] == '\'' || message[0] == '"') && strings.IndexByte(message[1:], message[0]) == n-2 {
		message = message[1 : n-1]
	}
	return Error{Type: class, Message: message}, true
}

// lastException reads the exception that a traceback ends with: the first line after its last frame, without the path
// of the module, and what follows it. The result is empty when there is none.
func lastException(trace string) Error {
	frame := strings.LastIndex(trace, "\n  File \"")
	if frame < 0 {
		return Error{}
	}
	rest := trace[frame+1:]
	for strings.HasPrefix(rest, " ") {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	line, _, _ := strings.Cut(rest, "\n")
	name, _, _ := strings.Cut(line, ":")
	class := className(name)
	if class == "" {
		return Error{}
	}
	message := strings.TrimSpace(strings.TrimPrefix(rest[len(name):], ":"))
	if e, _ := exceptionOf(message); e.Type == class { // some write their repr as their message
		message = e.Message
	}
	return Error{Type: class, Message: message}
}

// className gives the last part of a dotted Python name, and "" when name is none.
func className(name string) string {
	if len(name) > maxText {
		return ""
	}
	isName := func(i int, c rune) bool { return c == '_' || unicode.IsLetter(c) || i > 0 && unicode.IsDigit(c) }
	for part := range strings.SplitSeq(strings.ReplaceAll(name, "<locals>", "locals"), ".") {
		if part == "" {
			return ""
		}
		for i, c := range part {
			if !isName(i, c) {
				return ""
			}
		}
	}
	return name[strings.LastIndexByte(name, '.')+1:]
}

// retryIn reads the seconds of "Retry in 180s: ...", which is what Celery's Retry says of itself.
func retryIn(message string) int {
	rest, found := strings.CutPrefix(message, "Retry in ")
	number, _, ends := strings.Cut(rest, "s")
	n, err := strconv.ParseFloat(number, 64)
	if !found || !ends || err != nil || !(n >= 0 && n <= math.MaxInt32) {
		return Unknown
	}
	return int(math.Ceil(n))
}

// What an argument can turn out to be.
var (
	errNoArguments = errors.New("the event tells no arguments")
	errTruncated   = errors.New("the arguments are truncated")
	errUnreadable  = errors.New("the arguments are in a form that cannot be read for certain")
	errMissing     = errors.New("there is no such argument")
	errNotScalar   = errors.New("the argument is no text or number")
	errAmbiguous   = errors.New("the argument is there twice")
	errEmptyArg    = errors.New("the argument is empty")
)

// pythonKind is the kind of a Python value.
type pythonKind int

const (
	pythonOther pythonKind = iota // None, True, False, or a collection
	pythonString
	pythonNumber
)

// python is a Python value as far as a business key can use it.
type python struct {
	kind pythonKind
	text string // of a string or a number
}

// pythonText reads the repr of Python values: strings, numbers, None, True, False, and tuples, lists, sets and
// dictionaries of them. It never guesses. Celery truncates long reprs with "...", and writes strings without escaping
// what is in them; so text that ends in "...", or holds a backslash or a quote, could be read in two ways and is an
// error.
type pythonText struct {
	s   string
	pos int
}

const pythonDepth = 16 // deeper collections are an error

func (p *pythonText) rest() string { return p.s[p.pos:] }

func (p *pythonText) spaces() {
	for p.pos < len(p.s) && p.s[p.pos] == ' ' {
		p.pos++
	}
}

// take steps over c if it is next.
func (p *pythonText) take(c byte) bool {
	p.spaces()
	if p.pos < len(p.s) && p.s[p.pos] == c {
		p.pos++
		return true
	}
	return false
}

// value reads one value.
func (p *pythonText) value(depth int) (python, error) {
	p.spaces()
	rest := p.rest()
	switch {
	case rest == "" || depth > pythonDepth:
		return python{}, errUnreadable
	case strings.HasPrefix(rest, "..."):
		return python{}, errTruncated
	case rest[0] == '\'' || rest[0] == '"':
		return p.string()
	case rest[0] == '(':
		return python{}, p.collection(')', depth)
	case rest[0] == '[':
		return python{}, p.collection(']', depth)
	case rest[0] == '{':
		return python{}, p.collection('}', depth)
	}
	end := strings.IndexAny(rest, " ,:()[]{}'\"")
	if end < 0 {
		end = len(rest)
	}
	word := rest[:end]
	p.pos += end
	switch {
	case word == "None" || word == "True" || word == "False":
		return python{}, nil
	case isDecimal(word):
		return python{kind: pythonNumber, text: word}, nil
	case strings.HasSuffix(word, "..."):
		return python{}, errTruncated
	}
	return python{}, errUnreadable
}

// string reads a quoted string.
func (p *pythonText) string() (python, error) {
	quote := p.s[p.pos]
	length := strings.IndexByte(p.s[p.pos+1:], quote)
	if length < 0 {
		return python{}, errUnreadable
	}
	text := p.s[p.pos+1 : p.pos+1+length]
	p.pos += length + 2
	switch {
	case strings.IndexByte(text, '\\') >= 0:
		return python{}, errUnreadable
	case strings.HasSuffix(text, "..."):
		return python{}, errTruncated
	}
	return python{kind: pythonString, text: text}, nil
}

// collection steps over a tuple, list, set or dictionary.
func (p *pythonText) collection(end byte, depth int) error {
	p.pos++
	for !p.take(end) {
		if _, err := p.value(depth + 1); err != nil {
			return err
		}
		if !p.take(',') && !(end == '}' && p.take(':')) && !p.at(end) {
			return errUnreadable
		}
	}
	return nil
}

// at reports whether c is next.
func (p *pythonText) at(c byte) bool {
	p.spaces()
	return p.pos < len(p.s) && p.s[p.pos] == c
}

// pythonArg gives the i-th value of the repr of a tuple or list.
func pythonArg(repr string, i int) (python, error) {
	p := pythonText{s: repr}
	end := byte(')')
	if !p.take('(') {
		if end = ']'; !p.take('[') {
			return python{}, errUnreadable
		}
	}
	for ; !p.take(end); i-- {
		v, err := p.value(0)
		switch {
		case err != nil:
			return python{}, err
		case !p.at(',') && !p.at(end):
			return python{}, errUnreadable
		case i == 0:
			return v, nil
		}
		p.take(',')
	}
	return python{}, errMissing
}

// pythonKwarg gives the value of a name in the repr of a dictionary.
func pythonKwarg(repr, name string) (python, error) {
	p := pythonText{s: repr}
	if !p.take('{') {
		return python{}, errUnreadable
	}
	var found *python
	for !p.take('}') {
		key, err := p.value(0)
		if err == nil && !p.take(':') {
			err = errUnreadable
		}
		var v python
		if err == nil {
			v, err = p.value(0)
		}
		if err == nil && !p.at(',') && !p.at('}') {
			err = errUnreadable
		}
		switch {
		case err != nil && found != nil:
			return *found, nil // what follows it does not change what it is
		case err != nil:
			return python{}, err
		case key.kind == pythonString && key.text == name && found != nil:
			return python{}, errAmbiguous
		case key.kind == pythonString && key.text == name:
			found = &v
		}
		p.take(',')
	}
	if found == nil {
		return python{}, errMissing
	}
	return *found, nil
}
