package queries

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"auditor/event/finding"
	"auditor/event/userrule"
)

// The SELECT of a user's rule is the only SQL that is not a file of this package. It runs read-only, under limits that it
// cannot change, and only after the engine's own parser has shown that it is one SELECT that names nothing but tables of
// the auditor's database and functions that reach nothing outside.

// UserRuleColumns checks the query of a rule, and gives the columns that it comes to. An error that says *UserRuleError lies
// in the query.
func (s *Store) UserRuleColumns(ctx context.Context, r *userrule.Rule) ([]userrule.Column, error) {
	tree, err := s.userLines(ctx, r, "EXPLAIN AST\n"+query(r))
	if err != nil {
		return nil, err
	}
	called, err := checkTree(tree)
	if err != nil {
		return nil, &UserRuleError{err}
	}
	foreign, err := selectAll[string](ctx, s, "store/foreign_functions", params{"names": called})
	if err != nil {
		return nil, err
	}
	if len(foreign) > 0 {
		return nil, &UserRuleError{fmt.Errorf("the functions %s are not ClickHouse's own, and not allowed", strings.Join(foreign, ", "))}
	}
	var columns []userrule.Column
	err = s.userRows(ctx, r, "DESCRIBE TABLE (\n"+query(r)+"\n)", userTimes{}, func(rows driver.Rows) error {
		row, err := dynamicRow(rows)
		name, _ := row["name"].(string)
		kind, _ := row["type"].(string)
		columns = append(columns, userrule.Column{Name: name, Type: kind})
		return err
	})
	return columns, err
}

// TryUserRule is UserRuleRows, and tells how many rows were read: as the server counts them or, where HTTP does not tell, how
// many the index of the tables that it selects from leaves at least.
func (s *Store) TryUserRule(ctx context.Context, r *userrule.Rule, from, until time.Time) (rows []userrule.Row, read uint64, err error) {
	counted := clickhouse.Context(ctx, clickhouse.WithProgress(func(p *clickhouse.Progress) { read += p.Rows }))
	if rows, err = s.UserRuleRows(counted, r, from, until); err != nil || read > 0 {
		return rows, read, err
	}
	err = s.userRows(ctx, r, "EXPLAIN ESTIMATE\n"+query(r), userTimes{from, until}, func(found driver.Rows) error {
		row, err := dynamicRow(found)
		n, _ := row["rows"].(uint64)
		read += n
		return err
	})
	return rows, read, err
}

// UserRuleRows runs the query of a rule that UserRuleColumns finds good.
func (s *Store) UserRuleRows(ctx context.Context, r *userrule.Rule, from, until time.Time) (all []userrule.Row, err error) {
	err = s.userRows(ctx, r, query(r), userTimes{from, until}, func(found driver.Rows) error {
		row, err := dynamicRow(found)
		all = append(all, row)
		return err
	})
	return all, err
}

// UnresolvedOf gives the findings of a rule that are not resolved.
func (s *Store) UnresolvedOf(ctx context.Context, rule string) ([]finding.Finding, error) {
	return selectFindings(ctx, s, "rules/unresolved_of", params{"rule": rule})
}

// SaveRuleRun stores what became of the newest evaluation of a user's rule.
func (s *Store) SaveRuleRun(ctx context.Context, r userrule.Run) error {
	return s.insert(ctx, "rule_runs", "", []values{
		{"rule", []string{r.Rule}},
		{"time", []time.Time{storable(r.Time)}},
		{"seconds", []float64{r.Took.Seconds()}},
		{"found", []uint32{uint32(r.Found)}},
		{"error", []string{r.Error}},
	})
}

// RuleRuns gives the newest evaluation of each rule that was ever evaluated, in order of name.
func (s *Store) RuleRuns(ctx context.Context) ([]userrule.Run, error) {
	type row struct {
		Rule    string    `ch:"rule"`
		Time    time.Time `ch:"time"`
		Seconds float64   `ch:"seconds"`
		Found   uint32    `ch:"found"`
		Error   string    `ch:"error"`
	}
	rows, err := selectAll[row](ctx, s, "rules/runs", nil)
	return pluck(rows, func(r *row) userrule.Run {
		return userrule.Run{Rule: r.Rule, Time: known(r.Time), Took: time.Duration(r.Seconds * float64(time.Second)), Found: int(r.Found), Error: r.Error}
	}), err
}

