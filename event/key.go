package event

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Key is a template that makes a task's business key.
type Key struct {
	parts []keyPart
}

// keyPart is text, or the sources of which the first that the arguments hold gives the text.
type keyPart struct {
	text    string
	sources []keySource
}

type keySource struct {
	kind  string // arg, kwarg or task
	index int    // of arg, from 0
	name  string // of kwarg
}

// ParseKey reads a template: text with {{ arg N }} (the N-th positional argument, from 0), {{ kwarg "NAME" }} (the
// argument of that name) and {{ task }} (the task's name) in it. Alternatives are parted by "or": {{ arg 0 or kwarg
// "order_id" }} is for a task that is called both ways.
func ParseKey(template string) (*Key, error) {
	key := &Key{}
	rest := template
	for {
		text, after, found := strings.Cut(rest, "{{")
		if text != "" {
			key.parts = append(key.parts, keyPart{text: text})
		}
		if !found {
			break
		}
		action, after, found := strings.Cut(after, "}}")
		if !found {
			return nil, fmt.Errorf("template %q: {{ without }}", template)
		}
		sources, err := parseSources(action)
		if err != nil {
			return nil, fmt.Errorf("template %q: %w", template, err)
		}
		key.parts = append(key.parts, keyPart{sources: sources})
		rest = after
	}
	for _, p := range key.parts {
		if p.sources != nil {
			return key, nil
		}
	}
	return nil, fmt.Errorf("template %q names no argument, so every run would have the same key", template)
}

func parseSources(action string) ([]keySource, error) {
	var sources []keySource
	for _, alternative := range strings.Split(action, " or ") {
		word, operand, _ := strings.Cut(strings.TrimSpace(alternative), " ")
		operand = strings.TrimSpace(operand)
		source := keySource{kind: word}
		var err error
		switch {
		case word == "arg":
			source.index, err = strconv.Atoi(operand)
			if err == nil && source.index < 0 {
				err = strconv.ErrRange
			}
		case word == "kwarg":
			source.name, err = strconv.Unquote(operand)
		case word != "task" || operand != "":
			err = strconv.ErrSyntax
		}
		if err != nil {
			return nil, fmt.Errorf(`{{%s}} is none of {{ arg 0 }}, {{ kwarg "name" }}, {{ task }}`, action)
		}
		sources = append(sources, source)
	}
	return sources, nil
}

// make gives the key of a run of task with these arguments, each the text of a JSON value, "" when it was not told. The
// arguments are JSON (an array, an object) or the repr of Python's in a JSON string.
func (k *Key) make(task string, args, kwargs value) (string, error) {
	var b strings.Builder
	for _, p := range k.parts {
		b.WriteString(p.text)
		if p.sources == nil {
			continue
		}
		text, err := p.pick(task, args, kwargs)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	if b.Len() > maxText {
		return "", fmt.Errorf("the key has %d bytes, may have %d", b.Len(), maxText)
	}
	return b.String(), nil
}

// pick gives the text of the first source that is there. Only a source that is surely absent makes way for the next.
func (p keyPart) pick(task string, args, kwargs value) (string, error) {
	var failure error
	for _, s := range p.sources {
		v, err := s.find(task, args, kwargs)
		switch {
		case err == nil && v.kind == pythonOther:
			return "", fmt.Errorf("%s: %w", s, errNotScalar)
		case err == nil && v.text == "":
			return "", fmt.Errorf("%s: %w", s, errEmptyArg)
		case err == nil:
			return v.text, nil
		case err != errMissing && err != errNoArguments:
			return "", fmt.Errorf("%s: %w", s, err)
		case failure == nil || errors.Is(failure, errNoArguments):
			failure = fmt.Errorf("%s: %w", s, err)
		}
	}
	return "", failure
}

func (s keySource) String() string {
	switch s.kind {
	case "arg":
		return "arg " + strconv.Itoa(s.index)
	case "kwarg":
		return "kwarg " + strconv.Quote(s.name)
	}
	return s.kind
}

// find gives the value of a source.
func (s keySource) find(task string, args, kwargs value) (python, error) {
	told := args
	if s.kind == "kwarg" {
		told = kwargs
	}
	switch {
	case s.kind == "task":
		return python{pythonString, task}, nil
	case told == "":
		return python{}, errNoArguments
	case told.kind() == '"' && s.kind == "arg":
		return pythonArg(told.unquote(), s.index)
	case told.kind() == '"':
		return pythonKwarg(told.unquote(), s.name)
	case told.kind() == '[' && s.kind == "arg", told.kind() == '{' && s.kind == "kwarg":
		return s.findJSON(told)
	}
	return python{}, errUnreadable
}

// findJSON gives the value of a source in a valid JSON array of arguments or object of named ones.
func (s keySource) findJSON(told value) (python, error) {
	dec := jsontext.NewDecoder(strings.NewReader(string(told)))
	if _, err := dec.ReadToken(); err != nil {
		return python{}, errUnreadable
	}
	for i := 0; dec.PeekKind() != ']' && dec.PeekKind() != '}'; i++ {
		wanted := i == s.index
		if s.kind == "kwarg" {
			name, err := dec.ReadValue()
			if err != nil {
				return python{}, errUnreadable
			}
			wanted = value(name).unquote() == s.name
		}
		raw, err := dec.ReadValue()
		if err != nil {
			return python{}, errUnreadable
		}
		if !wanted {
			continue
		}
		switch v := value(raw); v.kind() {
		case '"':
			return python{pythonString, v.unquote()}, nil
		case '0':
			return python{pythonNumber, string(v)}, nil
		}
		return python{}, nil
	}
	return python{}, errMissing
}
