package queries

import (
	"math"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

const goodStatement = `-- name: store/x
-- What it answers,
-- in a sentence.
-- params: from DateTime64(6, 'UTC'), ids Array(String)
-- returns: one row,
--    and no more
-- cost: none
-- example: {"ids": ["a"], "from": "2026-01-01 00:00:00"}
SELECT 1 -- {not a param}
WHERE x IN {ids:Array(String)} AND y IN {ids:Array(String)} AND z > {from:DateTime64(6, 'UTC')};
`

func TestParseStatement(t *testing.T) {
	s, err := parseStatement("store/x", goodStatement)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"ids": "Array(String)", "from": "DateTime64(6, 'UTC')"}
	if diff := gocmp.Diff(want, s.params); diff != "" || !strings.HasPrefix(s.text, "SELECT 1") || strings.HasSuffix(s.text, ";") {
		t.Errorf("params %v, text %q", s.params, s.text)
	}
}

func TestParseStatementNamesWhatIsWrong(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"another name", "store/x", "store/y", `header says name "store/y"`},
		{"no sentence", "-- What it answers,\n-- in a sentence.\n", "", `header lacks ""`},
		{"no cost", "-- cost: none\n", "", `header lacks "cost"`},
		{"undeclared param", "ids Array(String)\n", "none\n", "header declares params"},
		{"unused param", "z > {from:DateTime64(6, 'UTC')}", "z", "header declares params"},
		{"two types", "{ids:Array(String)} AND y", "{ids:Array(UInt8)} AND y", "parameter ids is both"},
		{"example is no JSON", `"ids": [`, `"ids" [`, "example:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseStatement("store/x", strings.Replace(goodStatement, c.old, c.new, 1))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestParamsMustBeThoseOfTheStatement(t *testing.T) {
	s, err := parseStatement("store/x", goodStatement)
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]params{
		"missing": {"ids": []string{}},
		"unknown": {"ids": []string{}, "form": noon},
		"type":    {"ids": make(chan int), "from": noon},
		"nil":     {"ids": nil, "from": noon},
	} {
		if _, err := s.bind(p); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// What is sent as a parameter must arrive as it was, whatever is in it.
func TestParametersArriveUnchanged(t *testing.T) {
	s := emptyStore(t)
	echo := func(kind string) {
		st := &statement{name: "test/echo", text: "SELECT {v:" + kind + "} AS v", params: map[string]string{"v": kind}}
		s.statements = map[string]*statement{st.name: st}
	}
	type named string
	big := hostile[len(hostile)-2:]
	texts := hostile[:len(hostile)-2]
	for _, h := range texts {
		echo("String")
		for _, v := range []any{h, named(h), &h} {
			got, _, err := selectOne[string](t.Context(), s, "test/echo", params{"v": v})
			if err != nil || got != h {
				t.Errorf("%T %q: got %q, %v", v, h, got, err)
			}
		}
	}
	if got, _, err := selectOne[string](t.Context(), s, "test/echo", params{"v": big[0][:256<<10]}); err != nil || len(got) != 256<<10 {
		t.Errorf("256 KiB: got %d bytes, %v", len(got), err)
	}
	echo("Array(String)")
	for _, list := range [][]string{texts, {}, {""}} {
		got, _, err := selectOne[[]string](t.Context(), s, "test/echo", params{"v": list})
		if diff := gocmp.Diff(list, got); diff != "" || err != nil {
			t.Errorf("sent (-), got (+): %s %v", diff, err)
		}
	}
	echo("Map(String, String)")
	m := map[string]string{}
	for _, h := range texts {
		m[h] = h
	}
	gotMap, _, err := selectOne[map[string]string](t.Context(), s, "test/echo", params{"v": m})
	if diff := gocmp.Diff(m, gotMap); diff != "" || err != nil {
		t.Errorf("sent (-), got (+): %s %v", diff, err)
	}
}

func TestTypedParametersArriveUnchanged(t *testing.T) {
	s := emptyStore(t)
	try(t, s, "Int64", int64(math.MinInt64), int64(math.MinInt64))
	try(t, s, "UInt64", uint64(math.MaxUint64), uint64(math.MaxUint64))
	try(t, s, "Bool", true, true)
	try(t, s, "Float64", 1.0e-300, 1.0e-300)
	try(t, s, "Array(Int32)", []int{-1, 0, 1}, []int32{-1, 0, 1})
	try(t, s, "Array(Array(String))", [][]string{{"'"}, {}}, [][]string{{"'"}, {}})
	precise := time.Date(2026, 11, 2, 12, 0, 0, 123456789, time.FixedZone("", 3600))
	try(t, s, "DateTime64(6, 'UTC')", precise, precise.UTC().Truncate(time.Microsecond))
	try(t, s, "DateTime64(6, 'UTC')", time.Time{}, epoch)
	try(t, s, "DateTime64(6, 'UTC')", time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), latest)
	try(t, s, "DateTime64(6, 'UTC')", time.Date(1950, 1, 1, 0, 0, 0, 5000, time.UTC), time.Date(1950, 1, 1, 0, 0, 0, 5000, time.UTC))
	try(t, s, "Array(DateTime64(6, 'UTC'))", []time.Time{noon}, []time.Time{noon})
}

func try[T any](t *testing.T, s *Store, kind string, sent any, want T) {
	t.Helper()
	s.statements = map[string]*statement{"test/echo": {
		name: "test/echo", text: "SELECT {v:" + kind + "} AS v", params: map[string]string{"v": kind},
	}}
	got, ok, err := selectOne[T](t.Context(), s, "test/echo", params{"v": sent})
	if diff := gocmp.Diff(want, got); diff != "" || err != nil || !ok {
		t.Errorf("%s: want (-), got (+): %s %v", kind, diff, err)
	}
}

func TestChunks(t *testing.T) {
	for _, c := range []struct {
		name string
		list []string
		want []int
	}{
		{"none", nil, nil},
		{"one", []string{"a"}, []int{1}},
		{"many", make([]string, 2500), []int{1000, 1000, 500}},
		{"long", []string{strings.Repeat("a", 100<<10), "b", strings.Repeat("c", 60<<10), strings.Repeat("d", 60<<10)}, []int{1, 2, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := pluck(chunks(c.list), func(s *[]string) int { return len(*s) })
			if len(got) != len(c.want) || len(got) > 0 && !gocmp.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestPartsOfAStatementAreLeftOut(t *testing.T) {
	s, err := parseStatement("a/b", `-- name: a/b
-- Counts.
-- params: more Bool
-- returns: one number
-- cost: none
-- example: {"more": true}
SELECT 1
  -- if {more:Bool}
  + 1
  -- end if
  + 2
  -- if not {more:Bool}
  + 3
  -- end if
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		p    params
		want string
	}{
		{params{"more": false}, "SELECT 1\n  + 2\n  -- if not {more:Bool}\n  + 3\n  -- end if"},
		{params{"more": true}, "SELECT 1\n  -- if {more:Bool}\n  + 1\n  -- end if\n  + 2\n"},
	} {
		if got := s.textFor(c.p); got != c.want {
			t.Errorf("%v: %q, want %q", c.p, got, c.want)
		}
	}
}
