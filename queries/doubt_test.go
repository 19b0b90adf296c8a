package queries

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"auditor/embedded/clickhouse"
	"auditor/embedded/clickhouse/chtest"
	"auditor/event"
)

// mortal is a store on an engine of its own, which can be stopped and started on the same data.
type mortal struct {
	*Store
	config clickhouse.Config
	engine *clickhouse.Engine
}

func newMortal(t *testing.T) *mortal {
	t.Helper()
	m := &mortal{config: clickhouse.Config{Data: t.TempDir(), Library: chtest.Library(t)}}
	m.start(t)
	t.Cleanup(func() { m.stop(t) })
	if _, err := m.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}

// start starts the engine, with a store that remembers nothing.
func (m *mortal) start(t *testing.T) {
	t.Helper()
	engine, err := clickhouse.Start(t.Context(), m.config)
	if err != nil {
		t.Fatal(err)
	}
	m.engine = engine
	config := DefaultConfig()
	config.RetentionDays = 0
	m.Store, err = Open(config, Options{
		DialContext: func(ctx context.Context, _ string) (net.Conn, error) { return engine.Dial(ctx) },
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (m *mortal) stop(t *testing.T) {
	t.Helper()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := m.engine.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

// ClickHouse notes a block's token before the block's rows are in place. Killed in between, it has the token and not the
// rows. The moment is too short to be hit at will, so this makes the state that it leaves: the rows are gone from the disk
// while the engine is down, and the token stays. The batch that comes again must bring them back.
func TestTokenWithoutItsRows(t *testing.T) {
	s, b := newMortal(t), mixedBatch(200)
	if err := s.InsertBatch(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	rows, said := counts(t, s.Store, true), contents(t, s.Store)
	for _, table := range append([]string{"ledger_ends"}, everyTable...) {
		t.Run(table, func(t *testing.T) {
			var path string
			if err := s.conn.QueryRow(t.Context(), "SELECT data_paths[1] FROM system.tables WHERE database = currentDatabase() AND name = '"+table+"'").Scan(&path); err != nil {
				t.Fatal(err)
			}
			s.stop(t)
			parts, err := filepath.Glob(filepath.Join(path, "*_*_*_*")) // with those that were merged and wait to be removed
			if err != nil || len(parts) == 0 {
				t.Fatalf("no parts in %s, %v", path, err)
			}
			for _, part := range parts {
				if err := os.RemoveAll(part); err != nil {
					t.Fatal(err)
				}
			}
			s.start(t)
			if n := number(t, s.Store, "SELECT count() FROM "+table); n != 0 {
				t.Fatalf("%d rows are left, and this test proves nothing", n)
			}
			if err := s.InsertBatch(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(rows, counts(t, s.Store, true)); diff != "" {
				t.Errorf("rows, merged, before (-) and after (+):\n%s", diff)
			}
			if diff := gocmp.Diff(said, contents(t, s.Store)); diff != "" {
				t.Errorf("contents changed:\n%s", diff)
			}
			if n := number(t, s.Store, "SELECT max(last) FROM ledger_ends"); int64(n) != b.Last {
				t.Errorf("the ledger ends at %d, want %d", n, b.Last)
			}
		})
	}
}

// ClickHouse takes a row of the ledger a moment before what is derived from it. Killed in between, together with the
// process that sent the row, nobody sends that row again: whoever goes on in the partition has to tell the rules.
func TestLedgerEndThatWasNotTold(t *testing.T) {
	s, b := newStore(t), mixedBatch(10)
	if err := s.InsertBatch(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := s.conn.Exec(t.Context(), "TRUNCATE TABLE ledger_ends"); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.Newest(t.Context(), b.Topic, b.Partition); !ok || err != nil {
		t.Fatal(ok, err)
	}
	confirmed, err := s.Confirmed(t.Context())
	if err != nil || confirmed[event.PartitionID{Topic: b.Topic, Partition: b.Partition}] != b.Last+1 {
		t.Errorf("confirmed %v, %v", confirmed, err)
	}
}

func TestDoubts(t *testing.T) {
	var d doubts
	batch := func(partition int32, first, last int64) *event.Batch {
		return &event.Batch{Topic: "t", Partition: partition, First: first, Last: last}
	}
	insert := func(b *event.Batch) bool {
		doubtful := d.about(b)
		d.stored(b)
		return doubtful
	}
	unconfirmed := batch(0, 30, 39)
	unconfirmed.Unconfirmed = true
	for _, c := range []struct {
		name string
		b    *event.Batch
		want bool
	}{
		{"the first", batch(0, 0, 9), true},
		{"the next", batch(0, 10, 19), false},
		{"the same again", batch(0, 10, 19), true},
		{"the next again", batch(0, 20, 29), false},
		{"another partition", batch(1, 30, 39), true},
		{"part of a range", unconfirmed, true},
		{"a hole", batch(0, 50, 59), true},
	} {
		if got := insert(c.b); got != c.want {
			t.Errorf("%s: doubtful %t, want %t", c.name, got, c.want)
		}
	}
	if d.raise("t", 0); !d.about(batch(0, 60, 69)) {
		t.Error("a batch must be in doubt once it was asked what the store has")
	}
	d.stored(batch(0, 50, 59))
	if d.about(batch(0, 60, 69)) || !d.about(batch(0, 60, 69)) {
		t.Error("a batch that was not stored must be in doubt when it comes again")
	}
}
