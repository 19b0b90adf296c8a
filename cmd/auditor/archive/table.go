package archive

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Table is how the columns of a table become the fields of events.
type Table struct {
	Columns   map[string]string // field to column; a column that is called like a field is that field's anyway
	Values    map[string]string // field to the value that it has in every row
	Delimiter rune              // 0: a comma
	Zone      *time.Location    // of times that tell none; nil: UTC
}

// kind is how the text of a field is read.
type kind int

const (
	isText kind = iota
	isNumber
	isTime
	isFlag
	isState
)

// tableFields are the fields that a column can fill, those of objects by their path. state is none of an event: it is a queue's own word for
// what became of a task.
var tableFields = map[string]kind{
	"event_id": isText, "type": isText, "outcome": isText, "state": isState, "time": isTime, "namespace": isText, "system": isText, "task": isText,
	"task_id": isText, "business_key": isText, "execution_id": isText, "retries": isNumber, "max_retries": isNumber, "retry_in": isNumber,
	"queue": isText, "worker": isText, "pid": isNumber, "redelivered": isFlag, "acks_late": isFlag,
	"effect.name": isText, "effect.target": isText, "effect.idempotency_key": isText, "effect.deduplicated": isFlag, "effect.amount": isText,
	"effect.currency": isText, "error.type": isText, "error.message": isText, "error.permanent": isFlag, "skip.reason": isText, "skip.holder": isText,
	"eta": isTime, "expires": isTime, "deadline": isTime, "first_sent": isTime, "runtime": isNumber, "requeue": isFlag, "terminated": isFlag,
	"expired": isFlag, "active": isNumber, "request_id": isText, "root_id": isText, "parent_id": isText, "traceparent": isText,
	"args_digest": isText, "emitter": isText, "seq": isNumber,
}

// states are the words of queues for what became of a task: Celery's, River's, asynq's and others'.
var states = map[string]string{
	"pending": "sent", "available": "sent", "scheduled": "sent", "enqueued": "sent", "sent": "sent", "received": "received", "started": "started", "running": "started", "active": "started",
	"success": "succeeded", "succeeded": "succeeded", "successful": "succeeded", "completed": "succeeded", "complete": "succeeded", "done": "succeeded",
	"failure": "failed", "failed": "failed", "error": "failed", "discarded": "failed", "archived": "failed", "dead": "failed",
	"retry": "retried", "retried": "retried", "retryable": "retried", "revoked": "revoked", "cancelled": "revoked", "canceled": "revoked",
	"rejected": "rejected", "ignored": "skipped", "skipped": "skipped",
}

// Validate names each field and value that cannot be.
func (t Table) Validate() error {
	var errs []error
	for _, names := range []map[string]string{t.Columns, t.Values} {
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if _, known := tableFields[name]; !known {
				errs = append(errs, fmt.Errorf("%s: no such field; known are %s", name, strings.Join(slices.Sorted(maps.Keys(tableFields)), ", ")))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Values)) {
		if _, twice := t.Columns[name]; twice {
			errs = append(errs, fmt.Errorf("%s: has a column and a value", name))
		}
		if _, err := t.cell(tableFields[name], t.Values[name]); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	if t.Delimiter == '\n' || t.Delimiter == '\r' || t.Delimiter == '"' {
		errs = append(errs, errors.New("the delimiter must be one letter, such as a comma or a semicolon"))
	}
	return errors.Join(errs...)
}

// records gives an event for each row. The first row names the columns.
func (t Table) records(r io.Reader) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		bounded := &boundedReader{from: r, left: MaxLine}
		rows := csv.NewReader(bounded)
		rows.ReuseRecord, rows.FieldsPerRecord = true, 0
		if t.Delimiter != 0 {
			rows.Comma = t.Delimiter
		}
		header, err := rows.Read()
		if err == io.EOF {
			return
		}
		if err != nil {
			yield(Record{}, fmt.Errorf("the row that names the columns: %w", err))
			return
		}
		columns, err := t.columns(header)
		if err != nil {
			yield(Record{}, err)
			return
		}
		for number := int64(1); ; number++ {
			bounded.left = MaxLine
			row, err := rows.Read()
			switch wrong := new(csv.ParseError); {
			case err == io.EOF:
				return
			case errors.As(err, &wrong):
				if !yield(Record{Number: number, Bad: wrong.Error()}, nil) {
					return
				}
				continue
			case err != nil:
				yield(Record{}, err)
				return
			}
			rec := Record{Number: number}
			if rec.Value, err = t.event(columns, row); err != nil {
				rec.Bad = err.Error()
			}
			if !yield(rec, nil) {
				return
			}
		}
	}
}

