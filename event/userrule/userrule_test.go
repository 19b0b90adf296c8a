package userrule

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"auditor/event/finding"
)

var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

func good(change ...func(*Rule)) *Rule {
	r := Default()
	r.Name, r.Severity, r.Query = "some_rule", "warning", "SELECT 1 WHERE now() > {from:DateTime64(6, 'UTC')}"
	r.Title, r.Explanation, r.Remedy = "{{ .task }}", "{{ if gt (len .task_ids) 1 }}many{{ else if eq .cause \"x\" }}x{{ else }}one{{ end }}", "none"
	for _, f := range change {
		f(&r)
	}
	return &r
}

func TestValidate(t *testing.T) {
	if err := good().Validate([]string{"stuck_pending"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*Rule)
		want   string
	}{
		{"name", func(r *Rule) { r.Name = "9lives" }, "name: must be at most 64 of a-z"},
		{"no name", func(r *Rule) { r.Name = "" }, "name: must be"},
		{"long name", func(r *Rule) { r.Name = strings.Repeat("x", 65) }, "name: must be"},
		{"taken", func(r *Rule) { r.Name = "stuck_pending" }, "name: stuck_pending is the name of another rule"},
		{"severity", func(r *Rule) { r.Severity = "" }, "severity: must be one of critical, warning, info"},
		{"interval", func(r *Rule) { r.Interval = time.Second }, "interval: must be from 10s to 24h"},
		{"window", func(r *Rule) { r.Window = 0 }, "window: must be from 1s to 744h"},
		{"time", func(r *Rule) { r.Limits.Time = time.Hour }, "limits.time: must be from 100ms to 1m"},
		{"no time", func(r *Rule) { r.Limits.Time = 0 }, "limits.time: must be"},
		{"memory", func(r *Rule) { r.Limits.Memory = 9 << 30 }, "limits.memory: must be from 1048576 to 8589934592 bytes"},
		{"no memory", func(r *Rule) { r.Limits.Memory = 0 }, "limits.memory: must be"},
		{"rows read", func(r *Rule) { r.Limits.RowsRead = 0 }, "limits.rows_read: must be from 1 to 10000000000"},
		{"rows", func(r *Rule) { r.Limits.Rows = 10_001 }, "limits.rows: must be from 1 to 10000"},
		{"no query", func(r *Rule) { r.Query = " \n" }, "query: must be one SELECT of at most"},
		{"long query", func(r *Rule) { r.Query += strings.Repeat(" ", 70_000) }, "query: must be one SELECT of at most"},
		{"no window in the query", func(r *Rule) { r.Query = "SELECT {from:String}" }, "query: must ask for what is not older than {from:DateTime64(6)}"},
		{"no title", func(r *Rule) { r.Title = "" }, "title: must be told"},
		{"long text", func(r *Rule) { r.Remedy = strings.Repeat("x", 5000) }, "remedy: must have at most 4096 bytes"},
		{"syntax", func(r *Rule) { r.Title = "{{ .task" }, "title: 1: unclosed action"},
		{"loop", func(r *Rule) { r.Title = "{{ range .task_ids }}x{{ end }}" }, "is not allowed"},
		{"loop over a number", func(r *Rule) { r.Title = "{{ if true }}{{ range 1000000000 }}{{ end }}{{ end }}" }, "is not allowed"},
		{"with", func(r *Rule) { r.Title = "{{ with .task }}x{{ end }}" }, "is not allowed"},
		{"variable", func(r *Rule) { r.Title = "{{ $x := .task }}" }, "variables are not allowed"},
		{"variable in a condition", func(r *Rule) { r.Title = "{{ if $x := .task }}x{{ end }}" }, "variables are not allowed"},
		{"everything", func(r *Rule) { r.Title = "{{ . }}" }, "is not allowed; a column is named with a dot"},
		{"a part", func(r *Rule) { r.Title = "{{ .task.x }}" }, "a column has no parts"},
		{"a part of a value", func(r *Rule) { r.Title = "{{ (index .a 0).x }}" }, "is not allowed"},
		{"definition", func(r *Rule) { r.Title = "{{ define \"x\" }}{{ end }}x" }, "must not define templates"},
		{"recursion", func(r *Rule) { r.Title = "{{ template \"title\" . }}" }, "is not allowed"},
		{"printf", func(r *Rule) { r.Title = "{{ printf \"%1000000000d\" 1 }}" }, "the function printf is not allowed"},
		{"call", func(r *Rule) { r.Title = "{{ call .task }}" }, "the function call is not allowed"},
		{"nested function", func(r *Rule) { r.Title = "{{ if eq (html .task) \"\" }}{{ end }}" }, "the function html is not allowed"},
		{"unknown function", func(r *Rule) { r.Title = "{{ env \"HOME\" }}" }, "function \"env\" not defined"},
	} {
		err := good(c.change).Validate([]string{"stuck_pending"})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", c.name, err, c.want)
		}
	}
}

func columnsWith(more ...Column) []Column {
	return append([]Column{{"namespace", "LowCardinality(String)"}, {"task", "String"}, {"business_key", "String"}, {"first_seen", "DateTime64(6, 'UTC')"},
		{"last_seen", "DateTime"}, {"cause", "LowCardinality(String)"}, {"task_ids", "Array(LowCardinality(String))"}, {"effects", "UInt8"}}, more...)
}