// UserRuleError is what is wrong with the query of a user's rule: it would fail again.
type UserRuleError struct{ err error }

// Error says what is wrong.
func (e *UserRuleError) Error() string { return "query: " + e.err.Error() }

// Unwrap gives the cause.
func (e *UserRuleError) Unwrap() error { return e.err }

// query is the text of a rule's query, without the mark at its end that some put there.
func query(r *userrule.Rule) string { return strings.TrimRight(r.Query, "; \t\r\n") }

type userTimes struct{ from, until time.Time }

// userSettings hold a query to what its rule may take. Nothing in the text can change them: readonly forbids it, and with it
// everything but reading, and the table functions that reach outside.
func userSettings(r *userrule.Rule) clickhouse.Settings {
	const resultBytes = 64 << 20
	return clickhouse.Settings{
		"readonly":                                  1,
		"max_execution_time":                        max(r.Limits.Time.Seconds(), 0.001),
		"timeout_overflow_mode":                     "throw",
		"max_memory_usage":                          r.Limits.Memory,
		"max_rows_to_read":                          r.Limits.RowsRead,
		"read_overflow_mode":                        "throw",
		"max_result_rows":                           r.Limits.Rows,
		"max_result_bytes":                          resultBytes,
		"result_overflow_mode":                      "throw",
		"max_temporary_data_on_disk_size_for_query": r.Limits.Memory,
		"session_timezone":                          "UTC",
		"log_comment":                               "auditor rule " + r.Name,
	}
}

// userRows runs text for a rule, and calls row for each row.
func (s *Store) userRows(ctx context.Context, r *userrule.Rule, text string, times userTimes, row func(driver.Rows) error) error {
	ctx, cancel := withoutDeadline(ctx, r.Limits.Time+Grace)
	defer cancel()
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(userSettings(r)),
		clickhouse.WithParameters(clickhouse.Parameters{"from": timeText(times.from, false), "until": timeText(times.until, false)}))
	rows, err := s.conn.Query(ctx, text)
	if err != nil {
		return ofUser(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return ofUser(err)
		}
	}
	return ofUser(rows.Err())
}

// withoutDeadline gives a context that ends with outer, or after a time: the client would make a limit for the server of a
// deadline, in place of the rule's.
func withoutDeadline(outer context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(outer))
	stop, timer := context.AfterFunc(outer, cancel), time.AfterFunc(after, cancel)
	return ctx, func() {
		timer.Stop()
		stop()
		cancel()
	}
}

// userLines is userRows for a text that answers with lines.
func (s *Store) userLines(ctx context.Context, r *userrule.Rule, text string) ([]string, error) {
	var lines []string
	err := s.userRows(ctx, r, text, userTimes{}, func(rows driver.Rows) error {
		var line string
		err := rows.Scan(&line)
		lines = append(lines, line)
		return err
	})
	return lines, err
}

// ofUser tells an error that lies in the query from one of the server or the way to it.
func ofUser(err error) error {
	var e *Error
	switch err := classify("query", err); {
	case err == nil:
		return nil
	case !errors.As(err, &e) || e.Code == 0:
		return err
	case e.Code == codeReadonly && strings.Contains(e.Error(), "setting"):
		return &UserRuleError{errors.New("must not have SETTINGS: the rule's limits hold")}
	case e.Code == codeReadonly:
		return &UserRuleError{errors.New("must only read, and only from tables of the auditor")}
	default:
		return &UserRuleError{errors.New(said(e))}
	}
}

var notSaid = regexp.MustCompile(`^(query: )?(sendQuery: )?(\[HTTP \d+\] )?(code: \d+, message: )?`)

// said is what the server said, without what the way there added.
func said(e *Error) string {
	text := notSaid.ReplaceAllString(e.Error(), "")
	const most = 1000
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// dynamicRow reads a row of whatever columns.
func dynamicRow(rows driver.Rows) (userrule.Row, error) {
	columns := rows.ColumnTypes()
	dest := make([]any, len(columns))
	for i, c := range columns {
		dest[i] = reflect.New(c.ScanType()).Interface()
	}
	if err := rows.Scan(dest...); err != nil {
		return nil, err
	}
	row := make(userrule.Row, len(columns))
	for i, c := range columns {
		value, err := plain(reflect.ValueOf(dest[i]).Elem())
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.Name(), err)
		}
		row[c.Name()] = value
	}
	return row, nil
}

