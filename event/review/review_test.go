package review_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"auditor/event"
	"auditor/event/review"
)

// half and hour are the time-outs of the tests.
var half, hour = review.Timeout{Name: "half an hour", After: 30 * time.Minute}, review.Timeout{Name: "an hour", After: time.Hour}

func against(t review.Timeout, over, again int) review.Against {
	return review.Against{Timeout: t, Over: over, Again: again}
}

func gaps(count int, of ...[3]float64) (all []review.Gap) {
	for i, g := range of {
		all = append(all, review.Gap{Attempt: i + 1, Count: count, Low: g[0], Median: g[1], High: g[2]})
	}
	return all
}

var verdicts = []struct {
	question review.Question
	name     string
	measure  review.Measure
	want     review.Verdict
	says     string // part of the sentence
}{
	{review.BusinessKey, "all", review.Measure{IDs: 10, KeyedIDs: 10}, review.Good, "100 % of 10 task ids carry"},
	{review.BusinessKey, "nearly all", review.Measure{IDs: 1000, KeyedIDs: 995}, review.Good, "99.5 %"},
	{review.BusinessKey, "most", review.Measure{IDs: 1000, KeyedIDs: 980}, review.Bad, "Only 98 % of 1,000"},
	{review.BusinessKey, "none", review.Measure{IDs: 10}, review.Bad, "None of 10 task ids carries"},
	{review.BusinessKey, "few ids", review.Measure{IDs: 9, KeyedIDs: 9}, review.NotSeen, "Only 9 task ids were seen, 9 with"},
	{review.BusinessKey, "nothing", review.Measure{}, review.NotSeen, "No task id was seen"},

	{review.StableKeys, "kept", review.Measure{TriedAgain: 5}, review.Good, "5 task ids were tried or delivered again"},
	{review.StableKeys, "idempotency kept", review.Measure{EffectAgain: 5}, review.Good, "5 ids did an effect again"},
	{review.StableKeys, "business key changed", review.Measure{TriedAgain: 3, DriftedIDs: 1}, review.Bad, "1 of 3 task ids came back under another"},
	{review.StableKeys, "idempotency key changed", review.Measure{TriedAgain: 30, EffectAgain: 1, DriftedKeys: 1}, review.Bad, "several idempotency keys"},
	{review.StableKeys, "both changed", review.Measure{TriedAgain: 3, DriftedIDs: 1, EffectAgain: 2, DriftedKeys: 2}, review.Bad, "and 2 of 2 task ids"},
	{review.StableKeys, "few", review.Measure{TriedAgain: 4}, review.NotSeen, "Only 4 task ids"},

	{review.CopiesSkipped, "all", review.Measure{Effects: 9, Skips: 2, DroppedEffects: 1}, review.Good, "All 3 copies were skipped or dropped"},
	{review.CopiesSkipped, "some", review.Measure{Effects: 9, Skips: 2, ExtraEffects: 1}, review.Bad, "1 of 3 copies did the work again; 2 others were"},
	{review.CopiesSkipped, "success stands for an effect", review.Measure{ExtraSuccesses: 2}, review.Bad, "All 2 copies did the work again"},
	{review.CopiesSkipped, "the only one", review.Measure{ExtraSuccesses: 1}, review.Bad, "The one copy that was seen did"},
	{review.CopiesSkipped, "success does not count beside effects", review.Measure{Effects: 5, ExtraSuccesses: 2}, review.NotSeen, "No copy was seen"},
	{review.CopiesSkipped, "one idempotency key", review.Measure{Effects: 9, Skips: 5, ExtraEffects: 2, GuardedEffects: 2}, review.NotSeen, "2 of 7 copies did the effect again under the same"},
	{review.CopiesSkipped, "few", review.Measure{Skips: 2}, review.NotSeen, "Only 2 copies were seen"},

	{review.BackOff, "jitter and growth", review.Measure{Gaps: gaps(10, [3]float64{8, 10, 12}, [3]float64{16, 20, 24}, [3]float64{32, 40, 48})}, review.Good, "10 s, 20 s, 40 s: they back off, spread by 40 %"},
	{review.BackOff, "growth up to a limit", review.Measure{Gaps: gaps(10, [3]float64{8, 10, 12}, [3]float64{16, 20, 24}, [3]float64{16, 20, 24}, [3]float64{16, 20, 24})}, review.Good, "back off"},
	{review.BackOff, "fixed", review.Measure{Gaps: gaps(30, [3]float64{180, 180, 180.1}, [3]float64{180, 180, 180}), Together: 300}, review.Bad, "3 m, 3 m: fixed, without jitter, so that what fails together comes back together; up to 300 attempts"},
	{review.BackOff, "fixed, save for some", review.Measure{Gaps: gaps(60, [3]float64{20, 180, 180}, [3]float64{180, 180, 180}, [3]float64{180, 180, 180})}, review.Bad, "fixed"},
	{review.BackOff, "growth without jitter", review.Measure{Gaps: gaps(10, [3]float64{10, 10, 10}, [3]float64{20, 20, 20}, [3]float64{40, 40, 40})}, review.Bad, "without jitter"},
	{review.BackOff, "jitter without growth", review.Measure{Gaps: gaps(10, [3]float64{8, 10, 12}, [3]float64{8, 10, 12}, [3]float64{8, 10, 12})}, review.Bad, "do not back off"},
	{review.BackOff, "jitter, few attempts", review.Measure{Gaps: gaps(20, [3]float64{8, 10, 12})}, review.Good, "cannot be told"},
	{review.BackOff, "at once", review.Measure{Gaps: gaps(20, [3]float64{0.01, 0.1, 0.2})}, review.Bad, "at once"},
	{review.BackOff, "few", review.Measure{Gaps: gaps(9, [3]float64{8, 10, 12}, [3]float64{16, 20, 24})}, review.NotSeen, "Only 18 attempts after a retry were seen"},
	{review.BackOff, "many attempts of few", review.Measure{Gaps: gaps(4, make([][3]float64, 10)...)}, review.NotSeen, "40 attempts"},
	{review.BackOff, "none", review.Measure{}, review.NotSeen, "No attempt after a retry was seen"},

	{review.Bounded, "told", review.Measure{BoundedIDs: 1, MaxRetries: 5, Highest: 3}, review.Good, "max_retries is 5; the highest retry seen is number 3, and no task id gave up"},
	{review.Bounded, "beyond", review.Measure{BoundedIDs: 9, MaxRetries: 5, Highest: 8, BeyondBound: 2}, review.Bad, "2 task ids were retried more often"},
	{review.Bounded, "gave up", review.Measure{MaxRetries: event.Unknown, RetriedIDs: 9, Highest: 4, Exhausted: 3, GaveUpAt: 4}, review.Good, "3 task ids gave up, after 4 retries at most"},
	{review.Bounded, "without end", review.Measure{MaxRetries: event.Unknown, RetriedIDs: 1, Highest: 300}, review.Bad, "one task id was retried 300 times, and none ever gave up"},
	{review.Bounded, "few gave up", review.Measure{MaxRetries: event.Unknown, RetriedIDs: 9, Highest: 4, Exhausted: 2}, review.NotSeen, "2 task ids gave up"},
	{review.Bounded, "no retry", review.Measure{MaxRetries: event.Unknown}, review.NotSeen, "no retry was seen"},

	{review.PermanentErrors, "healed", review.Measure{RetriedIDs: 10, Errors: []review.Error{{Type: "Timeout", IDs: 10, Healed: 9, GaveUp: 1}}}, review.Good, "Timeout 90 % of the time (9 of 10)"},
	{review.PermanentErrors, "declared", review.Measure{RetriedIDs: 10, Errors: []review.Error{{Type: "Timeout", IDs: 9, Healed: 9}, {Type: "CardDeclined", IDs: 1, Permanent: 1}}}, review.Bad, "1 task id was retried on CardDeclined, which"},
	{review.PermanentErrors, "never healed", review.Measure{RetriedIDs: 5, Errors: []review.Error{{Type: "ValueError", IDs: 5, GaveUp: 5}}}, review.Bad, "No retry ever healed ValueError: 5 task ids were retried on it, and 5 gave up"},
	{review.PermanentErrors, "not healed yet", review.Measure{RetriedIDs: 12, Errors: []review.Error{{Type: "ValueError", IDs: 12, GaveUp: 4}}}, review.NotSeen, "of no type of error enough"},
	{review.PermanentErrors, "few", review.Measure{RetriedIDs: 9, Errors: []review.Error{{Type: "Timeout", IDs: 9, Healed: 9}}}, review.NotSeen, "Only 9 task ids were retried"},

	{review.Timeouts, "short", review.Measure{Took: review.Lengths{Count: 20, P99: 4, Max: 5}, Timeouts: []review.Against{against(half, 0, 0), against(hour, 0, 0)}}, review.Good, "took 5 s (p99 4 s): 0.3 % of half an hour"},
	{review.Timeouts, "near", review.Measure{Took: review.Lengths{Count: 20, Max: 1500}, Timeouts: []review.Against{against(half, 0, 0)}}, review.Bad, "25 m (p99 0 ms): 83 % of half an hour"},
	{review.Timeouts, "over", review.Measure{Took: review.Lengths{Count: 20, Max: 2000}, Timeouts: []review.Against{against(half, 3, 1)}}, review.Bad, "3 task ids were longer than half an hour allows, and 1 of them was delivered again"},
	{review.Timeouts, "over and delivered again, of few", review.Measure{Took: review.Lengths{Count: 2, Max: 2000}, Timeouts: []review.Against{against(half, 1, 1)}}, review.Bad, "1 task id was longer"},
	{review.Timeouts, "over, of few", review.Measure{Took: review.Lengths{Count: 2, Max: 2000}, Timeouts: []review.Against{against(half, 1, 0)}}, review.NotSeen, "Only 2 runs"},
	{review.Timeouts, "held", review.Measure{Took: review.Lengths{Count: 20, Max: 5}, Held: review.Lengths{Count: 20, Max: 3500}, Timeouts: []review.Against{against(hour, 0, 0)}}, review.Bad, "held for 58 m 20 s"},
	{review.Timeouts, "one that does not hold", review.Measure{Took: review.Lengths{Count: 20, Max: 2000}, Timeouts: []review.Against{against(half, 3, 0), against(hour, 0, 0)}}, review.Good, "56 % of an hour"},
	{review.Timeouts, "none known", review.Measure{Took: review.Lengths{Count: 20, Max: 2000}}, review.NotSeen, "no time-out is known"},
	{review.Timeouts, "few", review.Measure{Took: review.Lengths{Count: 19, Max: 1}, Timeouts: []review.Against{against(half, 0, 0)}}, review.NotSeen, "Only 19 runs were seen"},

	{review.EffectsLast, "last", review.Measure{Effects: 20, Failures: 20}, review.Good, "None of 20"},
	{review.EffectsLast, "first", review.Measure{Effects: 1, Failures: 9, FailuresAfter: 1}, review.Bad, "1 of 9 failed or retried runs came to it after an effect"},
	{review.EffectsLast, "no effects", review.Measure{Failures: 90}, review.NotSeen, "tells of no effects"},
	{review.EffectsLast, "few failures", review.Measure{Effects: 90, Failures: 19}, review.NotSeen, "Only 90 effects and 19 failed"},

	{review.Acknowledgement, "late with keys", review.Measure{LateIDs: 10, Effects: 9, KeyedEffects: 9}, review.Good, "late, and all 9 effects carry"},
	{review.Acknowledgement, "late without", review.Measure{LateIDs: 10, Effects: 9, KeyedEffects: 5}, review.Bad, "4 of 9 effects carry no idempotency key"},
	{review.Acknowledgement, "late, no effects", review.Measure{LateIDs: 10}, review.NotSeen, "no effects that could happen twice"},
	{review.Acknowledgement, "early", review.Measure{EarlyIDs: 10}, review.Good, "early, and nothing was lost"},
	{review.Acknowledgement, "early and lost", review.Measure{EarlyIDs: 10, LostIDs: 2}, review.Bad, "2 task ids were lost"},
	{review.Acknowledgement, "not told", review.Measure{IDs: 90}, review.NotSeen, "not told"},
	{review.Acknowledgement, "told of few", review.Measure{IDs: 90, LateIDs: 9}, review.NotSeen, "told of 9 task ids only"},

	{review.Repeats, "once", review.Measure{IDs: 100, Effects: 90}, review.Good, "No run of 100 task ids was repeated"},
	{review.Repeats, "runs only", review.Measure{IDs: 100, Effects: 90, Redeliveries: 2, RepeatedIDs: 1}, review.Good, "3 runs were repeated, without an effect beyond the first"},
	{review.Repeats, "effects", review.Measure{IDs: 3, Effects: 9, Redeliveries: 2, ExtraEffects: 1}, review.Bad, "2 runs were repeated, with 1 effect beyond the first"},
	{review.Repeats, "successes", review.Measure{IDs: 3, Redeliveries: 2, ExtraSuccesses: 2}, review.Bad, "with 2 successes beyond the first"},
	{review.Repeats, "one idempotency key", review.Measure{IDs: 300, Effects: 9, Redeliveries: 1, ExtraEffects: 1, GuardedEffects: 1}, review.NotSeen, "under one idempotency key"},
	{review.Repeats, "few", review.Measure{IDs: 99, Effects: 90}, review.NotSeen, "Only 99 task ids were seen. No run"},
}

