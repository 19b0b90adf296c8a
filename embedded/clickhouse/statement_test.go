package clickhouse

import (
	"errors"
	"strings"
	"testing"
)

func TestSplitStatement(t *testing.T) {
	for _, test := range []struct {
		text         string
		kind         statementKind
		sql          string // the text itself if empty
		format, data string
	}{
		{text: "SELECT 1", kind: read},
		{text: " -- why\n/* a; b */ ( select 1 ) ; ", kind: read},
		{text: "WITH 1 AS x SELECT x", kind: read},
		{text: "FROM t SELECT a", kind: read},
		{text: "SELECT '; DROP', `a;b`, \"c;\", $x$;;$x$, 'it''s; \\'; '", kind: read},
		{text: "SELECT a.insert FROM t", kind: read},
		{text: "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x", kind: command},
		{text: "CREATE TABLE t (a String DEFAULT ';') ENGINE = Memory", kind: command},
		{text: "SHOW TABLES;", kind: command},
		{text: "INSERT INTO t SELECT 1", kind: command},
		{text: "INSERT INTO t (a) (SELECT 1)", kind: command},
		{text: "INSERT INTO t (a) WITH 1 AS x SELECT x FORMAT CSV", kind: command},
		{text: "INSERT INTO t", kind: insert},
		{text: "INSERT INTO t (a, b) ;", kind: insert, sql: "INSERT INTO t (a, b) "},
		{text: "INSERT INTO t VALUES (1), (';')", kind: insert, sql: "INSERT INTO t ", format: "Values", data: " (1), (';')"},
		{text: "insert into table t(a)values(1)", kind: insert, sql: "insert into table t(a)", format: "Values", data: "(1)"},
		{text: "INSERT INTO values VALUES (1)", kind: insert, sql: "INSERT INTO values ", format: "Values", data: " (1)"},
		{text: "INSERT INTO db.format (`format`, select) FORMAT CSV\n1,2\n", kind: insert, sql: "INSERT INTO db.format (`format`, select) ", format: "CSV", data: "1,2\n"},
		{text: "INSERT INTO t SETTINGS async_insert = 0, x = 'FORMAT' FORMAT Native \r\n\n\x00", kind: insert,
			sql: "INSERT INTO t SETTINGS async_insert = 0, x = 'FORMAT' ", format: "Native", data: "\n\x00"},
		{text: "INSERT /* FORMAT */ INTO t -- VALUES\n FORMAT TSV a;b", kind: insert, sql: "INSERT /* FORMAT */ INTO t -- VALUES\n ", format: "TSV", data: "a;b"},
		{text: "INSERT INTO FUNCTION file('x', CSV, 'format String') FORMAT TSV\n", kind: insert, sql: "INSERT INTO FUNCTION file('x', CSV, 'format String') ", format: "TSV"},
		{text: "SELECT 'open", kind: read},
		{text: "SELECT /* open", kind: read},
		{text: "SELECT $", kind: read},
	} {
		want := statement{sql: test.sql, kind: test.kind, format: test.format, data: test.data}
		if want.sql == "" {
			want.sql = test.text
		}
		if got, err := splitStatement(test.text); err != nil || got != want {
			t.Errorf("%q\n got %+v, %v\nwant %+v", test.text, got, err, want)
		}
	}
}

func TestSplitStatementRefuses(t *testing.T) {
	for text, want := range map[string]*exception{
		"":                                       errEmpty,
		" -- nothing":                            errEmpty,
		"SELECT 1; SELECT 2":                     errMultiStatements,
		"SELECT 1;; -- x\n;DROP TABLE t":         errMultiStatements,
		"INSERT INTO t (a); DROP TABLE t":        errMultiStatements,
		"INSERT INTO t SELECT 1; DROP TABLE t":   errMultiStatements,
		"SELECT 1 INTO OUTFILE 'x'":              errFiles,
		"SELECT 1 into /**/ outfile 'x'":         errFiles,
		"INSERT INTO t FROM INFILE 'x' FORMAT X": errFiles,
	} {
		if _, err := splitStatement(text); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
}

// An insert's text is cut, never changed; nothing that could be a second statement passes as part of a first.
func FuzzSplitStatement(f *testing.F) {
	for _, text := range []string{"SELECT 1; SELECT 2", "INSERT INTO t FORMAT CSV\n1", "INSERT INTO t VALUES (1)", "SELECT '\\'", "SELECT $a$", "/*", "--", "INSERT INTO t SELECT ';'"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		split, err := splitStatement(text)
		if err != nil {
			return
		}
		if !strings.HasPrefix(text, split.sql) || !strings.HasSuffix(text, split.data) || len(split.sql)+len(split.data) > len(text) {
			t.Errorf("%q was split into %+v", text, split)
		}
		if again, err := splitStatement(split.sql); err == nil && again.sql != split.sql {
			t.Errorf("%q is split again into %+v", split.sql, again)
		}
	})
}
