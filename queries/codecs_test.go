package queries

import (
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"auditor/event"
)

// TestRandomIDsTakeLittleMoreThanTheirBytes: a UUID holds 16, and as text 36.
func TestRandomIDsTakeLittleMoreThanTheirBytes(t *testing.T) {
	s, random := newStore(t), rand.NewChaCha8([32]byte{7})
	uuid := func() string {
		var b [16]byte
		_, _ = random.Read(b[:])
		h := hex.EncodeToString(b[:])
		return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
	}
	if err := s.conn.Exec(t.Context(), "ALTER TABLE events MODIFY SETTING min_bytes_for_wide_part = 0"); err != nil {
		t.Fatal(err) // the size of a column is known where it has a file of its own
	}
	const rows = 10_000
	events := make([]event.Event, rows)
	for i := range events {
		events[i] = anEvent(int64(i))
		events[i].ID, events[i].TaskID, events[i].RequestID, events[i].RootID = uuid(), uuid(), uuid(), uuid()
	}
	if err := s.InsertBatch(t.Context(), aBatch(events...)); err != nil {
		t.Fatal(err)
	}
	for _, column := range []string{"event_id", "task_id", "request_id", "root_id"} {
		var bytes uint64
		row := s.conn.QueryRow(t.Context(), "SELECT sum(column_data_compressed_bytes) FROM system.parts_columns "+
			"WHERE database = currentDatabase() AND table = 'events' AND active AND column = ?", column)
		if err := row.Scan(&bytes); err != nil {
			t.Fatal(err)
		}
		if each := float64(bytes) / rows; each < 16 || each > 20 {
			t.Errorf("%s takes %.1f bytes", column, each)
		}
	}
}
