package queries

import (
	"cmp"
	"context"
	"math"
	"slices"

	"auditor/event/review"
)

// reviewLimits is what a review reads at most. One key in so many is then measured that this is kept.
type reviewLimits struct {
	events int // of the tasks that are asked for
	ids    int // their task ids
	looked int // those of them that are looked up in other tables
	read   int // rows, of other tasks too
	asked  int // ids whose business keys are asked for
	tasks  int // those with the most ids
}

var usualReview = reviewLimits{events: 250_000, ids: 60_000, looked: 8_000, read: 3_000_000, asked: 10_000, tasks: 1_000}

// Review measures how tasks behave, those with the most ids first. What it reads is bounded however much is stored: events lie
// in the order of their key's hash, so that a range of hashes is a fair sample of whole keys.
func (p *Pages) Review(ctx context.Context, q review.Query) ([]review.Measure, error) {
	return p.store.Review(ctx, q)
}

// Review is Pages.Review.
func (s *Store) Review(ctx context.Context, q review.Query) ([]review.Measure, error) {
	return s.reviewWithin(ctx, q, usualReview)
}

func (s *Store) reviewWithin(ctx context.Context, q review.Query, limits reviewLimits) ([]review.Measure, error) {
	r := &reviewing{store: s, query: q, limits: limits, chosen: params{"from": q.Since, "any_task": q.Task == nil, "task": "", "any_namespace": q.Namespace == nil, "namespace": ""}}
	if q.Task != nil {
		r.chosen["task"] = *q.Task
	}
	if q.Namespace != nil {
		r.chosen["namespace"] = *q.Namespace
	}
	if err := r.chooseShare(ctx); err != nil {
		return nil, err
	}
	measures, err := r.tasks(ctx)
	if err != nil || len(measures) == 0 {
		return nil, err
	}
	byTask := map[[2]string]*review.Measure{}
	for i := range measures {
		byTask[[2]string{measures[i].Namespace, measures[i].Task}] = &measures[i]
	}
	if err := r.effects(ctx, byTask); err != nil {
		return nil, err
	}
	return measures, r.keys(ctx, byTask)
}

// reviewing is one review under way.
type reviewing struct {
	store  *Store
	query  review.Query
	limits reviewLimits
	chosen params // what every statement takes
	share  share
	shift  int // keys with a hash below 2^(64-shift) are measured
}

// share is what a range of keys holds.
type share struct {
	read, events, ids float64
	looked            float64  // ids that have to be looked up
	mixed             []string // namespaces in which a task's events may lie apart, some under its business key and others under its id
}

// measureShare asks what the range of keys holds.
func (r *reviewing) measureShare(ctx context.Context) error {
	type row struct {
		Namespace string `ch:"namespace"`
		Read      uint64 `ch:"read"`
		Events    uint64 `ch:"events"`
		Keyed     uint64 `ch:"keyed"`
		Keyless   uint64 `ch:"keyless"`
		Named     uint64 `ch:"named"`
	}
	rows, err := selectAll[row](ctx, r.store, "review/share", r.params(nil))
	r.share = share{mixed: []string{}}
	for _, in := range rows {
		r.share.read += float64(in.Read)
		r.share.events += float64(in.Events)
		r.share.ids += float64(in.Keyed + in.Keyless)
		if in.Keyed > 0 && in.Keyless > 0 {
			r.share.mixed = append(r.share.mixed, in.Namespace)
			r.share.looked += float64(in.Keyed + in.Keyless)
		} else if in.Keyless > in.Named {
			r.share.looked += float64(in.Keyless - in.Named)
		}
	}
	return err
}

// room is how many times more could be read.
func (l reviewLimits) room(s share) float64 {
	return min(float64(l.events)/s.events, float64(l.ids)/s.ids, float64(l.looked)/s.looked, float64(l.read)/s.read)
}

func (r *reviewing) params(more params) params {
	all := params{"last": uint64(math.MaxUint64) >> r.shift}
	for _, some := range []params{r.chosen, more} {
		for name, value := range some {
			all[name] = value
		}
	}
	return all
}

