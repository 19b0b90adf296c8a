package userrule

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
	"time"
)

// text is a rule's text, parsed.
type text struct {
	key     string
	columns []string // that it names
	*template.Template
}

// functions are all that a template may call. None of them reaches anything, or makes much of little.
var functions = template.FuncMap{
	"join":  join,
	"time":  clock,
	"span":  seconds,
	"fixed": fixed,
}

// builtin are the functions of text/template that are left.
var builtin = []string{"and", "or", "not", "len", "index", "eq", "ne", "lt", "le", "gt", "ge"}

// FunctionNames lists the functions that templates may call.
func FunctionNames() []string {
	return slices.Sorted(slices.Values(slices.Concat(builtin, slices.Collect(maps.Keys(functions)))))
}

// parse reads the three texts. What could run for long, or call itself, is refused: loops and named templates.
func (r *Rule) parse() ([]text, error) {
	var texts []text
	var errs []error
	for _, t := range []struct{ key, text string }{{"title", r.Title}, {"explanation", r.Explanation}, {"remedy", r.Remedy}} {
		if strings.TrimSpace(t.text) == "" {
			errs = append(errs, fmt.Errorf("%s: must be told", t.key))
			continue
		}
		if len(t.text) > longestText {
			errs = append(errs, fmt.Errorf("%s: must have at most %d bytes", t.key, longestText))
			continue
		}
		parsed, err := template.New(t.key).Option("missingkey=error").Funcs(functions).Parse(strings.TrimSpace(t.text))
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %s", t.key, strings.TrimPrefix(err.Error(), "template: "+t.key+":")))
			continue
		}
		one := text{key: t.key, Template: parsed}
		if len(parsed.Templates()) > 1 {
			errs = append(errs, fmt.Errorf("%s: must not define templates", t.key))
		} else if err := one.walk(parsed.Root); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", t.key, err))
		}
		texts = append(texts, one)
	}
	return texts, errors.Join(errs...)
}

// walk checks a node, and notes the columns that it names.
func (t *text) walk(n parse.Node) error {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return nil
		}
		for _, child := range n.Nodes {
			if err := t.walk(child); err != nil {
				return err
			}
		}
		return nil
	case *parse.TextNode, *parse.CommentNode:
		return nil
	case *parse.ActionNode:
		return t.pipe(n.Pipe)
	case *parse.IfNode:
		return errors.Join(t.pipe(n.Pipe), t.walk(n.List), t.walk(n.ElseList))
	}
	return fmt.Errorf("%.60q is not allowed; allowed are texts, columns such as {{ .task }}, if, and the functions %s", n, strings.Join(FunctionNames(), ", "))
}

func (t *text) pipe(p *parse.PipeNode) error {
	if p == nil {
		return nil
	}
	if len(p.Decl) > 0 {
		return fmt.Errorf("%.60q: variables are not allowed", p)
	}
	for _, command := range p.Cmds {
		for _, arg := range command.Args {
			if err := t.argument(arg); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *text) argument(n parse.Node) error {
	switch n := n.(type) {
	case *parse.FieldNode:
		if len(n.Ident) != 1 {
			return fmt.Errorf("%q: a column has no parts", n)
		}
		if !slices.Contains(t.columns, n.Ident[0]) {
			t.columns = append(t.columns, n.Ident[0])
		}
		return nil
	case *parse.IdentifierNode:
		if !slices.Contains(FunctionNames(), n.Ident) {
			return fmt.Errorf("the function %s is not allowed; allowed are %s", n.Ident, strings.Join(FunctionNames(), ", "))
		}
		return nil
	case *parse.PipeNode:
		return t.pipe(n)
	case *parse.StringNode, *parse.NumberNode, *parse.BoolNode:
		return nil
	}
	return fmt.Errorf("%.60q is not allowed; a column is named with a dot, such as .task", n)
}

// render fills in a text, of which at most so many bytes are kept.
func (t *text) render(row Row, most int) (string, error) {
	b := &bounded{left: most}
	if err := t.Execute(b, map[string]any(row)); err != nil && !errors.Is(err, errFull) {
		return "", fmt.Errorf("%s: %s", t.key, strings.TrimPrefix(err.Error(), "template: "+t.key+":"))
	}
	if b.full {
		return strings.ToValidUTF8(b.String(), "") + "…", nil
	}
	return b.String(), nil
}

var errFull = errors.New("the text is too long")

// bounded keeps the beginning of what is written to it.
type bounded struct {
	strings.Builder
	left int
	full bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if len(p) > b.left {
		b.Builder.Write(p[:b.left])
		b.left, b.full = 0, true
		return 0, errFull
	}
	b.left -= len(p)
	return b.Builder.Write(p)
}

var _ io.Writer = (*bounded)(nil)

// join writes a list, at most twenty of it.
func join(list any, between string) (string, error) {
	const most = 20
	items, ok := list.([]any)
	if !ok {
		return "", fmt.Errorf("join takes a list, not %T", list)
	}
	var parts []string
	for _, item := range items[:min(len(items), most)] {
		parts = append(parts, fmt.Sprint(item))
	}
	if len(items) > most {
		parts = append(parts, fmt.Sprintf("and %d more", len(items)-most))
	}
	return strings.Join(parts, between), nil
}

// clock writes a time as the findings of other rules do.
func clock(at any) (string, error) {
	t, ok := at.(time.Time)
	if !ok {
		return "", fmt.Errorf("time takes a time, not %T", at)
	}
	return t.UTC().Format("2006-01-02 15:04:05Z"), nil
}

// seconds writes a number of seconds as a span of time.
func seconds(n any) (string, error) {
	f, err := number(n)
	if err != nil {
		return "", fmt.Errorf("span takes a number of seconds, not %T", n)
	}
	const most = 1e9
	return time.Duration(min(max(f, -most), most) * float64(time.Second)).Round(time.Millisecond).String(), nil
}

// fixed writes a number with so many digits after the point.
func fixed(digits int, n any) (string, error) {
	f, err := number(n)
	if err != nil {
		return "", fmt.Errorf("fixed takes a number of digits and a number, not %T", n)
	}
	return fmt.Sprintf("%.*f", min(max(digits, 0), 9), f), nil
}

func number(n any) (float64, error) {
	switch n := n.(type) {
	case int64:
		return float64(n), nil
	case uint64:
		return float64(n), nil
	case float64:
		return n, nil
	case int:
		return float64(n), nil
	}
	return 0, errors.New("no number")
}