func TestVerdicts(t *testing.T) {
	asked := map[review.Question]map[review.Verdict]bool{}
	for _, c := range verdicts {
		t.Run(string(c.question)+"/"+c.name, func(t *testing.T) {
			r := review.Of(c.measure)
			i := slices.IndexFunc(r.Answers, func(a review.Answer) bool { return a.Question == c.question })
			a := r.Answers[i]
			if a.Verdict != c.want || !strings.Contains(a.Says, c.says) {
				t.Errorf("%s: %s; want %s: ...%s...", a.Verdict, a.Says, c.want, c.says)
			}
			if !strings.HasSuffix(a.Says, ".") || len(a.Numbers) < 2 || a.Asks == "" {
				t.Errorf("the answer is not whole: %+v", a)
			}
		})
		if asked[c.question] == nil {
			asked[c.question] = map[review.Verdict]bool{}
		}
		asked[c.question][c.want] = true
	}
	for _, a := range review.Of(review.Measure{}).Answers {
		if len(asked[a.Question]) != len(review.Verdicts) {
			t.Errorf("%s is not tried with every verdict", a.Question)
		}
	}
}

// Nothing was measured: nothing is said, and nothing breaks.
func TestNothingMeasured(t *testing.T) {
	r := review.Of(review.Measure{})
	if n := r.Count(review.NotSeen); n != len(r.Answers) {
		t.Errorf("%d of %d answers say that not enough was seen", n, len(r.Answers))
	}
}

