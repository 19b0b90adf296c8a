package queries

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// each runs a statement that returns rows and calls row for each. The rows are valid during the call only. The time-out
// of queries bounds the whole.
func (s *Store) each(outer context.Context, name string, p params, row func(driver.Rows) error) error {
	ctx, text, cancel, err := s.prepare(outer, name, p, clickhouse.Settings{"log_comment": "auditor " + name})
	if err != nil {
		return err
	}
	defer cancel()
	rows, err := s.conn.Query(ctx, text)
	if err != nil {
		return classify(name, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := rows.Err(); err != nil {
		return classify(name, err)
	}
	return s.whole(outer, name)
}

// exec runs a statement that returns nothing. What it inserts is inserted, though the same was before.
func (s *Store) exec(outer context.Context, name string, p params) error {
	ctx, text, cancel, err := s.prepare(outer, name, p, s.insertSettings(name, ""))
	if err != nil {
		return err
	}
	defer cancel()
	if err := s.conn.Exec(ctx, text); err != nil {
		return classify(name, err)
	}
	return s.whole(outer, name)
}

// whole fails when a statement that reads every replica may have missed a shard.
func (s *Store) whole(ctx context.Context, name string) error {
	if s.layout.cluster == "" || !s.statements[name].all {
		return nil
	}
	return s.everyShard(ctx)
}

func (s *Store) prepare(ctx context.Context, name string, p params, settings clickhouse.Settings) (context.Context, string, context.CancelFunc, error) {
	st, ok := s.statements[name]
	if !ok {
		return nil, "", nil, fmt.Errorf("no statement %s", name)
	}
	bound, err := st.bind(s.bindArrived(st, p))
	if err != nil {
		return nil, "", nil, err
	}
	if st.all && s.layout.cluster != "" {
		maps.Copy(settings, everyReplicaSettings)
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.QueryTimeout)
	ctx = clickhouse.Context(ctx, clickhouse.WithParameters(bound), clickhouse.WithSettings(settings))
	return ctx, st.textFor(p), cancel, nil
}

// selectAll runs a statement and reads its rows. T is a struct whose fields carry `ch:"column"` tags, or one plain value
// for a statement of one column. The Go types must be those of the columns: count() is a uint64, DateTime64 a time.Time
// (see known for times that were not told), Nullable(T) a *T.
func selectAll[T any](ctx context.Context, s *Store, name string, p params) ([]T, error) {
	var all []T
	plain := isPlain(reflect.TypeFor[T]())
	err := s.each(ctx, name, p, func(rows driver.Rows) error {
		var v T
		var err error
		if plain {
			err = rows.Scan(&v)
		} else {
			err = rows.ScanStruct(&v)
		}
		all = append(all, v)
		return err
	})
	return all, err
}

// selectOne is selectAll for a statement of at most one row; ok is false when there was none.
func selectOne[T any](ctx context.Context, s *Store, name string, p params) (v T, ok bool, err error) {
	all, err := selectAll[T](ctx, s, name, p)
	if err != nil || len(all) == 0 {
		return v, false, err
	}
	return all[0], true, nil
}

func isPlain(t reflect.Type) bool {
	return t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]()
}
