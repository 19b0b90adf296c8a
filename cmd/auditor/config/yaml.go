package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// reader sets a configuration from the text of one file. It goes on after an error, so that a person sees all of them.
type reader struct {
	file    string
	origins map[string]string
	errs    []error
}

// readYAML sets the fields below root that the file names. Everything else stays as it is.
func readYAML(root reflect.Value, file string, data []byte, origins map[string]string) error {
	r := &reader{file: file, origins: origins}
	parsed, err := parser.ParseBytes(data, 0)
	if err != nil {
		return r.syntaxError(err)
	}
	if len(parsed.Docs) > 1 {
		return &Error{Origin: file, Reason: "must hold one YAML document, not several"}
	}
	for _, doc := range parsed.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.CommentType {
			r.section(root, "", doc.Body)
		}
	}
	return errors.Join(r.errs...)
}

func (r *reader) syntaxError(err error) error {
	var located yaml.Error
	if !errors.As(err, &located) || located.GetToken() == nil {
		return &Error{Origin: r.file, Reason: firstLine(err.Error())}
	}
	return &Error{Origin: r.at(located.GetToken().Position.Line), Reason: located.GetMessage()}
}

func (r *reader) at(line int) string { return fmt.Sprintf("%s:%d", r.file, line) }

func (r *reader) fail(n ast.Node, path, reason string) {
	r.errs = append(r.errs, &Error{Origin: r.at(n.GetToken().Position.Line), Field: path, Reason: reason})
}

// section reads the mapping n into v, a struct or a map of structs.
func (r *reader) section(v reflect.Value, path string, n ast.Node) {
	entries, ok := mapping(n)
	if !ok {
		r.fail(n, path, "must be a mapping of keys to values")
		return
	}
	seen := make(map[string]bool)
	for _, entry := range entries {
		name, ok := scalar(entry.Key)
		switch {
		case !ok:
			r.fail(entry, path, "has a key that is no plain text")
		case seen[name]:
			r.fail(entry.Key, join(path, name), "is given twice")
		default:
			seen[name] = true
			r.entry(v, path, name, entry)
		}
	}
}

func (r *reader) entry(v reflect.Value, path, name string, entry *ast.MappingValueNode) {
	if v.Kind() == reflect.Map {
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		element := reflect.New(v.Type().Elem()).Elem()
		if old := v.MapIndex(reflect.ValueOf(name)); old.IsValid() {
			element.Set(old)
		}
		r.child(field{join(path, name), element}, entry)
		v.SetMapIndex(reflect.ValueOf(name), element)
		return
	}
	var known []string
	for _, c := range children(v, path) {
		childName := c.path[len(path):]
		childName = strings.TrimPrefix(childName, ".")
		if childName == name {
			r.child(c, entry)
			return
		}
		known = append(known, childName)
	}
	r.fail(entry.Key, join(path, name), "is not a known key; known here are "+strings.Join(known, ", "))
}

func (r *reader) child(c field, entry *ast.MappingValueNode) {
	if isSection(c.value.Type()) {
		if entry.Value.Type() != ast.NullType { // a section whose keys are all commented out
			r.section(c.value, c.path, entry.Value)
		}
		return
	}
	if isTable(c.value.Type()) {
		r.table(c, entry)
		return
	}
	if err := setNode(c.value, entry.Value); err != nil {
		r.fail(entry.Key, c.path, err.Error())
		return
	}
	r.origins[c.path] = r.at(entry.Key.GetToken().Position.Line)
}

// table reads a list of mappings, which replaces the whole list.
func (r *reader) table(c field, entry *ast.MappingValueNode) {
	sequence, ok := entry.Value.(*ast.SequenceNode)
	if !ok {
		r.fail(entry.Key, c.path, "must be a list of mappings")
		return
	}
	list := reflect.MakeSlice(c.value.Type(), len(sequence.Values), len(sequence.Values))
	for i, row := range sequence.Values {
		r.section(list.Index(i), fmt.Sprintf("%s[%d]", c.path, i), row)
	}
	c.value.Set(list)
	r.origins[c.path] = r.at(entry.Key.GetToken().Position.Line)
}

// setNode sets the field v from a scalar or a list of scalars.
func setNode(v reflect.Value, n ast.Node) error {
	if v.Kind() == reflect.Slice {
		sequence, ok := n.(*ast.SequenceNode)
		if !ok {
			return errors.New("must be a list, such as [a, b]")
		}
		items := make([]string, len(sequence.Values))
		for i, value := range sequence.Values {
			if items[i], ok = scalar(value); !ok {
				return errors.New("must be a list of plain values; quote one that holds a colon")
			}
		}
		return setList(v, items)
	}
	text, ok := scalar(n)
	if !ok {
		return errors.New(`must be one plain value; the empty text is written ""`)
	}
	return setText(v, text)
}

// scalar is the text of a plain value, as it was written but for quotes.
func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// mapping is the entries of a mapping, which the parser gives in two shapes.
func mapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}
