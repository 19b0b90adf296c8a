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
	text("namespace", func(e *event.Event) *string { return &e.Namespace }),
	text("business_key", func(e *event.Event) *string { return &e.BusinessKey }),
	text("task_id", func(e *event.Event) *string { return &e.TaskID }),
	text("event_id", func(e *event.Event) *string { return &e.ID }),
	text("type", func(e *event.Event) *event.Type { return &e.Type }),
	moment("time", func(e *event.Event) *time.Time { return &e.Time }),
	text("system", func(e *event.Event) *string { return &e.System }),
	text("task", func(e *event.Event) *string { return &e.Task }),
	text("execution_id", func(e *event.Event) *string { return &e.ExecutionID }),
	integer("retries", func(e *event.Event) *int { return &e.Retries }),
	integer("max_retries", func(e *event.Event) *int { return &e.MaxRetries }),
	integer("retry_in", func(e *event.Event) *int { return &e.RetryIn }),
	text("queue", func(e *event.Event) *string { return &e.Queue }),
	text("worker", func(e *event.Event) *string { return &e.Worker }),
	field("pid", func(e *event.Event) uint32 { return uint32(min(max(e.PID, 0), math.MaxUint32)) },
		func(e *event.Event, v uint32) { e.PID = int(v) }),
	same("redelivered", func(e *event.Event) **bool { return &e.Redelivered }),
	same("acks_late", func(e *event.Event) **bool { return &e.AcksLate }),
	part("effect_name", effectOf, func(p *event.Effect) *string { return &p.Name }),
	part("effect_target", effectOf, func(p *event.Effect) *string { return &p.Target }),
	part("idempotency_key", effectOf, func(p *event.Effect) *string { return &p.IdempotencyKey }),
	part("deduplicated", effectOf, func(p *event.Effect) *bool { return &p.Deduplicated }),
	part("amount", effectOf, func(p *event.Effect) *string { return &p.Amount }),
	part("currency", effectOf, func(p *event.Effect) *string { return &p.Currency }),
	part("error_type", errorOf, func(p *event.Error) *string { return &p.Type }),
	part("error_message", errorOf, func(p *event.Error) *string { return &p.Message }),
	part("error_permanent", errorOf, func(p *event.Error) *bool { return &p.Permanent }),
	part("skip_reason", skipOf, func(p *event.Skip) *string { return &p.Reason }),
	part("skip_holder", skipOf, func(p *event.Skip) *string { return &p.Holder }),
	moment("eta", func(e *event.Event) *time.Time { return &e.ETA }),
	moment("expires", func(e *event.Event) *time.Time { return &e.Expires }),
	moment("deadline", func(e *event.Event) *time.Time { return &e.Deadline }),
	moment("first_sent", func(e *event.Event) *time.Time { return &e.FirstSent }),
	same("runtime", func(e *event.Event) *float64 { return &e.Runtime }),
	same("requeue", func(e *event.Event) *bool { return &e.Requeue }),
	same("terminated", func(e *event.Event) *bool { return &e.Terminated }),
	same("expired", func(e *event.Event) *bool { return &e.Expired }),
	integer("active", func(e *event.Event) *int { return &e.Active }),
	text("request_id", func(e *event.Event) *string { return &e.RequestID }),
	text("root_id", func(e *event.Event) *string { return &e.RootID }),
	text("parent_id", func(e *event.Event) *string { return &e.ParentID }),
	text("traceparent", func(e *event.Event) *string { return &e.Traceparent }),
	text("args_digest", func(e *event.Event) *string { return &e.ArgsDigest }),
	text("emitter", func(e *event.Event) *string { return &e.Emitter }),
	same("seq", func(e *event.Event) *int64 { return &e.Seq }),
	text("attributes", func(e *event.Event) *string { return &e.Attributes }),
	text("kafka_topic", func(e *event.Event) *string { return &e.Topic }),
	same("kafka_partition", func(e *event.Event) *int32 { return &e.Partition }),
	same("kafka_offset", func(e *event.Event) *int64 { return &e.Offset }),
	same("kafka_index", func(e *event.Event) *int32 { return &e.Index }),
	field("kafka_time", func(e *event.Event) time.Time { return storable(kafkaTime(e)) },
		func(e *event.Event, v time.Time) { e.KafkaTime = known(v) }),
}

// kafkaTime is the time that partitions and retention go by: the record's timestamp or, for events that came from a file
// and not through Kafka, their own.
func kafkaTime(e *event.Event) time.Time {
	if e.KafkaTime.IsZero() {
		return e.Time
	}
	return e.KafkaTime
}

// column is one column of events: how to gather its values for an insert, and how to receive one from a row.
type column struct {
	name    string
	gather  func([]event.Event) any
	receive func() (dest any, apply func(*event.Event))
}

// field is a column that holds what get gives, and that set takes back.
func field[T any](name string, get func(*event.Event) T, set func(*event.Event, T)) column {
	return column{
		name: name,
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
func same[T any](name string, at func(*event.Event) *T) column {
	return field(name, func(e *event.Event) T { return *at(e) }, func(e *event.Event, v T) { *at(e) = v })
}

func text[T ~string](name string, at func(*event.Event) *T) column {
	return field(name, func(e *event.Event) string { return string(*at(e)) }, func(e *event.Event, v string) { *at(e) = T(v) })
}

// integer is an Int32 column; a number that it cannot hold becomes the nearest.
func integer(name string, at func(*event.Event) *int) column {
	return field(name,
		func(e *event.Event) int32 { return int32(min(max(*at(e), math.MinInt32), math.MaxInt32)) },
		func(e *event.Event, v int32) { *at(e) = int(v) })
}

func moment(name string, at func(*event.Event) *time.Time) column {
	return field(name,
		func(e *event.Event) time.Time { return storable(*at(e)) },
		func(e *event.Event, v time.Time) { *at(e) = known(v) })
}

// part is a column of a part that an event may lack. A part of which all columns are empty reads back as lacking.
func part[P any, T comparable](name string, of func(*event.Event) **P, at func(*P) *T) column {
	var empty T
	return field(name,
		func(e *event.Event) T {
			if p := *of(e); p != nil {
				return *at(p)
			}
			return empty
		},
		func(e *event.Event, v T) {
			if v == empty {
				return
			}
			if *of(e) == nil {
				*of(e) = new(P)
			}
			*at(*of(e)) = v
		})
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
