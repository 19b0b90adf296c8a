package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// verdict is what a store comes to beside the truth. All counts but the first two are of what is wrong.
type verdict struct {
	Events         int `json:"events"`          // rows that there must be, good events
	Rejects        int `json:"rejects"`         // and records or elements that are none
	Missing        int `json:"missing"`         // events that are not in the store
	Duplicates     int `json:"duplicates"`      // rows of events and rejects beyond the first of a position
	RejectsMissing int `json:"rejects_missing"` // rejects that are not in the store
	Unexpected     int `json:"unexpected"`      // rows at positions at which there is no such event or reject
	Wrong          int `json:"wrong"`           // rows that say something else than the record
	Ledger         int `json:"ledger"`          // holes, overlaps and wrong counts of the ledger
	Derived        int `json:"derived"`         // rows that tables derived from events and ledger lack, or have wrong
	FalseFindings  int `json:"false_findings"`  // findings that nothing gave rise to
	MissedFindings int `json:"missed_findings"` // troubles that were not found, or not with their cause

	examples []string
}

// clean reports whether nothing is wrong.
func (v *verdict) clean() bool {
	return v.Missing+v.Duplicates+v.RejectsMissing+v.Unexpected+v.Wrong+v.Ledger+v.Derived+v.FalseFindings+v.MissedFindings == 0
}

// note counts something that is wrong, and keeps the first few of each kind as examples.
func (v *verdict) note(count *int, format string, args ...any) {
	if *count++; *count <= 5 {
		v.examples = append(v.examples, fmt.Sprintf(format, args...))
	}
}

// position is where an element of a record stands.
type position struct {
	place
	index int32
}

// checkRows compares the rows of events and rejects with the truth. Nothing must write to the store meanwhile, and nothing
// must have merged these rows.
func (v *verdict) checkRows(ctx context.Context, s *store, t *truth) error {
	want := t.rows(v)
	if err := errors.Join(v.checkEvents(ctx, s, want), v.checkRejects(ctx, s, want)); err != nil {
		return fmt.Errorf("check the rows: %w", err)
	}
	return nil
}

// checkRest compares everything else with the truth: the ledger, the tables that views feed, and the findings.
func (v *verdict) checkRest(ctx context.Context, s *store, t *truth) error {
	if err := errors.Join(v.checkLedger(ctx, s, t), v.checkDerived(ctx, s), v.checkFindings(ctx, s, t)); err != nil {
		return fmt.Errorf("check what follows from the rows: %w", err)
	}
	return nil
}

// rows gives what must stand where.
func (t *truth) rows(v *verdict) map[position]row {
	want := make(map[position]row)
	for partition, entries := range t.log {
		for _, e := range entries {
			content, known := t.contents[e.print]
			if !known {
				v.note(&v.Wrong, "the log holds a record that nobody sent, at offset %d of partition %d", e.offset, partition)
			}
			for i, r := range content.rows {
				want[position{place{partition, e.offset}, int32(i)}] = r
				if r.reason == "" {
					v.Events++
				} else {
					v.Rejects++
				}
			}
		}
	}
	return want
}

func (p position) String() string {
	return fmt.Sprintf("offset %d of partition %d, element %d", p.offset, p.partition, p.index)
}

// each reads rows that begin with a topic and a position. It calls f with the rows of the topic, and what follows.
func (v *verdict) each(ctx context.Context, s *store, query string, f func(at position, rest []string)) error {
	return s.ask(ctx, query, func(fields []string) error {
		var partition, offset, index int64
		if err := numbers(fields[1:], &partition, &offset, &index); err != nil {
			return err
		}
		at := position{place{int32(partition), offset}, int32(index)}
		if fields[0] != topic {
			v.note(&v.Unexpected, "a row of topic %s, %s", fields[0], at)
			return nil
		}
		f(at, fields[4:])
		return nil
	})
}