// plain turns what the client gives into the few types that a row has.
func plain(v reflect.Value) (any, error) {
	if t, ok := v.Interface().(time.Time); ok {
		return t, nil
	}
	switch v.Kind() {
	case reflect.String:
		return v.String(), nil
	case reflect.Bool:
		return v.Bool(), nil
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int(), nil
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return v.Uint(), nil
	case reflect.Float32, reflect.Float64:
		return v.Float(), nil
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil, nil
		}
		return plain(v.Elem())
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			var err error
			if list[i], err = plain(v.Index(i)); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	if text, ok := v.Interface().(fmt.Stringer); ok { // UUID
		return text.String(), nil
	}
	return nil, fmt.Errorf("has a value of the type %s", v.Type())
}

// tableFunctions are those that a query may select from: they make rows out of nothing.
var tableFunctions = []string{"numbers", "values", "generate_series", "generateseries"}

// harmful matches functions, in lower case, that read files, wait, call other services, or tell of the server what is none of a
// rule's business.
var harmful = regexp.MustCompile(`^(file|sleep|sleepeachrow|catboostevaluate|naivebayes.*|ai[a-z]+|dict.*|joinget.*|get(server|mergetree)?setting.*|getmacro|` +
	`getclienthttpheader|showcertificate|addressto.*|demangle|logtrace|hascolumnintable|timeseriesstoretags|zookeeper.*|filesystem.*|serveruuid|` +
	`synonyms|lemmatize)$`)

// node is one of the tree that the engine makes of a query.
type node struct {
	kind, name string
	depth, nth int // nth child of the node above, from 1
}

// readTree reads the tree, one node a line, the deeper the more blanks stand before it. It gives each with those above it.
func readTree(lines []string, each func(n node, above []node) error) error {
	var path []node
	var children []int // seen so far, of each node of the path
	for _, line := range lines {
		text := strings.TrimLeft(line, " ")
		n := node{depth: min(len(line)-len(text), len(path))}
		n.kind, n.name, _ = strings.Cut(text, " ")
		n.name, _, _ = strings.Cut(n.name, " (")
		path, children = path[:n.depth], children[:n.depth]
		if n.depth > 0 {
			children[n.depth-1]++
			n.nth = children[n.depth-1]
		}
		if err := each(n, path); err != nil {
			return err
		}
		path, children = append(path, n), append(children, 0)
	}
	return nil
}

// checkTree says what is not allowed in a query. It gives the names of the functions that are called.
func checkTree(lines []string) (called []string, err error) {
	if len(lines) == 0 || !strings.HasPrefix(lines[0], "SelectWithUnionQuery") {
		return nil, errors.New("must be one SELECT")
	}
	called = []string{}
	err = readTree(lines, func(n node, above []node) error {
		var parent, grandparent node
		if len(above) > 0 {
			parent = above[len(above)-1]
		}
		if len(above) > 1 {
			grandparent = above[len(above)-2]
		}
		if n.kind == "Function" && parent.kind != "TableExpression" && !slices.Contains(called, n.name) {
			called = append(called, n.name)
		}
		isTable := n.kind == "TableIdentifier" || n.kind == "Identifier" && n.nth == 2 && grandparent.kind == "Function" && inFunction.MatchString(grandparent.name)
		if isTable && strings.Contains(n.name, ".") {
			return fmt.Errorf("must not select from %s: allowed are the auditor's own tables, without a database before the name (docs/schema.md)", n.name)
		}
		return checkNode(n, parent)
	})
	return called, err
}

// inFunction matches what IN and its kin are called, whose second argument may name a table.
var inFunction = regexp.MustCompile(`^(?i)(global)?(not)?(null)?in(ignoreset)?$`)

func checkNode(n, parent node) error {
	switch {
	case n.kind == "Set":
		return errors.New("must not have SETTINGS: the rule's limits hold")
	case n.depth == 1 && n.kind != "ExpressionList":
		return errors.New("must have neither FORMAT nor INTO OUTFILE")
	case n.kind == "Function" && parent.kind == "TableExpression" && !slices.Contains(tableFunctions, strings.ToLower(n.name)):
		return fmt.Errorf("must not select from the function %s: allowed are the auditor's own tables, and %s", n.name, strings.Join(tableFunctions[:3], ", "))
	case n.kind == "Function" && harmful.MatchString(strings.ToLower(n.name)):
		return fmt.Errorf("must not call the function %s, which reaches outside of the query", n.name)
	}
	return nil
}
