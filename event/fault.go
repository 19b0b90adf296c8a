package event

import (
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// fault is why an element is rejected.
type fault struct {
	reason Reason
	detail string
}

func faultf(reason Reason, format string, args ...any) *fault {
	return &fault{reason: reason, detail: fmt.Sprintf(format, args...)}
}

// in says which field the fault is of.
func (f *fault) in(field string) *fault {
	if f != nil {
		f.detail = field + ": " + f.detail
	}
	return f
}

// syntaxFault names what the JSON decoder found wrong with raw.
func syntaxFault(err error, raw []byte) *fault {
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &fault{ReasonDuplicateName, err.Error()}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &fault{ReasonNotJSON, "the JSON ends too early"}
	case !errors.As(err, &syntax):
		return &fault{ReasonNotJSON, err.Error()}
	case jsontext.Value(raw).IsValid(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)):
		return &fault{ReasonBadUTF8, err.Error()}
	}
	return &fault{ReasonNotJSON, err.Error()}
}

// cut shortens s to at most limit bytes, at the end of a rune.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}
