package queries

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// setRetention brings the tables' TTL in line with the configuration. Tables that only the rules read keep what they
// need for no longer than two weeks. That rows are kept for longer is noted first: who looks for rows has to know that
// those of before may have been deleted.
func (s *Store) setRetention(ctx context.Context) error {
	have, err := s.retention(ctx)
	if err != nil {
		return err
	}
	for table, days := range have {
		want := s.wantedDays(table)
		if days == want {
			continue
		}
		if days > 0 && (want == 0 || want > days) {
			if err := s.exec(ctx, "store/raise_retention", params{"table": table, "here": s.layout.here(table), "days": days}); err != nil {
				return err
			}
		}
		if err := s.keep(ctx, table, want); err != nil {
			// Another process may have done the same at the same time.
			if now, again := s.retention(ctx); again != nil || now[table] != want {
				return err
			}
		}
		s.log.Info("changed retention", "table", table, "days", want)
	}
	return nil
}

// wantedDays is for how many days a table is to keep its rows.
func (s *Store) wantedDays(table string) uint32 {
	const rulesRead = 14
	days := uint32(s.config.RetentionDays)
	if slices.Contains([]string{"changed_keys", "attempts", "emitter_numbers", "failures"}, table) {
		days = min(days, rulesRead)
	}
	return days
}

// declaredDays is how CREATE TABLE says that a table keeps its rows.
var declaredDays = regexp.MustCompile(`(?s)CREATE TABLE IF NOT EXISTS (\w+).*\nTTL toDateTime\(kafka_time\) \+ INTERVAL (\d+) DAY\n`)

// planRetention gives the statements that setRetention would run after the migrations that are not done.
func (s *Store) planRetention(ctx context.Context, migrations []migration, done map[string]string, exists bool) ([]string, error) {
	days := map[string]uint32{}
	if exists {
		var err error
		if days, err = s.retention(ctx); err != nil {
			return nil, err
		}
	}
	for _, m := range migrations {
		if _, ok := done[m.name]; ok {
			continue
		}
		for _, statement := range m.statements {
			if declared := declaredDays.FindStringSubmatch(statement); declared != nil {
				n, err := strconv.ParseUint(declared[2], 10, 32)
				if err != nil {
					return nil, err
				}
				days[declared[1]] = uint32(n)
			}
		}
	}
	var statements []string
	for _, table := range slices.Sorted(maps.Keys(days)) {
		want := s.wantedDays(table)
		if days[table] == want {
			continue
		}
		name := "store/keep_for_days"
		if want == 0 {
			name = "store/keep_for_ever"
		}
		forms, err := s.alterations(name, table)
		if err != nil {
			return nil, err
		}
		for _, form := range forms {
			statements = append(statements, strings.ReplaceAll(form.text, "{days:UInt32}", strconv.FormatUint(uint64(want), 10)))
		}
	}
	return statements, nil
}

// retention gives for how many days each table keeps its rows; 0 is for ever.
func (s *Store) retention(ctx context.Context) (map[string]uint32, error) {
	type row struct {
		Table string `ch:"table"`
		Days  uint32 `ch:"days"`
	}
	rows, err := selectAll[row](ctx, s, "store/retention", nil)
	if err != nil {
		return nil, err
	}
	days := make(map[string]uint32, len(rows))
	for _, r := range rows {
		days[s.layout.plain(r.Table)] = r.Days
	}
	return days, nil
}

func (s *Store) keep(ctx context.Context, table string, days uint32) error {
	if days == 0 {
		return s.alter(ctx, "store/keep_for_ever", table, params{})
	}
	return s.alter(ctx, "store/keep_for_days", table, params{"days": days})
}

// alter runs a statement that is about one table, whose name stands for its parameter table: on a cluster, about the tables
// that hold its rows.
func (s *Store) alter(ctx context.Context, name, table string, p params) error {
	forms, err := s.alterations(name, table)
	if err != nil {
		return err
	}
	for _, form := range forms {
		bound, err := form.bind(p)
		if err != nil {
			return err
		}
		if err := s.execText(clickhouse.Context(ctx, clickhouse.WithParameters(bound)), form.text); err != nil {
			return classify(name, err)
		}
	}
	return nil
}

// alterations gives a statement of alter as it runs, table and all. The table's name is one of this package's own.
func (s *Store) alterations(name, table string) ([]statement, error) {
	const parameter = "table"
	st, ok := s.statements[name]
	if !ok || st.params[parameter] != "Identifier" {
		return nil, fmt.Errorf("no statement %s about a table", name)
	}
	texts, err := s.layout.statements(strings.ReplaceAll(st.text, "{table:Identifier}", table))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	forms := make([]statement, len(texts))
	for i, text := range texts {
		forms[i] = statement{name: name, text: text, params: maps.Clone(st.params)}
		delete(forms[i].params, parameter)
	}
	return forms, nil
}
