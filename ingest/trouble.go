package ingest

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// seldom keeps a line of the log from coming more than once a minute.
type seldom struct {
	mu   sync.Mutex
	next time.Time
}

// due reports whether the line may come.
func (s *seldom) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Before(s.next) {
		return false
	}
	s.next = now.Add(time.Minute)
	return true
}

// troubles logs each kind of trouble with one side, Kafka or the store, once when it begins, and once more when all of it
// is over, however many partitions meet it and however often they try.
type troubles struct {
	log  *slog.Logger
	side string

	mu  sync.Mutex
	who map[string]map[any]bool // by kind: who is in it
}

func newTroubles(log *slog.Logger, side string) *troubles {
	return &troubles{log: log.With("side", side), side: side, who: make(map[string]map[any]bool)}
}

// begin says that who has met err.
func (t *troubles) begin(who any, err error) {
	kind := trouble(err)
	t.mu.Lock()
	defer t.mu.Unlock()
	for other, in := range t.who {
		if other != kind {
			t.leave(who, other, in)
		}
	}
	if t.who[kind] == nil {
		t.who[kind] = make(map[any]bool)
		t.log.Warn("ingest waits and retries", "error", err)
	}
	t.who[kind][who] = true
}

// end says that who is in no trouble, or is gone.
func (t *troubles) end(who any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := len(t.who)
	for kind, in := range t.who {
		t.leave(who, kind, in)
	}
	if before > 0 && len(t.who) == 0 {
		t.log.Info("ingest goes on")
	}
}

func (t *troubles) leave(who any, kind string, in map[any]bool) {
	delete(in, who)
	if len(in) == 0 {
		delete(t.who, kind)
	}
}

// String names the trouble that there is, empty when there is none.
func (t *troubles) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.who) == 0 {
		return ""
	}
	return t.side + ": " + strings.Join(slices.Sorted(maps.Keys(t.who)), "; ")
}
