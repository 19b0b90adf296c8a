package queries

import (
	"context"
	"maps"
	"slices"
	"time"

	"auditor/event/history"
)

// OldestAttempt gives the first minute in which a retry, or an attempt after one, happened of those that reached Kafka from
// a time on; false when there are none.
func (s *Store) OldestAttempt(ctx context.Context, since time.Time) (time.Time, bool, error) {
	type row struct {
		Oldest   time.Time `ch:"oldest"`
		Attempts uint64    `ch:"attempts"`
	}
	r, _, err := selectOne[row](ctx, s, "rules/oldest_attempt", params{"since": since})
	return known(r.Oldest), r.Attempts > 0, err
}

// Waves gives every second's wave of the tasks of which at least ids came to their next retry within one second, by the clock of
// one host where the retries tell by how much others differ from it, up to skew. The retry before it counts from back on.
func (s *Store) Waves(ctx context.Context, of history.Population, back time.Time, ids int, skew time.Duration) ([]history.Wave, error) {
	type row struct {
		Namespace string    `ch:"namespace"`
		Task      string    `ch:"name"`
		Measure   string    `ch:"measure"`
		Second    time.Time `ch:"second"`
		IDs       uint64    `ch:"ids"`
		GapLow    float64   `ch:"gap_low"`
		Gap       float64   `ch:"gap"`
		GapHigh   float64   `ch:"gap_high"`
		Breadth   float64   `ch:"breadth"`
		First     time.Time `ch:"first_at"`
		Last      time.Time `ch:"last_at"`
		ErrorType string    `ch:"error_type"`
		TaskIDs   []string  `ch:"task_ids"`
	}
	var waves []history.Wave
	rows, err := selectOf[row](ctx, s, "rules/waves", of, params{"back": back, "ids": uint64(ids), "skew": skew.Seconds()})
	for _, r := range rows {
		waves = append(waves, history.Wave{Namespace: r.Namespace, Task: r.Task, Measure: r.Measure, Second: r.Second, IDs: int(r.IDs),
			GapLow: r.GapLow, Gap: r.Gap, GapHigh: r.GapHigh, Breadth: r.Breadth, First: r.First, Last: r.Last,
			ErrorType: r.ErrorType, TaskIDs: r.TaskIDs})
	}
	return waves, err
}

// Minutes gives what the tasks with at least retries retries did, minute by minute, in order of time.
func (s *Store) Minutes(ctx context.Context, of history.Population, retries int) ([]history.Minute, error) {
	retried, err := s.retries(ctx, of)
	if err != nil {
		return nil, err
	}
	all := map[history.Task]int{}
	for at, n := range retried {
		all[at.Task] += n
	}
	of.Tasks = []history.Task{}
	for task, n := range all {
		if n >= retries {
			of.Tasks = append(of.Tasks, task)
		}
	}
	type row struct {
		Namespace string    `ch:"namespace"`
		Task      string    `ch:"name"`
		Minute    time.Time `ch:"minute"`
		Started   uint64    `ch:"started"`
		Received  uint64    `ch:"received"`
		Ended     uint64    `ch:"ended"`
		Runs      uint64    `ch:"runs"`
	}
	rows, err := selectOf[row](ctx, s, "rules/runs_by_minute", of, nil)
	minutes := pluck(rows, func(r *row) history.Minute {
		return history.Minute{Namespace: r.Namespace, Task: r.Task, Minute: r.Minute, Runs: int(r.Runs),
			Retries: retried[taskMinute{history.Task{Namespace: r.Namespace, Name: r.Task}, r.Minute.Unix()}]}
	})
	slices.SortStableFunc(minutes, func(a, b history.Minute) int { return a.Minute.Compare(b.Minute) })
	return minutes, err
}

// taskMinute is a minute of a task, in seconds since the epoch.
type taskMinute struct {
	history.Task
	minute int64
}

// retries gives how often each task retried in each minute.
func (s *Store) retries(ctx context.Context, of history.Population) (map[taskMinute]int, error) {
	type row struct {
		Namespace string    `ch:"namespace"`
		Task      string    `ch:"name"`
		Minute    time.Time `ch:"minute"`
		Retries   uint64    `ch:"retries"`
	}
	rows, err := selectOf[row](ctx, s, "rules/retries", of, nil)
	retries := make(map[taskMinute]int, len(rows))
	for _, r := range rows {
		retries[taskMinute{history.Task{Namespace: r.Namespace, Name: r.Task}, r.Minute.Unix()}] = int(r.Retries)
	}
	return retries, err
}

