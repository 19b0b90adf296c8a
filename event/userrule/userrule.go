// Package userrule holds the rules that users write: a name, a severity, texts, and one SELECT over the documented tables
// whose rows become findings.
//
// It is pure: what a rule makes of a row depends on the rule and the row alone. The store runs the SELECT, the rules keep
// its findings.
package userrule

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"auditor/event/finding"
)

// Rule is one rule as a file tells it.
type Rule struct {
	Name        string        `yaml:"name"`
	Severity    string        `yaml:"severity"`    // critical, warning or info
	Title       string        `yaml:"title"`       // template of one line: what happened to what
	Explanation string        `yaml:"explanation"` // template
	Remedy      string        `yaml:"remedy"`      // template
	Interval    time.Duration `yaml:"interval"`    // between two runs
	Window      time.Duration `yaml:"window"`      // how far back a run looks
	Query       string        `yaml:"query"`       // one SELECT, with {from:DateTime64(6)} and {until:DateTime64(6)}
	Limits      Limits        `yaml:"limits"`

	File  string            `yaml:"-"` // where it was read from
	Lines map[string]string `yaml:"-"` // file:line of each key that the file has
}

// Limits bound one run of the query. A run that reaches one fails.
type Limits struct {
	Time     time.Duration `yaml:"time"`      // that it may take
	Memory   int64         `yaml:"memory"`    // bytes that it may take
	RowsRead int64         `yaml:"rows_read"` // rows that it may read
	Rows     int           `yaml:"rows"`      // rows that it may give
}

// Most are the largest limits that a rule may ask for.
var Most = Limits{Time: time.Minute, Memory: 8 << 30, RowsRead: 10_000_000_000, Rows: 10_000}

// Default is a rule where nothing is said.
func Default() Rule {
	return Rule{Interval: time.Minute, Window: time.Hour, Limits: Limits{Time: 10 * time.Second, Memory: 1 << 30, RowsRead: 100_000_000, Rows: 1000}}
}

// Column is one that the query gives: its name and ClickHouse's name for its type.
type Column struct{ Name, Type string }

// Row is one that the query gave, by column. Values are text, bool, int64, uint64, float64, time.Time, nil, and lists of them.
type Row map[string]any

// Run is what became of one evaluation.
type Run struct {
	Rule  string
	Time  time.Time
	Took  time.Duration
	Found int    // findings that the query gave
	Error string // empty when all went well
}

const (
	longestName  = 64
	longestQuery = 64 << 10
	longestText  = 4 << 10 // of a template
)

var (
	ruleName   = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	columnName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	fromParam  = regexp.MustCompile(`\{from:\s*DateTime64\(\s*6\s*(,\s*'UTC'\s*)?\)\}`)
)

