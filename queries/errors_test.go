package queries

import (
	"errors"
	"slices"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// The engine's own names say that no code was mistaken for another.
func TestCodesAreWhatTheirNamesSay(t *testing.T) {
	s := newStore(t)
	for _, codes := range []map[int32]string{contentCodes, sizeCodes} {
		for code, want := range codes {
			var name string
			if err := s.conn.QueryRow(t.Context(), "SELECT errorCodeToName($1)", code).Scan(&name); err != nil {
				t.Fatal(err)
			}
			if name != want {
				t.Errorf("code %d is %s, not %s", code, name, want)
			}
			if slices.Contains(permanentCodes, code) || contentCodes[code] != "" && sizeCodes[code] != "" {
				t.Errorf("%s is of two kinds", name)
			}
		}
	}
}

func TestKindsOfErrors(t *testing.T) {
	for _, test := range []struct {
		name                     string
		err                      error
		permanent, content, size bool
	}{
		{"no answer", errors.New("connection reset"), false, false, false},
		{"no such table", &clickhouse.Exception{Code: 60}, true, false, false},
		{"constraint", &clickhouse.Exception{Code: 469}, false, true, false},
		{"memory", &clickhouse.Exception{Code: 241}, false, false, true},
		{"too many parts", &clickhouse.Exception{Code: 252}, false, false, false},
	} {
		var e *Error
		if !errors.As(classify("insert", test.err), &e) {
			t.Fatal(test.name)
		}
		if e.Permanent() != test.permanent || e.OfContent() != test.content || e.OfSize() != test.size {
			t.Errorf("%s: permanent %t, of content %t, of size %t", test.name, e.Permanent(), e.OfContent(), e.OfSize())
		}
	}
}

// A constraint or a view that somebody added refuses a block for what is in it, and the store says so.
func TestRefusalForContent(t *testing.T) {
	refuse := func(t *testing.T, s *Store, stored uint64) {
		t.Helper()
		b := aBatch(anEvent(0), anEvent(1))
		b.Events[1].BusinessKey = "poison"
		var e *Error
		if err := s.InsertBatch(t.Context(), b); !errors.As(err, &e) || !e.OfContent() || e.Permanent() {
			t.Errorf("the answer is %v", err)
		}
		if n := number(t, s, "SELECT count() FROM events"); n != stored {
			t.Errorf("%d rows are stored, want %d", n, stored)
		}
		if newest, known, err := s.Newest(t.Context(), b.Topic, 0); known || err != nil {
			t.Errorf("the ledger has %+v, %v", newest, err)
		}
	}
	t.Run("constraint", func(t *testing.T) {
		s := newStore(t)
		exec(t, s, "ALTER TABLE events ADD CONSTRAINT no_poison CHECK business_key != 'poison'")
		refuse(t, s, 0)
	})
	t.Run("view", func(t *testing.T) {
		s := newStore(t)
		exec(t, s, "CREATE TABLE own (n UInt8) ENGINE = Memory")
		exec(t, s, "CREATE MATERIALIZED VIEW own_view TO own AS SELECT throwIf(business_key = 'poison') AS n FROM events")
		refuse(t, s, 2)
	})
}

func exec(t *testing.T, s *Store, sql string) {
	t.Helper()
	if err := s.conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
