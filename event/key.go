package event

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// KeyTemplate is a template that makes a task's business key.
type KeyTemplate struct {
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

// ParseKeyTemplate reads a template: text with {{ arg N }} (the N-th positional argument, from 0), {{ kwarg "NAME" }} (the
// argument of that name) and {{ task }} (the task's name) in it. Alternatives are parted by "or": {{ arg 0 or kwarg
// "order_id" }} is for a task that is called both ways.
func ParseKeyTemplate(template string) (*KeyTemplate, error) {
	key := &KeyTemplate{}
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

// render gives the key of a run of task with these arguments, each the text of a JSON value, "" when it was not told. The
// arguments are JSON (an array, an object) or the repr of Python's in a JSON string.
func (k *KeyTemplate) render(task string, args, kwargs value) (string, error) {
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
	index := 0
	found := value("")
	if s.kind == "kwarg" {
		for name, v := range told.members() {
			if name == s.name {
				found = v
			}
		}
	} else {
		for v := range told.elements() {
			if index == s.index {
				found = v
			}
			index++
		}
	}
	switch {
	case found == "":
		return python{}, errMissing
	case found.kind() == '"':
		return python{pythonString, found.unquote()}, nil
	case found.kind() == '0':
		return python{pythonNumber, string(found)}, nil
	}
	return python{}, nil
}
