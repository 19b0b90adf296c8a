package config

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
)

// hidden stands for a secret wherever a configuration is shown.
const hidden = "***"

// Print writes c as YAML that Load reads, with every secret hidden.
func (c Config) Print(w io.Writer) error {
	var b bytes.Buffer
	if err := printSection(&b, reflect.ValueOf(&c).Elem(), "", 0); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

func printSection(b *bytes.Buffer, v reflect.Value, path string, depth int) error {
	indent := strings.Repeat("  ", depth)
	for _, c := range children(v, path) {
		if ofTask(path) && isUnset(c.value) { // nothing is said, and that is no value of its own
			continue
		}
		name, err := inline(strings.TrimPrefix(c.path[len(path):], "."))
		if err != nil {
			return err
		}
		if isSection(c.value.Type()) {
			fmt.Fprintf(b, "%s%s:\n", indent, name)
			if err := printSection(b, c.value, c.path, depth+1); err != nil {
				return err
			}
			continue
		}
		if isTable(c.value.Type()) {
			if err := printTable(b, c, name, indent); err != nil {
				return err
			}
			continue
		}
		shown, err := shownValue(c)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "%s%s: %s\n", indent, name, shown)
	}
	return nil
}

// ofTask reports whether a path is that of a task, or below it.
func ofTask(path string) bool { return strings.HasPrefix(path, "tasks.") }

// isUnset reports whether a value says nothing.
func isUnset(v reflect.Value) bool {
	if v.Kind() == reflect.Map || v.Kind() == reflect.Slice {
		return v.Len() == 0
	}
	return v.IsZero()
}

// printTable writes a list of sections, each on one line.
func printTable(b *bytes.Buffer, c field, name, indent string) error {
	if c.value.Len() == 0 {
		fmt.Fprintf(b, "%s%s: []\n", indent, name)
		return nil
	}
	fmt.Fprintf(b, "%s%s:\n", indent, name)
	for i := range c.value.Len() {
		var cells []string
		for _, cell := range children(c.value.Index(i), "") {
			shown, err := shownValue(cell)
			if err != nil {
				return err
			}
			cells = append(cells, cell.path+": "+shown)
		}
		fmt.Fprintf(b, "%s  - {%s}\n", indent, strings.Join(cells, ", "))
	}
	return nil
}

// shownValue is the value of f on one line.
func shownValue(f field) (string, error) {
	if f.secret() && !f.value.IsZero() {
		return inline(hidden)
	}
	if f.value.Kind() == reflect.Slice {
		items := make([]string, f.value.Len())
		for i := range items {
			var err error
			if items[i], err = inline(text(f.value.Index(i))); err != nil {
				return "", err
			}
		}
		return "[" + strings.Join(items, ", ") + "]", nil
	}
	if k := f.value.Kind(); k == reflect.String {
		return inline(text(f.value))
	}
	return text(f.value), nil
}

// inline writes s as one YAML scalar that reads back as the same text.
func inline(s string) (string, error) {
	out, err := yaml.MarshalWithOptions(s, yaml.Flow(true))
	if err != nil {
		return "", fmt.Errorf("print %q: %w", s, err)
	}
	line := strings.TrimSpace(string(out))
	if strings.ContainsAny(line, "\n") || strings.ContainsAny(s, ",[]{}") && !strings.HasPrefix(line, `"`) && !strings.HasPrefix(line, "'") {
		return fmt.Sprintf("%q", s), nil
	}
	return line, nil
}
