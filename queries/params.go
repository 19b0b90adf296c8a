package queries

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// params are the values of a statement's parameters: text, numbers, booleans, times, and slices and maps of them. The
// zero time is sent as the epoch, as it is stored.
type params map[string]any

// bind writes the values as ClickHouse reads parameters. The driver's own way of doing so takes a named string type for a
// quoted literal, and depends on the protocol; this does not.
func (s *statement) bind(values params) (clickhouse.Parameters, error) {
	if len(values) != len(s.params) {
		return nil, fmt.Errorf("%s takes params %s", s.name, describeParams(s.params))
	}
	bound := make(clickhouse.Parameters, len(values))
	for name, v := range values {
		kind, ok := s.params[name]
		if !ok {
			return nil, fmt.Errorf("%s takes no param %s, but %s", s.name, name, describeParams(s.params))
		}
		text, err := paramText(reflect.ValueOf(v), false)
		if err != nil {
			return nil, fmt.Errorf("%s: param %s %s: %w", s.name, name, kind, err)
		}
		bound[name] = text
	}
	return bound, nil
}

var (
	escaper = strings.NewReplacer(`\`, `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`, "\x00", `\0`)
	quoter  = strings.NewReplacer(`\`, `\\`, "'", `\'`, "\t", `\t`, "\n", `\n`, "\r", `\r`, "\x00", `\0`)
)

// paramText writes one value; within a slice or a map, text is quoted.
func paramText(v reflect.Value, nested bool) (string, error) {
	if !v.IsValid() {
		return "", fmt.Errorf("nil")
	}
	switch v := v.Interface().(type) {
	case time.Time:
		return timeText(v, nested), nil
	case json.Number: // from a header's example
		return v.String(), nil
	}
	switch v.Kind() {
	case reflect.String:
		if nested {
			return "'" + quoter.Replace(v.String()) + "'", nil
		}
		return escaper.Replace(v.String()), nil
	case reflect.Bool:
		return strconv.FormatBool(v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.FormatUint(v.Uint(), 10), nil
	case reflect.Float32, reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64), nil
	case reflect.Slice, reflect.Array:
		parts := make([]string, v.Len())
		for i := range parts {
			var err error
			if parts[i], err = paramText(v.Index(i), true); err != nil {
				return "", err
			}
		}
		return "[" + strings.Join(parts, ",") + "]", nil
	case reflect.Map:
		return mapText(v)
	case reflect.Interface, reflect.Pointer:
		return paramText(v.Elem(), nested)
	}
	return "", fmt.Errorf("cannot send a %s", v.Type())
}

func mapText(v reflect.Value) (string, error) {
	parts := make([]string, 0, v.Len())
	for iter := v.MapRange(); iter.Next(); {
		key, err := paramText(iter.Key(), true)
		if err != nil {
			return "", err
		}
		value, err := paramText(iter.Value(), true)
		if err != nil {
			return "", err
		}
		parts = append(parts, key+":"+value)
	}
	slices.Sort(parts)
	return "{" + strings.Join(parts, ",") + "}", nil
}

// timeText writes UTC, cut to microseconds: statements declare DateTime64(6, 'UTC').
func timeText(t time.Time, quoted bool) string {
	text := storable(t).UTC().Format("2006-01-02 15:04:05.000000")
	if quoted {
		return "'" + text + "'"
	}
	return text
}

// The times that both ClickHouse and its driver can hold.
var (
	epoch    = time.Unix(0, 0).UTC()
	earliest = time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2261, 12, 31, 23, 59, 59, 999999000, time.UTC)
)

// storable is the time as it is stored: the epoch for one that was not told, and the nearest one that can be held.
func storable(t time.Time) time.Time {
	switch {
	case t.IsZero():
		return epoch
	case t.Before(earliest):
		return earliest
	case t.After(latest):
		return latest
	}
	return t
}

// known is the time that was told: the zero time where the epoch is stored.
func known(t time.Time) time.Time {
	if t.Equal(epoch) {
		return time.Time{}
	}
	return t
}

// chunks cuts a list of texts into pieces that fit into one request: parameters travel in the address of an HTTP request.
func chunks(list []string) [][]string {
	const most, bytes = 1000, 64 << 10
	var all [][]string
	start, size := 0, 0
	for i, s := range list {
		if i > start && (i-start == most || size+len(s) > bytes) {
			all = append(all, list[start:i])
			start, size = i, 0
		}
		size += len(s)
	}
	if start < len(list) {
		all = append(all, list[start:])
	}
	return all
}
