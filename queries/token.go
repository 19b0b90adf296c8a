package queries

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// tokenKind tells what a piece of SQL is.
type tokenKind int

const (
	word       tokenKind = iota // a keyword, name or number
	quotedText                  // 'text'
	quotedName                  // "name" or `name`
	parameter                   // {name:Type}
	mark                        // one character of anything else
)

var leadingPlaceholder = regexp.MustCompile(`^\{[A-Za-z_][A-Za-z0-9_]*:[^{}]+\}`)

// token is a piece of a statement, and where in it.
type token struct {
	kind       tokenKind
	text       string
	start, end int
}

// is reports whether the token is the keyword or mark, in any case.
func (t token) is(text string) bool {
	return (t.kind == word || t.kind == mark) && strings.EqualFold(t.text, text)
}

// tokens cuts a statement into its pieces, space and comments left out. What it does not know it refuses.
func tokens(text string) ([]token, error) {
	var all []token
	for i := 0; i < len(text); {
		rest := text[i:]
		kind, n := mark, 1
		switch c := rest[0]; {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			i++
			continue
		case strings.HasPrefix(rest, "--"):
			i += until(rest, "\n")
			continue
		case strings.HasPrefix(rest, "/*"):
			if !strings.Contains(rest, "*/") {
				return nil, fmt.Errorf("a comment has no end")
			}
			i += until(rest, "*/")
			continue
		case isNameByte(c):
			for n < len(rest) && isNameByte(rest[n]) {
				n++
			}
			kind = word
		case c == '\'' || c == '"' || c == '`':
			if quoted(rest+string(c)) > len(rest) { // it takes the mark after the end for its own
				return nil, fmt.Errorf("quoted text has no end")
			}
			n = quoted(rest)
			kind = quotedName
			if c == '\'' {
				kind = quotedText
			}
		case c == '{':
			m := leadingPlaceholder.FindString(rest)
			if m == "" {
				return nil, fmt.Errorf("%.20q is no placeholder", rest)
			}
			kind, n = parameter, len(m)
		case !strings.ContainsRune("()[],.=<>!+-*/%:", rune(c)):
			r, _ := utf8.DecodeRuneInString(rest)
			return nil, fmt.Errorf("the character %q is not expected", r)
		}
		all = append(all, token{kind, rest[:n], i, i + n})
		i += n
	}
	return all, nil
}

func isNameByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// edit puts text in place of a part of a statement.
type edit struct {
	start, end int
	text       string
}

// edited applies edits that are in order and do not overlap.
func edited(text string, edits []edit) string {
	var b strings.Builder
	at := 0
	for _, e := range edits {
		b.WriteString(text[at:e.start])
		b.WriteString(e.text)
		at = e.end
	}
	b.WriteString(text[at:])
	return b.String()
}
