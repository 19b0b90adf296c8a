package queries

import (
	"context"
	"math"
	"time"

	"auditor/event/finding"
	"auditor/event/history"
)

// Drifted gives, of the task ids of some subjects, those that stand under several business keys within one task, with these
// keys in order.
func (s *Store) Drifted(ctx context.Context, tasks []history.TaskID) (map[history.TaskID][]string, error) {
	type row struct {
		Namespace   string `ch:"namespace"`
		TaskID      string `ch:"task_id"`
		BusinessKey string `ch:"business_key"`
	}
	drifted := map[history.TaskID][]string{}
	texts := pluck(tasks, func(t *history.TaskID) string { return t.Namespace + t.ID })
	for _, some := range chunks(texts) {
		part := tasks[:len(some)]
		tasks = tasks[len(some):]
		rows, err := selectAll[row](ctx, s, "rules/drifted", params{
			"namespaces": pluck(part, func(t *history.TaskID) string { return t.Namespace }),
			"task_ids":   pluck(part, func(t *history.TaskID) string { return t.ID })})
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			of := history.TaskID{Namespace: r.Namespace, ID: r.TaskID}
			drifted[of] = append(drifted[of], r.BusinessKey)
		}
	}
	return drifted, nil
}

// maxGapBlocks is how many stretches of an emitter's numbers with gaps are told: one that does not count its events one by one has
// nothing but gaps.
const maxGapBlocks = 1000

// Gaps gives what is missing of the numbers that the emitters have given to the events that reached Kafka from a time on, by
// emitter and number: of each emitter the newest, where there is very much.
func (s *Store) Gaps(ctx context.Context, namespace string, emitters []string, since time.Time) ([]history.Gap, error) {
	type row struct {
		Emitter     string    `ch:"emitter"`
		Low         int64     `ch:"low"`
		High        int64     `ch:"high"`
		Missing     []int64   `ch:"missing"`
		First       time.Time `ch:"first_heard"`
		Last        time.Time `ch:"last_heard"`
		Before      int64     `ch:"before"`
		BeforeHeard time.Time `ch:"before_heard"`
	}
	var gaps []history.Gap
	for _, some := range chunks(emitters) {
		rows, err := selectAll[row](ctx, s, "rules/numbers", params{"namespace": namespace, "emitters": some, "since": since, "most": uint64(maxGapBlocks)})
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			gap := history.Gap{Namespace: namespace, Emitter: r.Emitter}
			about := func(n int64) time.Time { // when an emitter gave a number, taken that it gives them evenly
				share := float64(n-r.Low) / float64(r.High-r.Low)
				return known(r.First).Add(time.Duration(share * float64(r.Last.Sub(r.First))))
			}
			if r.Before+1 < r.Low {
				between := gap
				between.First, between.Last, between.After, between.Before = r.Before+1, r.Low-1, known(r.BeforeHeard), known(r.First)
				gaps = append(gaps, between)
			}
			for k, n := range r.Missing {
				if k > 0 && r.Missing[k-1]+1 == n {
					gaps[len(gaps)-1].Last, gaps[len(gaps)-1].Before = n, about(n+1)
					continue
				}
				gap.First, gap.Last, gap.After, gap.Before = n, n, about(n-1), about(n+1)
				gaps = append(gaps, gap)
			}
		}
	}
	return gaps, nil
}

// Emitters gives who numbered events that reached Kafka from a time on, by namespace.
func (s *Store) Emitters(ctx context.Context, since time.Time) (map[string][]string, error) {
	type row struct {
		Namespace string `ch:"namespace"`
		Emitter   string `ch:"emitter"`
	}
	rows, err := selectAll[row](ctx, s, "rules/emitters", params{"since": since})
	if err != nil {
		return nil, err
	}
	emitters := map[string][]string{}
	for _, r := range rows {
		emitters[r.Namespace] = append(emitters[r.Namespace], r.Emitter)
	}
	return emitters, nil
}

// UsualEffects gives the effects that at least share of the successful ids of each task did, where at least runs of them were seen,
// of those that reached Kafka from since on. It reads all of a bounded share of the keys.
func (s *Store) UsualEffects(ctx context.Context, namespace string, tasks []string, since, until time.Time, runs int, share float64) (map[string][]string, error) {
	type row struct {
		Task   string `ch:"name"`
		Effect string `ch:"effect"`
		IDs    uint64 `ch:"ids"`
		Of     uint64 `ch:"of_ids"`
	}
	top, err := s.sample(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := selectAll[row](ctx, s, "rules/usual_effects", params{"namespace": namespace, "tasks": tasks, "top": top, "since": since, "until": until})
	if err != nil {
		return nil, err
	}
	usual := map[string][]string{}
	for _, r := range rows {
		if r.Of >= uint64(runs) && float64(r.IDs) >= share*float64(r.Of) {
			usual[r.Task] = append(usual[r.Task], r.Effect)
		}
	}
	return usual, nil
}

// minRunTimes is of how many runs a percentile of run times is told.
const minRunTimes = 100

// RunTimes gives the 99th percentile of the run times of each task, of the successful runs that reached Kafka from since on, where
// at least a hundred of them were seen. It reads all of a bounded share of the keys.
func (s *Store) RunTimes(ctx context.Context, since, until time.Time) (map[string]time.Duration, error) {
	type row struct {
		Task string  `ch:"name"`
		Runs uint64  `ch:"runs"`
		P99  float64 `ch:"p99"`
	}
	top, err := s.sample(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := selectAll[row](ctx, s, "rules/run_times", params{"top": top, "since": since, "until": until, "runs": uint64(minRunTimes)})
	if err != nil {
		return nil, err
	}
	p99 := map[string]time.Duration{}
	for _, r := range rows {
		p99[r.Task] = time.Duration(r.P99 * float64(time.Second))
	}
	return p99, nil
}

// sampleEvents is how many events a question about all of a task reads, about.
const sampleEvents = 2_000_000

// sample gives the greatest key_hash of a share of the keys that has about sampleEvents events: their hashes are spread evenly.
func (s *Store) sample(ctx context.Context) (top uint64, err error) {
	stored, _, err := selectOne[uint64](ctx, s, "rules/stored_events", nil)
	if err != nil || stored <= sampleEvents {
		return math.MaxUint64, err
	}
	return uint64(float64(math.MaxUint64) * (sampleEvents / float64(stored))), nil
}

// FreshRoots gives the first and the last moment of what findings come from that changed since a time; false when there are none.
func (s *Store) FreshRoots(ctx context.Context, since time.Time) (first, last time.Time, any bool, err error) {
	type row struct {
		First    time.Time `ch:"first"`
		Last     time.Time `ch:"last"`
		Findings uint64    `ch:"changed"`
	}
	r, _, err := selectOne[row](ctx, s, "rules/fresh_roots", params{"since": since})
	return known(r.First), known(r.Last), r.Findings > 0, err
}

// Rooted gives the findings that tell a root between two moments and that were written since the first of them, in order of id, at
// most 100,000 of them: without explanation and evidence, and of their own fields root and incident.
func (s *Store) Rooted(ctx context.Context, from, until time.Time) ([]finding.Finding, error) {
	return selectFindings(ctx, s, "rules/rooted", params{"from": from, "until": until})
}