func (v *verdict) checkEvents(ctx context.Context, s *store, want map[position]row) error {
	seen := make(map[position]bool)
	err := v.each(ctx, s, "SELECT kafka_topic, kafka_partition, kafka_offset, kafka_index, event_id FROM events", func(at position, rest []string) {
		r, known := want[at]
		switch {
		case !known || r.reason != "":
			v.note(&v.Unexpected, "an event where there is none: %s, %s", at, rest[0])
		case seen[at]:
			v.note(&v.Duplicates, "an event twice: %s, %s", at, rest[0])
		case r.id != "" && r.id != rest[0]:
			v.note(&v.Wrong, "%s is %s in the store and %s in the log", at, rest[0], r.id)
		}
		seen[at] = true
	})
	for at, r := range want {
		if r.reason == "" && !seen[at] {
			v.note(&v.Missing, "an event is missing: %s, %s", at, r.id)
		}
	}
	return err
}

func (v *verdict) checkRejects(ctx context.Context, s *store, want map[position]row) error {
	seen := make(map[position]bool)
	err := v.each(ctx, s, "SELECT kafka_topic, kafka_partition, kafka_offset, kafka_index, reason, hex(raw) FROM rejects", func(at position, rest []string) {
		r, known := want[at]
		switch {
		case !known || r.reason == "":
			v.note(&v.Unexpected, "a reject where there is none: %s, %s", at, rest[0])
		case seen[at]:
			v.note(&v.Duplicates, "a reject twice: %s", at)
		case r.reason != rest[0] || hex.EncodeToString([]byte(r.raw)) != strings.ToLower(rest[1]):
			v.note(&v.Wrong, "the reject of %s is %s (%s) in the store, and %s in the log", at, rest[0], rest[1], r.reason)
		}
		seen[at] = true
	})
	for at, r := range want {
		if r.reason != "" && !seen[at] {
			v.note(&v.RejectsMissing, "a reject is missing: %s, %s", at, r.reason)
		}
	}
	return err
}

// checkLedger goes through the ledger of each partition, which must lead from the first offset to the end without a hole or
// an overlap, and count what is there.
func (v *verdict) checkLedger(ctx context.Context, s *store, t *truth) error {
	next := make(map[int32]int64)
	rest := make(map[int32][]entry)
	for partition, entries := range t.log {
		rest[partition] = entries
	}
	query := "SELECT kafka_partition, first, last, records, events, rejects, lost FROM ingest_ledger FINAL WHERE kafka_topic = '" + topic +
		"' ORDER BY kafka_partition, first, last"
	err := s.ask(ctx, query, func(fields []string) error {
		var n, first, last, records, events, rejects, lost int64
		if err := numbers(fields, &n, &first, &last, &records, &events, &rejects, &lost); err != nil {
			return err
		}
		partition := int32(n)
		switch {
		case first > next[partition]:
			v.note(&v.Ledger, "the ledger lacks offsets %d to %d of partition %d", next[partition], first-1, partition)
		case first < next[partition]:
			v.note(&v.Ledger, "the ledger covers offset %d of partition %d twice", first, partition)
		}
		next[partition] = last + 1
		end := slices.IndexFunc(rest[partition], func(e entry) bool { return e.offset > last })
		if end < 0 {
			end = len(rest[partition])
		}
		var wantEvents, wantRejects int64
		for _, e := range rest[partition][:end] {
			for _, r := range t.contents[e.print].rows {
				if r.reason == "" {
					wantEvents++
				} else {
					wantRejects++
				}
			}
		}
		if records != int64(end) || events != wantEvents || rejects != wantRejects || lost != 0 {
			v.note(&v.Ledger, "the ledger counts %d records, %d events, %d rejects and %d lost at offsets %d to %d of partition %d: there are %d, %d and %d",
				records, events, rejects, lost, first, last, partition, end, wantEvents, wantRejects)
		}
		rest[partition] = rest[partition][end:]
		return nil
	})
	for partition, end := range t.ends {
		if next[partition] != end {
			v.note(&v.Ledger, "the ledger ends at offset %d of partition %d, the log at %d", next[partition], partition, end)
		}
	}
	return err
}

// view is a materialized view: what feeds a table that is derived from another.
type view struct {
	target  string
	query   string
	engine  string
	columns []string // by which its rows are compared
}