func TestJSON(t *testing.T) {
	r := review.Of(review.Measure{Task: "a", IDs: 20, KeyedIDs: 20, Sample: review.Sample{OneIn: 16, Events: 80}, Timeouts: []review.Against{against(hour, 2, 0)}})
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"task":"a","namespace":"","sample":{"one_in":16,"events":80},"verdicts":{"bad":0,"good":1,"not_seen":9}`,
		`{"question":"business_key","asks":"Does it carry a business key?","verdict":"good","says":"100 % of 20 task ids carry a business key.","numbers":{"task_ids":20,"with_key":20}}`,
		`"timeouts":[{"name":"an hour","after_seconds":3600,"ids_over":2,"ids_over_delivered_again":0}],"errors":[],"retry_gaps":[],"retry_gap_histogram":[]`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s\nlacks %s", text, want)
		}
	}
}

func TestOrder(t *testing.T) {
	bad := review.Measure{Task: "bad", IDs: 10}
	all := []review.Review{review.Of(review.Measure{Task: "few", IDs: 10, KeyedIDs: 10}), review.Of(review.Measure{Task: "many", IDs: 20, KeyedIDs: 20}), review.Of(bad)}
	slices.SortFunc(all, review.Compare)
	if all[0].Task != "bad" || all[1].Task != "many" || all[2].Task != "few" {
		t.Errorf("order is %s, %s, %s", all[0].Task, all[1].Task, all[2].Task)
	}
}

func TestLength(t *testing.T) {
	for seconds, want := range map[float64]string{0: "0 ms", 0.65: "650 ms", 9.34: "9.3 s", 60: "1 m", 3601: "1 h 1 s", 200000: "2 d 7 h 33 m 20 s"} {
		if got := review.Length(seconds); got != want {
			t.Errorf("%v s is %q, want %q", seconds, got, want)
		}
	}
}
