package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"auditor/event"
)

// memoryStore keeps rows as ClickHouse does: a block is cut into one part for each week, each part is written at once or
// not at all, and a part whose token was seen in its table and week is dropped. It counts how often each row is there.
type memoryStore struct {
	mu      sync.Mutex
	events  map[event.Position]int
	rejects map[event.Position]int
	sent    map[event.Position]event.Reject
	times   map[event.Position]time.Time
	tokens  []string // the newest, as many as the window holds
	ledger  map[place]map[span]event.Batch
	late    []func() // writes that were given up by their sender and are applied later; mu is held when they run
	calls   int
	kept    time.Time // rows of before may have been deleted

	// A refusing store takes no block with an event of the key poison. If it is leaky then the block's events are written all
	// the same, as when a materialized view refuses, and if not, as when a constraint does, nothing is.
	refusing, leaky bool
}

const poison = "poison"

// refusal tells what the store has against a block.
func (s *memoryStore) refusal(b *event.Batch) error {
	if s.refusing && slices.ContainsFunc(b.Events, func(e event.Event) bool { return e.BusinessKey == poison }) {
		return contentError{errors.New("constraint no_poison is violated")}
	}
	return nil
}

type contentError struct{ error }

func (contentError) OfContent() bool { return true }

type sizeError struct{ error }

func (sizeError) OfSize() bool { return true }

// tokenWindow is how many tokens are remembered, of all partitions.
const tokenWindow = 500

func newMemoryStore() *memoryStore {
	return &memoryStore{
		events:  make(map[event.Position]int),
		rejects: make(map[event.Position]int),
		sent:    make(map[event.Position]event.Reject),
		times:   make(map[event.Position]time.Time),
		ledger:  make(map[place]map[span]event.Batch),
	}
}

func week(t time.Time) string {
	year, n := t.ISOWeek()
	return fmt.Sprintf("%d-%d", year, n)
}

// parts gives the writes that make up b, in order: parts of events, parts of rejects, the ledger.
func (s *memoryStore) parts(b event.Batch) []func() {
	token, suffix := b.Token(), ""
	refused := s.refusal(&b) != nil
	if refused && !s.leaky {
		return nil
	}
	if b.Supplement {
		suffix = ":supplement"
	}
	var writes []func()
	part := func(table map[event.Position]int, token string, weeks map[string][]event.Position) {
		for _, w := range slices.Sorted(maps.Keys(weeks)) {
			writes = append(writes, func() {
				if key := token + "@" + w; !slices.Contains(s.tokens, key) {
					s.tokens = append(s.tokens[max(len(s.tokens)-tokenWindow+1, 0):], key)
					for _, at := range weeks[w] {
						table[at]++
					}
				}
			})
		}
	}
	events, rejects := make(map[string][]event.Position), make(map[string][]event.Position)
	for _, e := range b.Events {
		events[week(e.KafkaTime)] = append(events[week(e.KafkaTime)], e.Position)
	}
	for _, r := range b.Rejects {
		s.sent[r.Position] = r
		rejects[week(r.KafkaTime)] = append(rejects[week(r.KafkaTime)], r.Position)
	}
	part(s.events, token+suffix, events)
	if refused {
		return writes
	}
	part(s.rejects, token+":rejects"+suffix, rejects)
	if !b.Unconfirmed {
		writes = append(writes, func() {
			at := place{b.Topic, b.Partition}
			if s.ledger[at] == nil {
				s.ledger[at] = make(map[span]event.Batch)
			}
			s.ledger[at][span{b.First, b.Last}] = b
		})
	}
	return writes
}

// InsertBatch writes all of b.
func (s *memoryStore) InsertBatch(_ context.Context, b event.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, write := range s.parts(b) {
		write()
	}
	return s.refusal(&b)
}

// Present tells what is stored of a range.
func (s *memoryStore) Present(_ context.Context, topic string, partition int32, first, last int64) (event.Stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, complete := s.ledger[place{topic, partition}][span{first, last}]
	in := func(table map[event.Position]int) (found []event.Position) {
		for at := range table {
			if at.Topic == topic && at.Partition == partition && first <= at.Offset && at.Offset <= last {
				found = append(found, at)
			}
		}
		return found
	}
	return event.Stored{Complete: complete, Events: in(s.events), Rejects: in(s.rejects)}, nil
}

// Newest gives the last row of the ledger.
func (s *memoryStore) Newest(_ context.Context, topic string, partition int32) (event.Covered, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var newest event.Covered
	found := false
	for _, b := range s.ledger[place{topic, partition}] {
		if !found || b.Last > newest.Last {
			newest = event.Covered{First: b.First, Last: b.Last, Records: b.Records, Lost: b.Lost, Time: b.Time}
			found = true
		}
	}
	return newest, found, nil
}

// covered gives a partition's ledger in order.
func (s *memoryStore) covered(at place) []event.Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := slices.Collect(maps.Values(s.ledger[at]))
	slices.SortFunc(rows, func(a, b event.Batch) int { return int(a.First - b.First) })
	return rows
}

// count gives how many distinct rows there are.
func (s *memoryStore) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.events) + len(s.rejects)
}

// hooked is a store whose calls a test may meddle with. A nil hook changes nothing.
type hooked struct {
	Store
	insert  func(ctx context.Context, b event.Batch) error
	present func(ctx context.Context) error
	newest  func(ctx context.Context) error
}

func (h *hooked) Footprint() (row, perByte int) {
	f := footprintOf(h.Store)
	return f.row, f.byte
}

func (h *hooked) InsertBatch(ctx context.Context, b event.Batch) error {
	if h.insert != nil {
		return h.insert(ctx, b)
	}
	return h.Store.InsertBatch(ctx, b)
}

func (h *hooked) Present(ctx context.Context, topic string, partition int32, first, last int64) (event.Stored, error) {
	if h.present != nil {
		if err := h.present(ctx); err != nil {
			return event.Stored{}, err
		}
	}
	return h.Store.Present(ctx, topic, partition, first, last)
}

func (h *hooked) Newest(ctx context.Context, topic string, partition int32) (event.Covered, bool, error) {
	if h.newest != nil {
		if err := h.newest(ctx); err != nil {
			return event.Covered{}, false, err
		}
	}
	return h.Store.Newest(ctx, topic, partition)
}

var errInjected = errors.New("injected failure")

// lastingError is an error that no retry can heal.
type lastingError struct{ error }

func (lastingError) Permanent() bool { return true }

// letters decodes each letter of a record's value to one row: an e to an event, a q to one that a store may refuse, anything
// else to a reject.
type letters struct{}

func (letters) Decode(r event.Record) (events []event.Event, rejects []event.Reject) {
	if len(r.Value) == 0 {
		return nil, []event.Reject{{Position: r.Position, KafkaTime: r.Time, Reason: event.ReasonEmpty}}
	}
	for i, c := range r.Value {
		at := r.Position
		at.Index = int32(i)
		switch c {
		case 'e':
			events = append(events, event.Event{Position: at, KafkaTime: r.Time})
		case 'q':
			events = append(events, event.Event{Position: at, KafkaTime: r.Time, BusinessKey: poison})
		default:
			rejects = append(rejects, event.Reject{Position: at, KafkaTime: r.Time, Reason: event.ReasonNotJSON, Raw: r.Value})
		}
	}
	return events, rejects
}

// reject gives what was sent as the reject of a position.
func (s *memoryStore) reject(at event.Position) event.Reject {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent[at]
}

// expireTokens forgets all deduplication tokens, as a store does after many more inserts.
func (s *memoryStore) expireTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = nil
}
