package queries

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"auditor/event"
)

// eventColumns is the one list of the columns of events, for writing and for reading. key_hash is missing: ClickHouse
// works it out, and SELECT * leaves it out.
var eventColumns = []column{
	name("namespace", func(e *event.Event) *string { return &e.Namespace }),
	text("business_key", func(e *event.Event) *string { return &e.BusinessKey }),
	text("task_id", func(e *event.Event) *string { return &e.TaskID }),
	text("event_id", func(e *event.Event) *string { return &e.ID }),
	name("type", func(e *event.Event) *event.Type { return &e.Type }),
	moment("time", func(e *event.Event) *time.Time { return &e.Time }),
	name("system", func(e *event.Event) *string { return &e.System }),
	name("task", func(e *event.Event) *string { return &e.Task }),
	text("execution_id", func(e *event.Event) *string { return &e.ExecutionID }),
	integer("retries", func(e *event.Event) *int { return &e.Retries }),
	integer("max_retries", func(e *event.Event) *int { return &e.MaxRetries }),
	integer("retry_in", func(e *event.Event) *int { return &e.RetryIn }),
	name("queue", func(e *event.Event) *string { return &e.Queue }),
	name("worker", func(e *event.Event) *string { return &e.Worker }),
	field("pid", "UInt32", func(e *event.Event) uint32 { return uint32(min(max(e.PID, 0), math.MaxUint32)) },
		func(e *event.Event, v uint32) { e.PID = int(v) }, (*encoder).uint32),
	optional("redelivered", func(e *event.Event) **bool { return &e.Redelivered }),
	optional("acks_late", func(e *event.Event) **bool { return &e.AcksLate }),
	partWord("effect_name", effectOf, func(p *event.Effect) *string { return &p.Name }),
	partText("effect_target", effectOf, func(p *event.Effect) *string { return &p.Target }),
	partText("idempotency_key", effectOf, func(p *event.Effect) *string { return &p.IdempotencyKey }),
	partFlag("deduplicated", effectOf, func(p *event.Effect) *bool { return &p.Deduplicated }),
	partText("amount", effectOf, func(p *event.Effect) *string { return &p.Amount }),
	partWord("currency", effectOf, func(p *event.Effect) *string { return &p.Currency }),
	partWord("error_type", errorOf, func(p *event.Error) *string { return &p.Type }),
	partText("error_message", errorOf, func(p *event.Error) *string { return &p.Message }),
	partFlag("error_permanent", errorOf, func(p *event.Error) *bool { return &p.Permanent }),
	partWord("skip_reason", skipOf, func(p *event.Skip) *string { return &p.Reason }),
	partText("skip_holder", skipOf, func(p *event.Skip) *string { return &p.Holder }),
	moment("eta", func(e *event.Event) *time.Time { return &e.ETA }),
	moment("expires", func(e *event.Event) *time.Time { return &e.Expires }),
	moment("deadline", func(e *event.Event) *time.Time { return &e.Deadline }),
	moment("first_sent", func(e *event.Event) *time.Time { return &e.FirstSent }),
	same("runtime", "Float64", func(e *event.Event) *float64 { return &e.Runtime }, (*encoder).float64),
	same("requeue", "Bool", func(e *event.Event) *bool { return &e.Requeue }, (*encoder).bool),
	same("terminated", "Bool", func(e *event.Event) *bool { return &e.Terminated }, (*encoder).bool),
	same("expired", "Bool", func(e *event.Event) *bool { return &e.Expired }, (*encoder).bool),
	integer("active", func(e *event.Event) *int { return &e.Active }),
	text("request_id", func(e *event.Event) *string { return &e.RequestID }),
	text("root_id", func(e *event.Event) *string { return &e.RootID }),
	text("parent_id", func(e *event.Event) *string { return &e.ParentID }),
	text("traceparent", func(e *event.Event) *string { return &e.Traceparent }),
	text("args_digest", func(e *event.Event) *string { return &e.ArgsDigest }),
	name("emitter", func(e *event.Event) *string { return &e.Emitter }),
	same("seq", "Int64", func(e *event.Event) *int64 { return &e.Seq }, (*encoder).int64),
	text("attributes", func(e *event.Event) *string { return &e.Attributes }),
	name("kafka_topic", func(e *event.Event) *string { return &e.Topic }),
	same("kafka_partition", "Int32", func(e *event.Event) *int32 { return &e.Partition }, (*encoder).int32),
	same("kafka_offset", "Int64", func(e *event.Event) *int64 { return &e.Offset }, (*encoder).int64),
	same("kafka_index", "Int32", func(e *event.Event) *int32 { return &e.Index }, (*encoder).int32),
	field("kafka_time", "DateTime64(3, 'UTC')", func(e *event.Event) time.Time { return storable(kafkaTime(e)) },
		func(e *event.Event, v time.Time) { e.KafkaTime = known(v) }, func(x *encoder, t time.Time) { x.int64(t.UnixMilli()) }),
}

// kafkaTime is the time that partitions and retention go by: the record's timestamp or, for events that came from a file
// and not through Kafka, their own.
func kafkaTime(e *event.Event) time.Time {
	if e.KafkaTime.IsZero() {
		return e.Time
	}
	return e.KafkaTime
}

// column is one column of events: how to encode its values for an insert, or to gather them for the client to encode, and
// how to receive one from a row.
type column struct {
	name    string
	kind    string // its type, as ClickHouse calls it
	encode  func(*encoder, []event.Event)
	gather  func([]event.Event) any
	receive func() (dest any, apply func(*event.Event))
}

