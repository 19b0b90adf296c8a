package queries

import (
	"context"
	"strings"
	"time"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
)

// Confirmed gives the next offset of each partition up to which the ledger proves that the store has everything.
func (s *Store) Confirmed(ctx context.Context) (event.Cursor, error) {
	cursor, err := s.confirmed(ctx)
	if err == nil && s.layout.cluster != "" && s.asOf.IsZero() {
		cursor = s.settling.settled(time.Now(), cursor)
	}
	return cursor, err
}

// confirmed is Confirmed as of now.
func (s *Store) confirmed(ctx context.Context) (event.Cursor, error) {
	type row struct {
		Topic     string `ch:"kafka_topic"`
		Partition int32  `ch:"kafka_partition"`
		Next      int64  `ch:"next"`
	}
	rows, err := selectAll[row](ctx, s, "rules/confirmed", nil)
	if err != nil {
		return nil, err
	}
	cursor := make(event.Cursor, len(rows))
	for _, r := range rows {
		cursor[event.PartitionID{Topic: r.Topic, Partition: r.Partition}] = r.Next
	}
	return cursor, nil
}

// AnyKeyless reports whether any event of a task came without a business key, so that such events must be looked for.
func (s *Store) AnyKeyless(ctx context.Context) (bool, error) {
	n, _, err := selectOne[uint64](ctx, s, "rules/any_keyless", nil)
	return n > 0, err
}

// Histories gives the events of each subject, as far as the extent reaches. Events of its tasks that carry no business key
// are among them.
func (s *Store) Histories(ctx context.Context, subjects []history.Subject, x history.Extent) (map[history.Subject][]event.Event, error) {
	keyless, err := s.AnyKeyless(ctx)
	if err != nil {
		return nil, err
	}
	events := make(map[history.Subject][]event.Event, len(subjects))
	for _, some := range subjectChunks(subjects) {
		p := subjectParams(some)
		p["since"], p["limit"], p["first"], p["keyless"] = x.Since, uint64(x.Limit), x.Tasks, keyless
		var of history.Subject
		extra := map[string]any{"subject_namespace": &of.Namespace, "subject_key": &of.BusinessKey, "subject_task": &of.TaskID}
		err := eachEvent(ctx, s, "rules/histories", p, extra, func(e event.Event) error {
			events[of] = append(events[of], e)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return events, nil
}

// Signals gives what was heard of the workers from a time on, in order of time.
func (s *Store) Signals(ctx context.Context, namespace string, workers []string, from time.Time) ([]history.Signal, error) {
	type row struct {
		Namespace string    `ch:"namespace"`
		Worker    string    `ch:"worker"`
		PID       uint32    `ch:"pid"`
		First     time.Time `ch:"first_heard"`
		Last      time.Time `ch:"last_heard"`
		Idle      time.Time `ch:"idle_at"`
		Lost      time.Time `ch:"lost_at"`
	}
	var signals []history.Signal
	for _, some := range chunks(workers) {
		rows, err := selectAll[row](ctx, s, "rules/signals", params{"namespace": namespace, "workers": some, "from": from})
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			signals = append(signals, history.Signal{Namespace: r.Namespace, Worker: r.Worker, PID: int(r.PID),
				First: known(r.First), Last: known(r.Last), Idle: known(r.Idle), Lost: known(r.Lost)})
		}
	}
	return signals, nil
}

// Unresolved gives the findings about the subjects that are not resolved.
func (s *Store) Unresolved(ctx context.Context, subjects []history.Subject) ([]finding.Finding, error) {
	var ids []string
	for _, some := range subjectChunks(subjects) {
		found, err := selectAll[string](ctx, s, "rules/unresolved", subjectParams(some))
		if err != nil {
			return nil, err
		}
		ids = append(ids, found...)
	}
	byID, err := s.Findings(ctx, ids)
	if err != nil {
		return nil, err
	}
	all := make([]finding.Finding, 0, len(byID))
	for _, id := range ids {
		if f, ok := byID[id]; ok {
			all = append(all, f)
		}
	}
	return all, nil
}

// AllFindings gives every finding, in order of id.
func (s *Store) AllFindings(ctx context.Context) ([]finding.Finding, error) {
	return selectFindings(ctx, s, "rules/all_findings", nil)
}

func subjectParams(subjects []history.Subject) params {
	return params{
		"namespaces":    pluck(subjects, func(s *history.Subject) string { return s.Namespace }),
		"business_keys": pluck(subjects, func(s *history.Subject) string { return s.BusinessKey }),
		"task_ids":      pluck(subjects, func(s *history.Subject) string { return s.TaskID }),
	}
}

// subjectChunks cuts a list of subjects as chunks cuts texts.
func subjectChunks(subjects []history.Subject) [][]history.Subject {
	return named(subjects, func(s *history.Subject) string { return s.Namespace + s.BusinessKey + s.TaskID })
}

// likes gives patterns, in which * stands for any text, as LIKE reads them.
func likes(patterns []string) []string {
	escape := strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`, "*", "%")
	return pluck(patterns, func(p *string) string { return escape.Replace(*p) })
}

// OpenFindings gives the findings that are not resolved: id, rule, state, namespace, task, business key, and of their own
// fields effect.
func (s *Store) OpenFindings(ctx context.Context) ([]finding.Finding, error) {
	type row struct {
		ID          string `ch:"id"`
		Rule        string `ch:"rule"`
		State       string `ch:"state"`
		Namespace   string `ch:"namespace"`
		Task        string `ch:"task"`
		BusinessKey string `ch:"business_key"`
		Effect      string `ch:"effect"`
	}
	rows, err := selectAll[row](ctx, s, "rules/open_findings", nil)
	return pluck(rows, func(r *row) finding.Finding {
		return finding.Finding{ID: r.ID, Rule: r.Rule, State: finding.State(r.State), Namespace: r.Namespace, Task: r.Task,
			BusinessKey: r.BusinessKey, Fields: map[string]any{"effect": r.Effect}}
	}), err
}