func TestCheckColumns(t *testing.T) {
	r := good()
	for _, kind := range []string{"String", "LowCardinality(Nullable(String))", "FixedString(3)", "Enum8('a' = 1)", "UUID", "Bool", "Nullable(Int64)", "Float32", "Date", "DateTime('UTC')",
		"DateTime64(3)", "Array(UInt64)", "Array(Nullable(String))"} {
		if err := r.CheckColumns(columnsWith(Column{"own", kind})); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	for _, c := range []struct {
		column Column
		want   string
	}{
		{Column{"own", "Map(String, String)"}, "the column own has the type Map(String, String); allowed are"},
		{Column{"own", "Tuple(a String)"}, "allowed are"},
		{Column{"own", "Array(Array(String))"}, "allowed are"},
		{Column{"own", "UInt128"}, "allowed are"},
		{Column{"own", "AggregateFunction(sum, UInt8)"}, "allowed are"},
		{Column{"id", "String"}, "the column id needs another name"},
		{Column{"state", "String"}, "the column state needs another name"},
		{Column{"count()", "UInt64"}, `the column "count()" needs a name of a-z`},
		{Column{"Own", "UInt64"}, "needs a name of a-z"},
		{Column{"task", "String"}, "gives two columns task"},
	} {
		if err := r.CheckColumns(columnsWith(c.column)); err == nil || !strings.Contains(err.Error(), "query: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c.column, err)
		}
	}
	for i, column := range columnsWith() {
		lacks := append(columnsWith()[:i:i], columnsWith()[i+1:]...)
		if err := r.CheckColumns(lacks); (err == nil) != (column.Name == "effects") {
			t.Errorf("without %s: %v", column.Name, err)
		}
		wrong := columnsWith()
		wrong[i].Type = "Nullable(" + wrong[i].Type + ")"
		if err := r.CheckColumns(wrong); err == nil || !strings.Contains(err.Error(), "the column "+column.Name+" must have the type") {
			t.Errorf("%s is nullable: %v", column.Name, err)
		}
	}
}

func TestFindings(t *testing.T) {
	r := good(func(r *Rule) {
		r.Title = "{{ .business_key }}\n  {{ fixed 1 .ratio }}{{ if .nothing }}!{{ end }}"
		r.Explanation = `{{ time .first_seen }} {{ span .wait }} {{ join .task_ids "," }}`
	})
	m, err := NewMaker(*r)
	if err != nil {
		t.Fatal(err)
	}
	row := func(key string, first, last time.Time, ratio float64) Row {
		return Row{"namespace": "n", "task": "t", "business_key": key, "first_seen": first, "last_seen": last, "cause": "c", "effects": uint64(math.MaxUint64),
			"task_ids": []any{"a", "b"}, "ratio": ratio, "wait": int64(90), "nothing": nil, "big": strings.Repeat("ä", 1000), "infinite": math.Inf(1)}
	}
	found, err := m.Findings([]Row{row("k", noon.Add(time.Hour), noon, 1.25), row("l", noon, noon, 2), row("k", noon.Add(-time.Hour), noon.Add(2*time.Hour), 3), row("k", noon, noon, 4)})
	if err != nil {
		t.Fatal(err)
	}
	want := finding.Finding{ID: finding.ID("some_rule", "n", "t", "k"), Rule: "some_rule", Severity: finding.Warning, Namespace: "n", Task: "t", BusinessKey: "k", TaskIDs: []string{"a", "b"},
		Cause: "c", Effects: math.MaxInt32, FirstSeen: noon.Add(-time.Hour), LastSeen: noon.Add(2 * time.Hour), Title: "k 3.0", Explanation: "2026-11-02 11:00:00Z 1m30s a,b", Remedy: "none",
		Fields: map[string]any{"ratio": 3.0, "wait": int64(90), "nothing": nil, "big": strings.Repeat("ä", 512) + "…", "infinite": nil}}
	if diff := cmp.Diff(want, found[0]); diff != "" || len(found) != 2 {
		t.Errorf("%d findings; %s", len(found), diff)
	}
}

// A text that does not fit a row is an error that names it; a long one is cut.
func TestTextsAreBounded(t *testing.T) {
	m, err := NewMaker(*good(func(r *Rule) { r.Title, r.Explanation = "{{ span .task }}", "x" }))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Findings([]Row{{"task": "t"}}); err == nil || !strings.Contains(err.Error(), "rule some_rule: title: ") {
		t.Error(err)
	}
	if m, err = NewMaker(*good(func(r *Rule) { r.Title, r.Explanation = "{{ .task }}", "{{ join .list \",\" }}" })); err != nil {
		t.Fatal(err)
	}
	list := make([]any, 30)
	for i := range list {
		list[i] = i
	}
	found, err := m.Findings([]Row{{"task": strings.Repeat("ä", 200), "list": list}})
	if err != nil || len(found[0].Title) > 303 || !strings.HasSuffix(found[0].Title, "ä…") || !strings.HasSuffix(found[0].Explanation, ",19,and 10 more") {
		t.Error(found, err)
	}
}