// chooseShare finds the largest range of keys, by powers of two, that holds no more than may be read.
func (r *reviewing) chooseShare(ctx context.Context) error {
	const smallest, widest = 32, 16 // the shift at which it takes what there is; and how much wider it dares to look at once
	tooMuch := -1                   // the largest shift of which that is known
	for r.shift = 12; ; {
		if err := r.measureShare(ctx); err != nil {
			return err
		}
		room := r.limits.room(r.share)
		if room < 1 && r.shift < smallest {
			tooMuch = r.shift
			r.shift++
			continue
		}
		wider := max(r.shift-int(math.Log2(min(max(room, 1), widest))), tooMuch+1)
		if wider >= r.shift {
			return nil
		}
		r.shift = wider
	}
}

func (r *reviewing) tasks(ctx context.Context) ([]review.Measure, error) {
	type row struct {
		Namespace    string      `ch:"namespace"`
		Task         string      `ch:"name"`
		Events       int64       `ch:"events_told"`
		IDs          int64       `ch:"ids"`
		KeyedIDs     int64       `ch:"keyed_ids"`
		Runs         int64       `ch:"runs"`
		FirstRuns    int64       `ch:"first_runs"`
		Retries      int64       `ch:"retries"`
		RetriedIDs   int64       `ch:"retried_ids"`
		Redeliveries int64       `ch:"redeliveries"`
		BoundedIDs   int64       `ch:"bounded_ids"`
		MaxRetries   int64       `ch:"max_told"`
		BeyondBound  int64       `ch:"beyond_bound"`
		Highest      int64       `ch:"highest"`
		Exhausted    int64       `ch:"exhausted"`
		GaveUpAt     int64       `ch:"gave_up_at"`
		SucceededIDs int64       `ch:"succeeded_ids"`
		FailedIDs    int64       `ch:"failed_ids"`
		LostIDs      int64       `ch:"lost_ids"`
		LateIDs      int64       `ch:"late_ids"`
		EarlyIDs     int64       `ch:"early_ids"`
		Took         []float64   `ch:"took_lengths"`
		Held         []float64   `ch:"held_lengths"`
		Over         []int64     `ch:"over"`
		OverAgain    []int64     `ch:"over_again"`
		ErrorTypes   []string    `ch:"error_types"`
		ErrorCounts  [][]int64   `ch:"error_counts"`
		GapAttempts  []int64     `ch:"gap_attempts"`
		GapCounts    []int64     `ch:"gap_counts"`
		GapLengths   [][]float64 `ch:"gap_lengths"`
		Steps        []int64     `ch:"histogram_steps"`
		StepCounts   []int64     `ch:"histogram_counts"`
		Together     int64       `ch:"together"`
	}
	after := pluck(r.query.Timeouts, func(t *review.Timeout) float64 { return t.After.Seconds() })
	slices.Sort(after)
	after = slices.Compact(after)
	rows, err := selectAll[row](ctx, r.store, "review/tasks", r.params(params{"mixed": r.share.mixed, "lacking": r.share.looked > 0, "timeouts": after, "most_tasks": uint64(r.limits.tasks)}))
	if err != nil {
		return nil, err
	}
	sample := review.Sample{Since: r.query.Since, OneIn: int64(1) << r.shift}
	for _, t := range rows {
		sample.Events += int(t.Events)
	}
	return pluck(rows, func(t *row) review.Measure {
		m := review.Measure{Namespace: t.Namespace, Task: t.Task, Sample: sample, IDs: int(t.IDs), KeyedIDs: int(t.KeyedIDs), Runs: int(t.Runs),
			FirstRuns: int(t.FirstRuns), Retries: int(t.Retries), RetriedIDs: int(t.RetriedIDs), Redeliveries: int(t.Redeliveries),
			BoundedIDs: int(t.BoundedIDs), MaxRetries: int(t.MaxRetries), BeyondBound: int(t.BeyondBound), Highest: int(t.Highest),
			Exhausted: int(t.Exhausted), GaveUpAt: int(t.GaveUpAt), SucceededIDs: int(t.SucceededIDs), FailedIDs: int(t.FailedIDs),
			LostIDs: int(t.LostIDs), LateIDs: int(t.LateIDs), EarlyIDs: int(t.EarlyIDs), Took: lengths(t.Took), Held: lengths(t.Held),
			Together: int(t.Together)}
		m.Timeouts = against(r.query.For(t.Task).Timeouts, after, t.Over, t.OverAgain)
		for i, name := range t.ErrorTypes {
			n := t.ErrorCounts[i]
			m.Errors = append(m.Errors, review.Error{Type: name, IDs: int(n[0]), Healed: int(n[1]), GaveUp: int(n[2]), Permanent: int(n[3])})
		}
		for i, attempt := range t.GapAttempts {
			m.Gaps = append(m.Gaps, review.Gap{Attempt: int(attempt), Count: int(t.GapCounts[i]), Low: t.GapLengths[i][0], Median: t.GapLengths[i][1], High: t.GapLengths[i][2]})
		}
		for i, step := range t.Steps {
			m.Course = append(m.Course, review.Bucket{From: math.Exp2(float64(step) / 4), To: math.Exp2(float64(step+1) / 4), Count: int(t.StepCounts[i])})
		}
		return m
	}), nil
}