// field is a column that holds what get gives, and that set takes back. Its values are encoded one by one.
func field[T any](name, kind string, get func(*event.Event) T, set func(*event.Event, T), put func(*encoder, T)) column {
	return column{
		name:   name,
		kind:   kind,
		encode: single(get, put),
		gather: func(events []event.Event) any {
			values := make([]T, len(events))
			for i := range events {
				values[i] = get(&events[i])
			}
			return values
		},
		receive: func() (any, func(*event.Event)) {
			v := new(T)
			return v, func(e *event.Event) { set(e, *v) }
		},
	}
}

// same is a column of the field's own type.
func same[T any](name, kind string, at func(*event.Event) *T, put func(*encoder, T)) column {
	return field(name, kind, func(e *event.Event) T { return *at(e) }, func(e *event.Event, v T) { *at(e) = v }, put)
}

func text[T ~string](name string, at func(*event.Event) *T) column {
	return field(name, "String", func(e *event.Event) string { return string(*at(e)) }, func(e *event.Event, v string) { *at(e) = T(v) }, (*encoder).text)
}

// name is a text of which there are few different ones.
func name[T ~string](name string, at func(*event.Event) *T) column {
	return text(name, at).few(func(e *event.Event) string { return string(*at(e)) })
}

// few makes a column of texts one with a dictionary.
func (c column) few(get func(*event.Event) string) column {
	c.kind, c.encode = "LowCardinality(String)", dictionary(get)
	return c
}

func optional(name string, at func(*event.Event) **bool) column {
	c := same(name, "Nullable(Bool)", at, nil)
	c.encode = nullable(func(e *event.Event) *bool { return *at(e) }, (*encoder).bool)
	return c
}

// integer is an Int32 column; a number that it cannot hold becomes the nearest.
func integer(name string, at func(*event.Event) *int) column {
	return field(name, "Int32",
		func(e *event.Event) int32 { return int32(min(max(*at(e), math.MinInt32), math.MaxInt32)) },
		func(e *event.Event, v int32) { *at(e) = int(v) }, (*encoder).int32)
}

func moment(name string, at func(*event.Event) *time.Time) column {
	return field(name, "DateTime64(6, 'UTC')",
		func(e *event.Event) time.Time { return storable(*at(e)) },
		func(e *event.Event, v time.Time) { *at(e) = known(v) }, func(x *encoder, t time.Time) { x.int64(t.UnixMicro()) })
}

// part is a column of a part that an event may lack. A part of which all columns are empty reads back as lacking.
func part[P any, T comparable](name, kind string, of func(*event.Event) **P, at func(*P) *T, put func(*encoder, T)) column {
	var empty T
	return field(name, kind, inPart(of, at),
		func(e *event.Event, v T) {
			if v == empty {
				return
			}
			if *of(e) == nil {
				*of(e) = new(P)
			}
			*at(*of(e)) = v
		}, put)
}

// inPart gives a field of a part, and nothing of one that is lacking.
func inPart[P, T any](of func(*event.Event) **P, at func(*P) *T) func(*event.Event) T {
	return func(e *event.Event) (v T) {
		if p := *of(e); p != nil {
			v = *at(p)
		}
		return v
	}
}

func partText[P any](name string, of func(*event.Event) **P, at func(*P) *string) column {
	return part(name, "String", of, at, (*encoder).text)
}

func partWord[P any](name string, of func(*event.Event) **P, at func(*P) *string) column {
	return partText(name, of, at).few(inPart(of, at))
}

func partFlag[P any](name string, of func(*event.Event) **P, at func(*P) *bool) column {
	return part(name, "Bool", of, at, (*encoder).bool)
}

func effectOf(e *event.Event) **event.Effect { return &e.Effect }
func errorOf(e *event.Event) **event.Error   { return &e.Error }
func skipOf(e *event.Event) **event.Skip     { return &e.Skip }

var columnsByName = func() map[string]column {
	m := make(map[string]column, len(eventColumns))
	for _, c := range eventColumns {
		m[c.name] = c
	}
	return m
}()

// selectEvents runs a statement whose columns are columns of events, all of them (SELECT *) or some, in any order.
func selectEvents(ctx context.Context, s *Store, name string, p params) ([]event.Event, error) {
	var all []event.Event
	err := eachEvent(ctx, s, name, p, nil, func(e event.Event) error {
		all = append(all, e)
		return nil
	})
	return all, err
}

// eachEvent is selectEvents one row at a time. The statement may return columns that are none of events, named in extra,
// which holds where to put them; they are set when use is called.
func eachEvent(ctx context.Context, s *Store, name string, p params, extra map[string]any, use func(event.Event) error) error {
	var dest []any
	var apply []func(*event.Event)
	return s.each(ctx, name, p, func(rows driver.Rows) error {
		if dest == nil {
			var err error
			if dest, apply, err = receivers(rows.Columns(), extra); err != nil {
				return err
			}
		}
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		var e event.Event
		for _, set := range apply {
			set(&e)
		}
		return use(e)
	})
}

func receivers(names []string, extra map[string]any) (dest []any, apply []func(*event.Event), err error) {
	extra = maps.Clone(extra)
	for _, name := range names {
		if to, ok := extra[name]; ok {
			dest = append(dest, to)
			delete(extra, name)
			continue
		}
		c, ok := columnsByName[name]
		if !ok {
			return nil, nil, fmt.Errorf("events has no column %s", name)
		}
		d, set := c.receive()
		dest, apply = append(dest, d), append(apply, set)
	}
	if len(extra) > 0 {
		return nil, nil, fmt.Errorf("columns %v are missing", slices.Sorted(maps.Keys(extra)))
	}
	return dest, apply, nil
}