// Validate names each key that can't be used, and what is allowed. taken are the names that the rule may not have.
func (r *Rule) Validate(taken []string) error {
	var errs []error
	must := func(key string, ok bool, allowed string) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s: must be %s", key, allowed))
		}
	}
	must("name", ruleName.MatchString(r.Name) && len(r.Name) <= longestName, fmt.Sprintf("at most %d of a-z, 0-9 and _, a letter first, not %.80q", longestName, r.Name))
	if slices.Contains(taken, r.Name) {
		errs = append(errs, fmt.Errorf("name: %s is the name of another rule", r.Name))
	}
	severities := []string{string(finding.Critical), string(finding.Warning), string(finding.Info)}
	must("severity", slices.Contains(severities, r.Severity), fmt.Sprintf("one of %s, not %.80q", strings.Join(severities, ", "), r.Severity))
	must("interval", r.Interval >= 10*time.Second && r.Interval <= 24*time.Hour, "from 10s to 24h")
	must("window", r.Window >= time.Second && r.Window <= 31*24*time.Hour, "from 1s to 744h")
	must("limits.time", r.Limits.Time >= 100*time.Millisecond && r.Limits.Time <= Most.Time, "from 100ms to "+span(Most.Time))
	must("limits.memory", r.Limits.Memory >= 1<<20 && r.Limits.Memory <= Most.Memory, fmt.Sprintf("from %d to %d bytes", 1<<20, Most.Memory))
	must("limits.rows_read", r.Limits.RowsRead >= 1 && r.Limits.RowsRead <= Most.RowsRead, fmt.Sprintf("from 1 to %d", Most.RowsRead))
	must("limits.rows", r.Limits.Rows >= 1 && r.Limits.Rows <= Most.Rows, fmt.Sprintf("from 1 to %d", Most.Rows))
	must("query", strings.TrimSpace(r.Query) != "" && len(r.Query) <= longestQuery, fmt.Sprintf("one SELECT of at most %d bytes", longestQuery))
	if strings.TrimSpace(r.Query) != "" && !fromParam.MatchString(r.Query) {
		errs = append(errs, errors.New("query: must ask for what is not older than {from:DateTime64(6)}, the beginning of the window; its end is {until:DateTime64(6)}"))
	}
	if _, err := r.parse(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Place is where a key stands, for a person: file and line, or the file alone.
func (r *Rule) Place(key string) string {
	if line, ok := r.Lines[key]; ok {
		return line
	}
	return r.File
}

// required are the columns that every query gives, and what their types may begin with.
var required = map[string][]string{
	"namespace": {"String"}, "task": {"String"}, "business_key": {"String"}, "first_seen": {"DateTime"}, "last_seen": {"DateTime"},
}

// known are those that a query may give, and that have a place in a finding.
var known = map[string][]string{
	"task_ids": {"Array(String)"}, "effects": {"UInt8", "UInt16", "UInt32", "UInt64", "Int8", "Int16", "Int32", "Int64"}, "cause": {"String"},
}

// ownTypes are the types of the other columns, which become the finding's own fields.
var ownTypes = []string{"String", "FixedString(", "Enum8(", "Enum16(", "UUID", "Bool", "UInt8", "UInt16", "UInt32", "UInt64", "Int8", "Int16", "Int32", "Int64",
	"Float32", "Float64", "Date", "Date32", "DateTime"}

// reserved are the names of what a finding has anyhow.
var reserved = []string{"id", "rule", "severity", "state", "title", "explanation", "remedy", "evidence", "incident", "stored", "updated_at", "version"}

// CheckColumns says what is wrong with what the query gives.
func (r *Rule) CheckColumns(columns []Column) error {
	var errs []error
	have := map[string]bool{}
	var names []string
	for _, c := range columns {
		if have[c.Name] {
			errs = append(errs, fmt.Errorf("query: gives two columns %s", c.Name))
		}
		have[c.Name] = true
		names = append(names, c.Name)
		if err := checkColumn(c); err != nil {
			errs = append(errs, fmt.Errorf("query: %w", err))
		}
	}
	for _, name := range []string{"namespace", "task", "business_key", "first_seen", "last_seen"} {
		if !have[name] {
			errs = append(errs, fmt.Errorf("query: must give the column %s (%s); it gives %s", name, required[name][0], strings.Join(names, ", ")))
		}
	}
	texts, err := r.parse()
	if err != nil {
		errs = append(errs, err)
	}
	for _, t := range texts {
		for _, name := range t.columns {
			if !have[name] {
				errs = append(errs, fmt.Errorf("%s: .%s is no column of the query, which gives %s", t.key, name, strings.Join(names, ", ")))
			}
		}
	}
	return errors.Join(errs...)
}

func checkColumn(c Column) error {
	plain := unwrapped(c.Type)
	allowed, fixed := required[c.Name]
	if !fixed {
		allowed, fixed = known[c.Name]
	}
	switch {
	case fixed && (!isOf(plain, allowed) || strings.HasPrefix(c.Type, "Nullable(") || strings.HasPrefix(c.Type, "LowCardinality(Nullable(")):
		return fmt.Errorf("the column %s must have the type %s, not %s", c.Name, strings.Join(allowed, " or "), c.Type)
	case fixed:
		return nil
	case slices.Contains(reserved, c.Name):
		return fmt.Errorf("the column %s needs another name: a finding has something of that name", c.Name)
	case !columnName.MatchString(c.Name) || len(c.Name) > longestName:
		return fmt.Errorf("the column %.80q needs a name of a-z, 0-9 and _, a letter first: AS some_name", c.Name)
	}
	if list, ok := strings.CutPrefix(c.Type, "Array("); ok {
		plain = unwrapped(strings.TrimSuffix(list, ")"))
	}
	if !isOf(plain, ownTypes) {
		return fmt.Errorf("the column %s has the type %s; allowed are texts, numbers of up to 64 bits, Bool, times, and lists of them: toString(...) makes a text of anything", c.Name, c.Type)
	}
	return nil
}

// unwrapped leaves out what does not change a type's values, or only lets them be missing.
func unwrapped(kind string) string {
	for _, wrap := range []string{"LowCardinality(", "Nullable("} {
		if inner, ok := strings.CutPrefix(kind, wrap); ok {
			return unwrapped(strings.TrimSuffix(inner, ")"))
		}
	}
	if inner, ok := strings.CutPrefix(kind, "Array("); ok {
		return "Array(" + unwrapped(strings.TrimSuffix(inner, ")")) + ")"
	}
	return kind
}

// isOf reports whether a type is one of those: by its name, or by the beginning of one with arguments.
func isOf(kind string, types []string) bool {
	return slices.ContainsFunc(types, func(t string) bool {
		return kind == t || strings.HasSuffix(t, "(") && strings.HasPrefix(kind, t) || t == "DateTime" && (strings.HasPrefix(kind, "DateTime(") || strings.HasPrefix(kind, "DateTime64("))
	})
}

// span writes a limit as the file would: 1m, not 1m0s.
func span(d time.Duration) string { return strings.TrimSuffix(d.String(), "0s") }
