package queries

import (
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"auditor/event"
	"auditor/event/history"
)

// pastStore holds, on partition 3, one event a day about one key, each of which reached Kafka an hour after it happened.
func pastStore(t *testing.T, events ...event.Event) *Store {
	t.Helper()
	s := newStore(t)
	insertPast(t, s, events...)
	return s
}

func insertPast(t *testing.T, s *Store, events ...event.Event) {
	t.Helper()
	b := event.Batch{Topic: "t", Partition: 3, Last: int64(len(events) - 1), Records: len(events)}
	for i, e := range events {
		e.Topic, e.Partition, e.Offset, e.KafkaTime = b.Topic, b.Partition, int64(i), e.Time.Add(time.Hour)
		b.Events = append(b.Events, e)
	}
	if err := s.InsertBatch(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func happened(id string, kind event.Type, at time.Time) event.Event {
	return event.Event{ID: id, Type: kind, Time: at, Task: "shop.settle", TaskID: "a", BusinessKey: "order:1",
		Retries: event.Unknown, MaxRetries: event.Unknown, RetryIn: event.Unknown, Active: event.Unknown, Seq: event.Unknown}
}

// A store as of a moment holds nothing that reached Kafka later.
func TestAsOf(t *testing.T) {
	const day = 24 * time.Hour
	s := pastStore(t, happened("1", event.Succeeded, noon), happened("2", event.Succeeded, noon.Add(day)), happened("3", event.Succeeded, noon.Add(2*day)))
	ask := func(s *Store) (events, successes int) {
		t.Helper()
		subject := history.Subject{BusinessKey: "order:1"}
		all, err := s.Histories(t.Context(), []history.Subject{subject}, history.Extent{Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		keys, err := s.StretchKeys(t.Context(), event.PartitionID{Topic: "t", Partition: 3}, 0, 10)
		if err != nil || len(keys) != 1 {
			t.Fatal(keys, err)
		}
		err = s.Told(t.Context(), history.Stretch{Keys: []uint64{keys[0].Hash}, Until: noon.Add(9 * day)}, func(told *history.Told) { successes = told.Successes })
		if err != nil {
			t.Fatal(err)
		}
		return len(all[subject]), successes
	}
	for _, c := range []struct {
		at                time.Time
		events, successes int
	}{{noon.Add(day), 1, 1}, {noon.Add(day + time.Hour), 2, 2}, {time.Time{}, 3, 3}} {
		if events, successes := ask(s.AsOf(c.at)); events != c.events || successes != c.successes {
			t.Errorf("as of %s: %d events, %d successes; want %d, %d", c.at, events, successes, c.events, c.successes)
		}
	}
	if events, _ := ask(s); events != 3 {
		t.Errorf("now: %d events", events)
	}
}

func TestArrivals(t *testing.T) {
	const day = 24 * time.Hour
	s := pastStore(t, happened("1", event.Succeeded, noon), happened("2", event.Succeeded, noon.Add(day)), happened("3", event.Succeeded, noon.Add(2*day)))
	id := event.PartitionID{Topic: "t", Partition: 3}
	for _, c := range []struct {
		from, to    time.Time
		first, next event.Cursor
	}{
		{noon.Add(time.Hour), noon.Add(day + time.Hour), event.Cursor{id: 0}, event.Cursor{id: 2}},
		{noon.Add(2 * time.Hour), noon.Add(9 * day), event.Cursor{id: 1}, event.Cursor{id: 3}},
		{noon, noon, event.Cursor{}, event.Cursor{}},
	} {
		first, next, err := s.Arrivals(t.Context(), c.from, c.to)
		if diff := gocmp.Diff([]event.Cursor{c.first, c.next}, []event.Cursor{first, next}); diff != "" || err != nil {
			t.Errorf("%s to %s: %v %s", c.from, c.to, err, diff)
		}
	}
}

func TestKeptSince(t *testing.T) {
	if changes, events, err := newStore(t).KeptSince(t.Context()); !changes.IsZero() || !events.IsZero() || err != nil {
		t.Errorf("an empty store: %s, %s, %v", changes, events, err)
	}
	s := pastStore(t, happened("1", event.Succeeded, noon), happened("2", event.Succeeded, noon.AddDate(0, 0, 7)))
	if err := s.execText(t.Context(), "ALTER TABLE changed_keys DELETE WHERE kafka_offset = 0 SETTINGS mutations_sync = 2"); err != nil {
		t.Fatal(err)
	}
	changes, events, err := s.KeptSince(t.Context())
	if !changes.Equal(noon.AddDate(0, 0, 7).Add(time.Hour)) || !events.Equal(noon.Add(time.Hour)) || err != nil {
		t.Errorf("%s, %s, %v", changes, events, err)
	}
}

// Of a task that is to begin later, by its eta or as a retry, it is known when it is to begin, and under which key.
func TestAwaited(t *testing.T) {
	const day = 24 * time.Hour
	sent, retried, keyless, soon := happened("1", event.Sent, noon), happened("2", event.Retried, noon), happened("3", event.Sent, noon), happened("4", event.Retried, noon)
	sent.TaskID, retried.TaskID, keyless.TaskID, soon.TaskID = "sent", "retried", "keyless", "soon"
	sent.ETA, retried.RetryIn, keyless.ETA, soon.RetryIn = noon.Add(2*day), int((2 * day).Seconds()), noon.Add(2*day), 60
	keyless.BusinessKey = ""
	key := happened("5", event.Received, noon)
	key.TaskID = "keyless"
	s := pastStore(t, sent, retried, keyless, soon, key)
	got, err := s.Awaited(t.Context(), noon.Add(day), noon.Add(3*day), noon.Add(day), 10)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{}
	for _, p := range got {
		keys[p.PendingTaskID] = p.BusinessKey + "/" + p.TaskID + "/" + p.KnownKey
	}
	want := map[string]string{"sent": "order:1//", "retried": "order:1//", "keyless": "/keyless/order:1"}
	if diff := gocmp.Diff(want, keys); diff != "" {
		t.Error(diff)
	}
	for name, times := range map[string][3]time.Time{
		"they begin earlier": {noon.Add(2*day + time.Millisecond), noon.Add(3 * day), noon.Add(day)}, "they begin later": {noon.Add(day), noon.Add(2*day - time.Millisecond), noon.Add(day)},
		"it was told later": {noon.Add(day), noon.Add(3 * day), noon.Add(time.Hour)},
	} {
		if got, err := s.Awaited(t.Context(), times[0], times[1], times[2], 10); len(got) > 0 || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