// selectOf runs a statement about a population, for as many of its tasks at a time as one statement may name. Its own params are
// namespaces, tasks and from, and until.
func selectOf[R any](ctx context.Context, s *Store, name string, of history.Population, p params) ([]R, error) {
	chunks := [][]history.Task{nil} // which stands for every task
	if of.Tasks != nil {
		chunks = named(of.Tasks, func(t *history.Task) string { return t.Namespace + t.Name })
	}
	var all []R
	for _, some := range chunks {
		p := maps.Clone(p)
		if p == nil {
			p = params{}
		}
		p["from"], p["until"] = of.From, of.Until
		p["namespaces"] = pluck(some, func(t *history.Task) string { return t.Namespace })
		p["tasks"] = pluck(some, func(t *history.Task) string { return t.Name })
		rows, err := selectAll[R](ctx, s, name, p)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	return all, nil
}

// named cuts a list as chunks cuts the texts that name its entries.
func named[T any](list []T, name func(*T) string) [][]T {
	var all [][]T
	for _, some := range chunks(pluck(list, name)) {
		all = append(all, list[:len(some)])
		list = list[len(some):]
	}
	return all
}

// Crowds gives how many ids of each task retried, or came to their next attempt, within so short a time of each other (or a third
// more), minute by minute, in order of time; and whether any of it reached Kafka from since on.
func (s *Store) Crowds(ctx context.Context, from, until, since time.Time, within time.Duration) ([]history.Crowd, error) {
	type row struct {
		Namespace string    `ch:"namespace"`
		Task      string    `ch:"name"`
		Minute    time.Time `ch:"minute"`
		IDs       uint64    `ch:"ids"`
		FreshIDs  uint64    `ch:"fresh_ids"`
		Fresh     uint8     `ch:"fresh"`
		Retries   uint64    `ch:"retries"`
	}
	rows, err := selectAll[row](ctx, s, "rules/crowds", params{"from": from, "until": until, "since": since, "within": within.Microseconds()})
	return pluck(rows, func(r *row) history.Crowd {
		return history.Crowd{Namespace: r.Namespace, Task: r.Task, Minute: r.Minute, IDs: int(r.IDs), FreshIDs: int(r.FreshIDs),
			Fresh: r.Fresh > 0, Retries: int(r.Retries)}
	}), err
}

// failingSample is of how many ids of a task and type of error it is looked up what became of them.
const failingSample = 1000

// FreshErrors gives the types of error of which failures reached Kafka from a time on. Those that fit the transient patterns count
// only where one was declared permanent.
func (s *Store) FreshErrors(ctx context.Context, since time.Time, transient []string) ([]history.ErrorType, error) {
	type row struct {
		Namespace string `ch:"namespace"`
		Type      string `ch:"error_type"`
	}
	rows, err := selectAll[row](ctx, s, "rules/fresh_errors", params{"since": since, "transient": likes(transient)})
	return pluck(rows, func(r *row) history.ErrorType { return history.ErrorType(*r) }), err
}

// Failing tells what became of the task ids that were tried again after errors of some types, by task and type of error, where an
// error that was declared permanent was retried or at least ids were tried again.
func (s *Store) Failing(ctx context.Context, errors []history.ErrorType, from, until time.Time, ids int) ([]history.Failing, error) {
	type row struct {
		Namespace string    `ch:"namespace"`
		Task      string    `ch:"name"`
		ErrorType string    `ch:"error_type"`
		Declared  uint64    `ch:"declared_ids"`
		Exhausted uint64    `ch:"exhausted_ids"`
		Healed    uint64    `ch:"healed_ids"`
		IDs       uint64    `ch:"ids"`
		Retries   uint64    `ch:"retries"`
		First     time.Time `ch:"first_at"`
		Last      time.Time `ch:"last_at"`
		TaskIDs   []string  `ch:"task_ids"`
	}
	var all []history.Failing
	for _, some := range named(errors, func(t *history.ErrorType) string { return t.Namespace + t.Type }) {
		rows, err := selectAll[row](ctx, s, "rules/failing", params{"from": from, "until": until, "ids": uint64(ids), "sample": uint64(failingSample),
			"namespaces":  pluck(some, func(t *history.ErrorType) string { return t.Namespace }),
			"error_types": pluck(some, func(t *history.ErrorType) string { return t.Type })})
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			all = append(all, history.Failing{Namespace: r.Namespace, Task: r.Task, ErrorType: r.ErrorType, Declared: int(r.Declared),
				Exhausted: int(r.Exhausted), Healed: int(r.Healed), IDs: int(r.IDs), Retries: int(r.Retries), First: known(r.First), Last: known(r.Last),
				TaskIDs: r.TaskIDs})
		}
	}
	return all, nil
}
