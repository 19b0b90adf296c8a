package event

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// value is the text of a valid JSON value, without surrounding white space. Its accessors answer with a fault when the
// value is not what a field can hold.
type value string

func (v value) kind() jsontext.Kind {
	switch c := v[0]; c {
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return '0'
	default:
		return jsontext.Kind(c)
	}
}

// what names the kind of v for a person.
func (v value) what() string {
	switch v.kind() {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case '0':
		return "number"
	}
	return string(v) // null, true, false
}

// unquote gives the text of a JSON string.
func (v value) unquote() string {
	if strings.IndexByte(string(v), '\\') < 0 {
		return string(v[1 : len(v)-1])
	}
	text, _ := jsontext.AppendUnquote(nil, string(v)) // v was validated when it was parsed
	return string(text)
}

// long gives a string of any length.
func (v value) long() (string, *fault) {
	if v.kind() != '"' {
		return "", faultf(ReasonWrongType, "a JSON %s, must be a string", v.what())
	}
	return v.unquote(), nil
}

// text gives a string that is bounded as an id or a name.
func (v value) text() (string, *fault) {
	s, bad := v.long()
	if bad == nil && len(s) > maxText {
		return "", faultf(ReasonTooLong, "%d bytes, may have %d", len(s), maxText)
	}
	return s, bad
}

func (v value) bool() (bool, *fault) {
	if v != "true" && v != "false" {
		return false, faultf(ReasonWrongType, "a JSON %s, must be true or false", v.what())
	}
	return v == "true", nil
}

// integer gives a whole number from 0 to limit. It may be written with a fraction of zeros, as some languages do.
func (v value) integer(limit int64) (int64, *fault) {
	if v.kind() != '0' {
		return 0, faultf(ReasonWrongType, "a JSON %s, must be a whole number", v.what())
	}
	digits, fraction, _ := strings.Cut(string(v), ".")
	if strings.Trim(fraction, "0") != "" || strings.ContainsAny(digits, "eE") {
		return 0, faultf(ReasonWrongType, "%.64s, must be a whole number", v)
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > limit {
		return 0, faultf(ReasonOutOfRange, "%.64s, must be from 0 to %d", v, limit)
	}
	return n, nil
}

// seconds gives a duration in seconds.
func (v value) seconds() (float64, *fault) {
	if v.kind() != '0' {
		return 0, faultf(ReasonWrongType, "a JSON %s, must be a number of seconds", v.what())
	}
	n, err := strconv.ParseFloat(string(v), 64)
	if err != nil || n < 0 {
		return 0, faultf(ReasonOutOfRange, "%.64s, must be seconds, 0 or more", v)
	}
	return math.Abs(n), nil // -0 is 0
}

// decimal gives a decimal number as it was written, as a JSON number or as a string.
func (v value) decimal() (string, *fault) {
	s := string(v)
	if v.kind() == '"' {
		s = v.unquote()
	}
	switch {
	case s == "":
	case v.kind() != '"' && v.kind() != '0':
		return "", faultf(ReasonWrongType, "a JSON %s, must be a decimal number", v.what())
	case !isDecimal(s):
		return "", faultf(ReasonWrongType, "%.64q, must be a decimal number", s)
	case len(s) > maxText:
		return "", faultf(ReasonTooLong, "%d bytes, may have %d", len(s), maxText)
	}
	return s, nil
}

// isDecimal reports whether s is a decimal number, with a sign, a fraction or an exponent or without.
func isDecimal(s string) bool {
	mantissa, exponent, scaled := strings.Cut(strings.ToLower(s), "e")
	whole, fraction, split := strings.Cut(strings.TrimPrefix(mantissa, "-"), ".")
	return isDigits(whole) && (!split || isDigits(fraction)) && (!scaled || isDigits(strings.TrimLeft(exponent, "+-")))
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// time gives a moment, written as RFC 3339 or in Unix seconds, in UTC and cut to microseconds. The zero time of year 1,
// which some languages write for a time that was not set, stands for none, as does the empty string.
func (v value) time() (time.Time, *fault) {
	var t time.Time
	switch v.kind() {
	case '0':
		var bad *fault
		if t, bad = unixSeconds(string(v)); bad != nil {
			return time.Time{}, bad
		}
	case '"':
		s := v.unquote()
		if s == "" {
			return time.Time{}, nil
		}
		if err := t.UnmarshalText([]byte(s)); err != nil {
			return time.Time{}, faultf(ReasonWrongType, "%.64q, must be RFC 3339 with a zone, or Unix seconds", s)
		}
	default:
		return time.Time{}, faultf(ReasonWrongType, "a JSON %s, must be RFC 3339, or Unix seconds", v.what())
	}
	return storable(t)
}

// storable cuts a time to what the store can hold.
func storable(t time.Time) (time.Time, *fault) {
	if t.IsZero() {
		return time.Time{}, nil
	}
	t = t.UTC().Truncate(time.Microsecond)
	if t.UnixMicro() <= 0 || t.Year() > 2261 {
		return time.Time{}, faultf(ReasonImpossibleTime, "%s, must be after 1970 and before 2262", t.Format(time.RFC3339Nano))
	}
	return t, nil
}

// unixSeconds reads the text of a JSON number. A float64 would not hold the microseconds of today.
func unixSeconds(s string) (time.Time, *fault) {
	mantissa, exponent := s, 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		n, err := strconv.Atoi(s[i+1:])
		if err != nil || n < -400 || n > 400 {
			return time.Time{}, faultf(ReasonImpossibleTime, "%.64s, must be Unix seconds", s)
		}
		mantissa, exponent = s[:i], n
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits, point := whole+fraction, len(whole)+exponent+6 // where the point stands when counting microseconds
	switch {
	case point <= 0:
		digits = "0"
	case point <= len(digits):
		digits = digits[:point]
	default:
		digits += strings.Repeat("0", point-len(digits))
	}
	micros, err := strconv.ParseInt(digits, 10, 64)
	if micros == 0 && err == nil {
		return time.Time{}, nil
	}
	if err != nil || micros < 0 {
		return time.Time{}, faultf(ReasonImpossibleTime, "%.64s, must be Unix seconds after 1970", s)
	}
	return time.UnixMicro(micros), nil
}