// column is a field and where its text stands in a row.
type column struct {
	field string
	place int
}

// columns finds the columns of the fields.
func (t Table) columns(header []string) ([]column, error) {
	places := make(map[string]int, len(header))
	for i, name := range header {
		name = strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))
		if _, twice := places[name]; twice && name != "" {
			return nil, fmt.Errorf("two columns are called %q", name)
		}
		places[name] = i
	}
	var out []column
	var errs []error
	for _, field := range slices.Sorted(maps.Keys(tableFields)) {
		name, told := t.Columns[field]
		if _, fixed := t.Values[field]; fixed {
			continue
		}
		if !told {
			name = field
		}
		place, there := places[name]
		switch {
		case there:
			out = append(out, column{field, place})
		case told:
			errs = append(errs, fmt.Errorf("there is no column %q for %s; there are %s", name, field, strings.Join(slices.Sorted(maps.Keys(places)), ", ")))
		}
	}
	if len(out) == 0 && len(errs) == 0 {
		errs = append(errs, errors.New("no column is called like a field of events: say which is which"))
	}
	return out, errors.Join(errs...)
}

// event makes the event of a row.
func (t Table) event(columns []column, row []string) ([]byte, error) {
	object := map[string]any{}
	put := func(field, text string) error {
		text = strings.TrimSpace(text)
		if text == "" || text == `\N` {
			return nil
		}
		v, err := t.cell(tableFields[field], text)
		if err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
		if field == "state" {
			field = "type"
		}
		if outer, inner, nested := strings.Cut(field, "."); nested {
			within, _ := object[outer].(map[string]any)
			if within == nil {
				within = map[string]any{}
				object[outer] = within
			}
			within[inner] = v
			return nil
		}
		object[field] = v
		return nil
	}
	for _, c := range columns {
		if err := put(c.field, row[c.place]); err != nil {
			return nil, err
		}
	}
	for field, text := range t.Values {
		if err := put(field, text); err != nil {
			return nil, err
		}
	}
	return json.Marshal(object)
}

// cell reads the text of a cell.
func (t Table) cell(k kind, text string) (any, error) {
	switch k {
	case isNumber:
		if _, err := strconv.ParseFloat(text, 64); err != nil || !json.Valid([]byte(text)) {
			return nil, fmt.Errorf("must be a number, not %.64q", text)
		}
		return json.Number(text), nil
	case isFlag:
		b, err := strconv.ParseBool(strings.ToLower(text))
		if err != nil {
			return nil, fmt.Errorf("must be true or false, not %.64q", text)
		}
		return b, nil
	case isTime:
		at, err := t.time(text)
		if err != nil {
			return nil, err
		}
		return at.UTC().Format(time.RFC3339Nano), nil
	case isState:
		kind, known := states[strings.ToLower(text)]
		if !known {
			return nil, fmt.Errorf("%.64q is no state that is known; map the column to type or outcome, if it tells those", text)
		}
		return kind, nil
	}
	return text, nil
}

// layouts are the forms of a time that tells its zone, and of one that does not.
var layouts = []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999Z07", "2006-01-02 15:04:05.999999999 Z07:00",
	"2006-01-02 15:04:05.999999999 -0700", "2006-01-02 15:04:05.999999999 MST", "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999"}

// time reads a date, or the seconds since 1970; so many of them that they must be thousandths or millionths are that.
func (t Table) time(text string) (time.Time, error) {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		switch {
		case n >= 1e14:
			return time.UnixMicro(int64(n)), bounded(n, 1e16)
		case n >= 1e11:
			return time.UnixMicro(int64(n * 1e3)), nil
		}
		return time.UnixMicro(int64(n * 1e6)), bounded(-n, 1e11)
	}
	zone := t.Zone
	if zone == nil {
		zone = time.UTC
	}
	for _, layout := range layouts {
		if at, err := time.ParseInLocation(layout, text, zone); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("must be a time such as 2026-03-04T05:06:07Z, 2026-03-04 05:06:07 or Unix seconds, not %.64q", text)
}

func bounded(n, most float64) error {
	if n < most { // false for what is no number
		return nil
	}
	return errors.New("must be a time after 1970")
}

// boundedReader keeps a quote or an object that never ends from taking all memory: it is told anew with each record what may be read.
type boundedReader struct {
	from io.Reader
	left int
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errLongLine
	}
	n, err := b.from.Read(p)
	b.left -= n
	return n, err
}