// checkDerived compares each table that a view feeds with what the view makes of the whole of its source, which has been
// checked. Of a table that replaces rows the sorting key counts, for which of two rows stays is open; of one that
// aggregates all columns do.
func (v *verdict) checkDerived(ctx context.Context, s *store) error {
	views, err := s.views(ctx)
	if err != nil {
		return err
	}
	for _, view := range views {
		columns := strings.Join(view.columns, ", ")
		whole, table := fmt.Sprintf("SELECT DISTINCT %s FROM (%s)", columns, view.query), fmt.Sprintf("SELECT DISTINCT %s FROM %s FINAL", columns, view.target)
		for _, side := range []struct{ query, says string }{
			{whole + " EXCEPT " + table, "lacks"}, {table + " EXCEPT " + whole, "has, beyond its source,"},
		} {
			if err := s.ask(ctx, side.query, func(fields []string) error {
				v.note(&v.Derived, "%s %s %s", view.target, side.says, strings.Join(fields, " "))
				return nil
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// views gives the materialized views of the database.
func (s *store) views(ctx context.Context) ([]view, error) {
	var views []view
	err := s.ask(ctx, "SELECT extract(create_table_query, ' TO `?\\\\w+`?\\\\.`?(\\\\w+)`?'), replaceAll(as_select, '\\n', ' ') FROM system.tables "+
		"WHERE database = currentDatabase() AND engine = 'MaterializedView' ORDER BY name", func(fields []string) error {
		views = append(views, view{target: fields[0], query: fields[1]})
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range views {
		view := &views[i]
		err := s.ask(ctx, "SELECT engine FROM system.tables WHERE database = currentDatabase() AND name = '"+view.target+"'", func(fields []string) error {
			view.engine = fields[0]
			return nil
		})
		if err != nil {
			return nil, err
		}
		query := "SELECT name, type, is_in_sorting_key FROM system.columns WHERE database = currentDatabase() AND table = '" + view.target + "' ORDER BY position"
		err = s.ask(ctx, query, func(fields []string) error {
			switch {
			case strings.HasPrefix(fields[1], "AggregateFunction("):
				view.columns = append(view.columns, count(fields[0], fields[1]))
			case strings.HasPrefix(view.engine, "Aggregating") || fields[2] == "1":
				view.columns = append(view.columns, fields[0])
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(view.columns) == 0 {
			return nil, fmt.Errorf("table %q, which a view feeds, has nothing to compare by", view.target)
		}
	}
	return views, nil
}

// count is what the sketch in a column of such a type counts, or the numbers of its set. ClickHouse keeps up to 256 values as a list, and more of them as
// registers, from which it reckons; one of exactly that many may be either, depending on how it was merged. So one of about
// that many is counted together with others, which are the same for all.
func count(column, kind string) string {
	function := strings.TrimPrefix(strings.Split(kind, ",")[0], "AggregateFunction(")
	if function == "groupBitmap" { // a set of numbers, whole
		return "bitmapToArray(" + column + ")"
	}
	state := strings.Replace(function, "(", "State(", 1)
	more := "arrayReduce('" + state + "', arrayMap(n -> toString(n), range(1000)))"
	return "if(finalizeAggregation(" + column + ") BETWEEN 240 AND 272, finalizeAggregation(" + column + " + " + more + "), finalizeAggregation(" + column + "))"
}

func (v *verdict) checkFindings(ctx context.Context, s *store, t *truth) error {
	missing := slices.Clone(t.expected)
	query := "SELECT rule, namespace, business_key, cause, replaceRegexpAll(title, '\\\\s+', ' ') FROM findings " +
		"WHERE rule != 'incident'" // which gathers others
	err := s.ask(ctx, query, func(fields []string) error {
		found := expected{rule: fields[0], namespace: fields[1], key: fields[2], cause: fields[3]}
		if i := slices.Index(missing, found); i >= 0 {
			missing = slices.Delete(missing, i, i+1)
			return nil
		}
		about := func(e expected) bool {
			return e.rule == found.rule && e.namespace == found.namespace && e.key == found.key
		}
		if i := slices.IndexFunc(missing, about); i >= 0 { // told again among the missing, with its cause
			v.examples = append(v.examples, fmt.Sprintf("found with the cause %s, not %s: %s", found.cause, missing[i].cause, fields[4]))
			return nil
		}
		v.note(&v.FalseFindings, "found, and not true: %s %s: %s", found.rule, found.cause, fields[4])
		return nil
	})
	for _, e := range missing {
		v.note(&v.MissedFindings, "not found: %s of %s, %s", e.rule, e.key, e.cause)
	}
	return err
}
