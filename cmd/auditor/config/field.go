package config

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// field is one value that can be set: by a key of the file, and (outside maps) by an environment variable.
type field struct {
	path  string // kafka.brokers
	value reflect.Value
}

// env is the environment variable that sets the field.
func (f field) env() string {
	return "AUDITOR_" + strings.ToUpper(strings.ReplaceAll(f.path, ".", "_"))
}

// secret reports whether the value must never be shown.
func (f field) secret() bool {
	name := f.path[strings.LastIndexByte(f.path, '.')+1:]
	return name == "password" || name == "token" || name == "secret"
}

// fields lists what can be set below v, a struct or a map of structs, in the order of declaration. Map entries come in
// the order of their names and only as far as they exist.
func fields(v reflect.Value, path string) []field {
	var out []field
	for _, c := range children(v, path) {
		if isSection(c.value.Type()) {
			out = append(out, fields(c.value, c.path)...)
		} else {
			out = append(out, c)
		}
	}
	return out
}

// children lists the sections and fields directly below v.
func children(v reflect.Value, path string) []field {
	var out []field
	if v.Kind() == reflect.Map {
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			out = append(out, field{join(path, k.String()), v.MapIndex(k)})
		}
		return out
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case f.IsExported() && options == "inline":
			out = append(out, children(v.Field(i), path)...)
		case f.IsExported() && name != "" && name != "-":
			out = append(out, field{join(path, name), v.Field(i)})
		}
	}
	return out
}

// isSection reports whether values of type t have keys of their own. Those of a map are of the user's choice, and its values
// sections or plain.
func isSection(t reflect.Type) bool {
	return t.Kind() == reflect.Struct || t.Kind() == reflect.Map
}

// isTable reports whether values of type t are lists of sections. Only the file can set them.
func isTable(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// CommandLine is the Origin of what a flag has set.
const CommandLine = "command line"

// Error is what is wrong with one field: where it was set, its name, and what is allowed.
type Error struct {
	Origin string // auditor.yaml:12, AUDITOR_LISTEN, CommandLine; empty when nothing set the field
	Field  string // empty when no single field is at fault
	Reason string
}

func (e *Error) Error() string {
	parts := slices.DeleteFunc([]string{e.Origin, e.Field, e.Reason}, func(s string) bool { return s == "" })
	return strings.Join(parts, ": ")
}

// formatDuration writes d as a person would: 15m, not 15m0s.
func formatDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
