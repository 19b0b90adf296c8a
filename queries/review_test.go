package queries

import (
	"fmt"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"auditor/event"
	"auditor/event/review"
)

// told is events as workers tell them, in the order in which Kafka got them.
type told []event.Event

// add adds an event, so many seconds after noon.
func (s *told) add(at float64, kind event.Type, like event.Event, change ...func(*event.Event)) {
	e := like
	e.Type, e.Time, e.KafkaTime = kind, noon.Add(time.Duration(at*float64(time.Second))), noon
	e.ID = fmt.Sprintf("told-%d", len(*s))
	e.Position = event.Position{Topic: "task-events", Offset: int64(len(*s))}
	e.RetryIn, e.Active, e.Seq = event.Unknown, event.Unknown, event.Unknown
	for _, f := range change {
		f(&e)
	}
	*s = append(*s, e)
}

func (s told) store(t testing.TB, store *Store) {
	t.Helper()
	const most = 20_000
	for first := 0; first < len(s); first += most {
		last := min(first+most, len(s)) - 1
		b := event.Batch{Topic: "task-events", First: int64(first), Last: int64(last), Records: last - first + 1, Time: noon, Events: s[first : last+1]}
		if err := store.InsertBatch(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
}

func did(name, key string) func(*event.Event) {
	return func(e *event.Event) { e.Effect = &event.Effect{Name: name, IdempotencyKey: key} }
}

func on(name string, permanent bool) func(*event.Event) {
	return func(e *event.Event) { e.Error = &event.Error{Type: name, Permanent: permanent} }
}

// settled is four orders: one that is done at the second retry, one that gives up, one that is done twice, one whose copy stands aside.
func settled() (s told) {
	late := true
	of := func(id, key string, attempt int) event.Event {
		return event.Event{Task: "order.settle", TaskID: id, BusinessKey: key, Worker: fmt.Sprintf("w%d", attempt), Retries: attempt, MaxRetries: 2, AcksLate: &late}
	}
	for attempt, at := range []float64{0, 12, 34} { // each fails after 2 s; gaps of 10 and 20 s
		e := of("a", "order:1", attempt)
		s.add(at, event.Received, e)
		s.add(at+1, event.Started, e)
		if attempt < 2 {
			s.add(at+3, event.Retried, e, on("Timeout", false))
		} else {
			s.add(at+2, event.Effected, e, did("charge", "order:1"))
			s.add(at+4, event.Succeeded, e)
		}
	}
	for attempt, at := range []float64{0, 12, 34} { // the effect comes before the step that fails
		e := of("b", "order:2", attempt)
		s.add(at, event.Received, e)
		s.add(at+1, event.Started, e)
		s.add(at+2, event.Effected, e, did("charge", fmt.Sprint("order:2/", attempt)))
		if attempt < 2 {
			s.add(at+3, event.Retried, e, on("Bug", attempt == 1))
		} else {
			s.add(at+3, event.Failed, e, on("Bug", false))
		}
	}
	for i, worker := range []string{"w1", "w2"} { // delivered again while it ran for 2000 s
		e := of("c", "order:3", 0)
		e.Worker = worker
		s.add(float64(1900*i), event.Received, e)
		s.add(float64(1900*i), event.Started, e)
		s.add(float64(1900*i)+2000, event.Effected, e, did("charge", ""))
		s.add(float64(1900*i)+2000, event.Succeeded, e, func(e *event.Event) { e.Runtime = 2000 })
	}
	s.add(50, event.Received, of("d", "order:1", 0))
	s.add(51, event.Skipped, of("d", "order:1", 0), func(e *event.Event) { e.Skip = &event.Skip{Reason: "already_processed"} })
	for _, e := range s { // every event arrives twice
		e.Offset = int64(len(s))
		s = append(s, e)
	}
	return s
}

// settings look back for an hour, and know two time-outs.
var settings = settingsOf(time.Hour)

func settingsOf(lookBack time.Duration) review.Settings {
	timeouts := []review.Timeout{{Name: "hour", After: time.Hour}, {Name: "half", After: 30 * time.Minute}}
	return review.Settings{Timeouts: timeouts, Of: func(string) review.OfTask { return review.OfTask{LookBack: lookBack, Timeouts: timeouts} }}
}

var roughly = cmpopts.EquateApprox(0, 1e-3)

func measureOne(t *testing.T, s *Store, q review.Query) review.Measure {
	t.Helper()
	q.Settings = settings
	all, err := s.Review(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 1 {
		t.Fatalf("%d tasks were measured: %+v", len(all), all)
	}
	return all[0]
}

func TestReviewMeasures(t *testing.T) {
	s := newStore(t)
	settled().store(t, s)
	want := review.Measure{
		Task: "order.settle", Sample: review.Sample{OneIn: 1, Events: 32},
		IDs: 4, KeyedIDs: 4, TriedAgain: 3, EffectAgain: 1, DriftedKeys: 1,
		Runs: 9, FirstRuns: 4, Retries: 4, RetriedIDs: 2, Redeliveries: 1, BoundedIDs: 4, MaxRetries: 2, Highest: 2, Exhausted: 1, GaveUpAt: 2,
		SucceededIDs: 2, FailedIDs: 1, LateIDs: 4,
		Took:     review.Lengths{Count: 8, P50: 2, P95: 2000, P99: 2000, Max: 2000},
		Held:     review.Lengths{Count: 8, P50: 3, P95: 2000, P99: 2000, Max: 2000},
		Timeouts: []review.Against{{Timeout: settings.Timeouts[1], Over: 1, Again: 1}, {Timeout: settings.Timeouts[0]}},
		Errors:   []review.Error{{Type: "Timeout", IDs: 1, Healed: 1}, {Type: "Bug", IDs: 1, GaveUp: 1, Permanent: 1}},
		Gaps:     []review.Gap{{Attempt: 1, Count: 2, Low: 10, Median: 10, High: 10}, {Attempt: 2, Count: 2, Low: 20, Median: 20, High: 20}},
		Course:   []review.Bucket{{From: 9.514, To: 11.314, Count: 2}, {From: 19.027, To: 22.627, Count: 2}}, Together: 2,
		Effects: 6, KeyedEffects: 4, Skips: 1, ExtraEffects: 3, ExtraSuccesses: 1, Failures: 5, FailuresAfter: 3,
	}
	if diff := gocmp.Diff(want, measureOne(t, s, review.Query{}), roughly); diff != "" {
		t.Error(diff)
	}
}

// Celery tells a task's name and arguments, and so its key, on arrival only. What it tells later is stored under the task id.
func TestReviewFollowsTaskIDs(t *testing.T) {
	for _, key := range []string{"", "order:%d"} {
		t.Run(fmt.Sprintf("key %q", key), func(t *testing.T) {
			s := newStore(t)
			var events told
			for i := range 50 {
				named := event.Event{Task: "order.settle", TaskID: fmt.Sprint("id-", i), Worker: "w1", Retries: 0, MaxRetries: event.Unknown}
				if key != "" {
					named.BusinessKey = fmt.Sprintf(key, i)
				}
				bare := event.Event{TaskID: named.TaskID, Worker: "w1", Retries: event.Unknown, MaxRetries: event.Unknown}
				events.add(0, event.Received, named)
				events.add(1, event.Started, bare)
				events.add(4, event.Retried, bare, on("Timeout", false))
				named.Retries = 1
				events.add(4, event.Received, named)
				events.add(34, event.Started, bare)
				events.add(36, event.Succeeded, bare)
			}
			events.store(t, s)
			m := measureOne(t, s, review.Query{Task: new("order.settle"), Namespace: new("")})
			keyed := 0
			if key != "" {
				keyed = 50
			}
			want := review.Measure{Task: "order.settle", IDs: 50, KeyedIDs: keyed, TriedAgain: keyed, Runs: 100, FirstRuns: 50, Retries: 50, RetriedIDs: 50,
				MaxRetries: event.Unknown, Highest: 1, SucceededIDs: 50, Failures: 50,
				Took:   review.Lengths{Count: 100, P50: 2, P95: 3, P99: 3, Max: 3},
				Errors: []review.Error{{Type: "Timeout", IDs: 50, Healed: 50}},
				Gaps:   []review.Gap{{Attempt: 1, Count: 50, Low: 30, Median: 30, High: 30}}, Together: 50}
			unasked := cmpopts.IgnoreFields(review.Measure{}, "Sample", "Held", "Timeouts", "Course")
			if diff := gocmp.Diff(want, m, roughly, unasked); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What lies further apart than the task's own look-back is done anew, and not again.
func TestReviewLooksBackAsConfigured(t *testing.T) {
	s := newStore(t)
	settled().store(t, s)
	all, err := s.Review(t.Context(), review.Query{Settings: settingsOf(time.Second)})
	if err != nil || len(all) != 1 || all[0].ExtraEffects != 0 || all[0].ExtraSuccesses != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestReviewOfWhatIsNotThere(t *testing.T) {
	s := newStore(t)
	settled().store(t, s)
	for name, q := range map[string]review.Query{
		"task": {Task: new("order.settle'")}, "namespace": {Namespace: new("elsewhere")}, "too late": {Since: noon.Add(time.Hour)},
	} {
		if all, err := s.Review(t.Context(), q); len(all) > 0 || err != nil {
			t.Errorf("%s: %d tasks, %v", name, len(all), err)
		}
	}
}

// What is too much is measured on a share of the keys, each of them whole.
func TestReviewMeasuresAShareOfTheKeys(t *testing.T) {
	s := newStore(t)
	var events told
	const ids, each = 4000, 4
	for i := range ids {
		e := event.Event{Task: fmt.Sprint("task-", i%2), TaskID: fmt.Sprint("id-", i), BusinessKey: fmt.Sprint("key-", i), Worker: "w1", MaxRetries: event.Unknown}
		for step, kind := range []event.Type{event.Received, event.Started, event.Effected, event.Succeeded} {
			events.add(float64(step), kind, e, func(e *event.Event) {
				if kind == event.Effected {
					did("charge", "")(e)
				}
			})
		}
	}
	events.store(t, s)
	limits := usualReview
	for _, c := range []struct {
		name   string
		change func()
		most   int // events
	}{
		{"events", func() { limits.events = 1500 }, 1500},
		{"ids", func() { limits = usualReview; limits.ids = 300 }, 300 * each * 11 / 10}, // the count of ids is an estimate
		{"rows read", func() { limits = usualReview; limits.read = 2000 }, 2000},
	} {
		c.change()
		all, err := s.reviewWithin(t.Context(), review.Query{Settings: settings}, limits)
		if err != nil || len(all) != 2 {
			t.Fatalf("%s: %d tasks, %v", c.name, len(all), err)
		}
		sample, measured := all[0].Sample, all[0].IDs+all[1].IDs
		if sample.OneIn < 8 || sample.OneIn > 64 || sample.Events > c.most || measured*each != sample.Events || all[0].Effects != all[0].IDs || all[0].Took.Count != all[0].IDs {
			t.Errorf("%s: %+v, %d ids, %d effects, %d runs", c.name, sample, measured, all[0].Effects, all[0].Took.Count)
		}
	}
	// Of one task twice as large a share can be measured.
	limits = usualReview
	limits.events = 3000
	both, err := s.reviewWithin(t.Context(), review.Query{}, limits)
	if err != nil {
		t.Fatal(err)
	}
	one, err := s.reviewWithin(t.Context(), review.Query{Task: new("task-1")}, limits)
	if err != nil || one[0].Sample.OneIn*2 != both[0].Sample.OneIn {
		t.Errorf("both on 1 in %d, one on 1 in %d, %v", both[0].Sample.OneIn, one[0].Sample.OneIn, err)
	}
}