// against tells of the time-outs that hold for a task how many ids outlasted them, in order of length. What was counted
// is told by length.
func against(timeouts []review.Timeout, after []float64, over, again []int64) []review.Against {
	var all []review.Against
	for _, t := range timeouts {
		if i, ok := slices.BinarySearch(after, t.After.Seconds()); ok {
			all = append(all, review.Against{Timeout: t, Over: int(over[i]), Again: int(again[i])})
		}
	}
	slices.SortStableFunc(all, func(a, b review.Against) int { return cmp.Compare(a.After, b.After) })
	return all
}

// lengths reads a count, three quantiles and the longest. There are none of nothing.
func lengths(of []float64) review.Lengths {
	if of[0] == 0 {
		return review.Lengths{}
	}
	return review.Lengths{Count: int(of[0]), P50: of[1], P95: of[2], P99: of[3], Max: of[4]}
}

func (r *reviewing) effects(ctx context.Context, byTask map[[2]string]*review.Measure) error {
	type row struct {
		Namespace      string `ch:"namespace"`
		Task           string `ch:"name"`
		Effects        int64  `ch:"effects_told"`
		KeyedEffects   int64  `ch:"keyed_effects"`
		DroppedEffects int64  `ch:"dropped_effects"`
		Skips          int64  `ch:"skips"`
		EffectAgain    int64  `ch:"keyed_again_ids"`
		DriftedKeys    int64  `ch:"drifted_ids"`
		Failures       int64  `ch:"failed"`
		FailuresAfter  int64  `ch:"failed_after_effect"`
		RepeatedIDs    int64  `ch:"repeated_ids"`
		ExtraSuccesses int64  `ch:"extra_successes"`
		ExtraEffects   int64  `ch:"extra_effects"`
		GuardedEffects int64  `ch:"guarded_effects"`
	}
	usual := r.query.For("").LookBack.Seconds()
	tasks, lookBacks := []string{}, []float64{}
	for name := range byTask {
		if own := r.query.For(name[1]).LookBack.Seconds(); own != usual {
			tasks, lookBacks = append(tasks, name[1]), append(lookBacks, own)
		}
	}
	rows, err := selectAll[row](ctx, r.store, "review/effects", r.params(params{"mixed": r.share.mixed, "lacking": r.share.looked > 0,
		"tasks": tasks, "look_backs": lookBacks, "look_back": usual}))
	for _, t := range rows {
		if m := byTask[[2]string{t.Namespace, t.Task}]; m != nil {
			m.Effects, m.KeyedEffects, m.DroppedEffects, m.Skips = int(t.Effects), int(t.KeyedEffects), int(t.DroppedEffects), int(t.Skips)
			m.EffectAgain, m.DriftedKeys, m.Failures, m.FailuresAfter = int(t.EffectAgain), int(t.DriftedKeys), int(t.Failures), int(t.FailuresAfter)
			m.RepeatedIDs, m.ExtraSuccesses, m.ExtraEffects, m.GuardedEffects = int(t.RepeatedIDs), int(t.ExtraSuccesses), int(t.ExtraEffects), int(t.GuardedEffects)
		}
	}
	return err
}

func (r *reviewing) keys(ctx context.Context, byTask map[[2]string]*review.Measure) error {
	type row struct {
		Namespace string `ch:"namespace"`
		Task      string `ch:"name"`
		Asked     int64  `ch:"asked"`
		Drifted   int64  `ch:"drifted"`
	}
	rows, err := selectAll[row](ctx, r.store, "review/keys", r.params(params{"most": uint64(r.limits.asked)}))
	for _, t := range rows {
		if m := byTask[[2]string{t.Namespace, t.Task}]; m != nil {
			m.TriedAgain, m.DriftedIDs = int(t.Asked), int(t.Drifted)
		}
	}
	return err
}
