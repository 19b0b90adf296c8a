package queries

import (
	"cmp"
	"context"
	"slices"
	"time"

	"auditor/event"
	"auditor/event/history"
	"auditor/event/view"
)

// SubjectEvents gives the events of a subject in order of time, the newest limit of them. Events of its tasks that carry no
// business key are among them.
func (p *Pages) SubjectEvents(ctx context.Context, subject history.Subject, limit int) ([]event.Event, error) {
	found, err := p.store.Histories(ctx, []history.Subject{subject}, history.Extent{Limit: limit})
	if err != nil {
		return nil, err
	}
	return inOrder(found[subject]), nil
}

// TaskEvents gives the events of a task id in any namespace, in order of time, the newest limit of them.
func (p *Pages) TaskEvents(ctx context.Context, taskID string, limit int) ([]event.Event, error) {
	if taskID == "" {
		return nil, nil
	}
	events, err := selectEvents(ctx, p.store, "web/task_events", params{"task_id": taskID, "limit": limit})
	return inOrder(events), err
}

// inOrder sorts events by time and keeps each place in Kafka once.
func inOrder(events []event.Event) []event.Event {
	slices.SortFunc(events, func(a, b event.Event) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition),
			cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Index, b.Index))
	})
	return slices.CompactFunc(events, func(a, b event.Event) bool { return a.Position == b.Position })
}

// Heard gives the stretches in which workers were heard of, in slices of about ten seconds.
func (p *Pages) Heard(ctx context.Context, namespace string, workers []string, from, until time.Time) ([]history.Signal, error) {
	type row struct {
		Worker string    `ch:"worker"`
		First  time.Time `ch:"first_heard"`
		Last   time.Time `ch:"last_heard"`
	}
	rows, err := selectAll[row](ctx, p.store, "web/heard", params{"namespace": namespace, "workers": workers, "from": from, "until": until})
	return pluck(rows, func(r *row) history.Signal {
		return history.Signal{Namespace: namespace, Worker: r.Worker, First: known(r.First), Last: known(r.Last)}
	}), err
}

// Search finds what a text may be: a business key, a task id, a request id or a worker and, where it is none of them, the
// keys and task ids that begin with it.
func (p *Pages) Search(ctx context.Context, text string, limit int) ([]view.Hit, error) {
	type row struct {
		Kind        string    `ch:"kind"`
		Namespace   string    `ch:"namespace"`
		BusinessKey string    `ch:"business_key"`
		TaskID      string    `ch:"task_id"`
		Worker      string    `ch:"worker"`
		Task        string    `ch:"name"`
		Heard       time.Time `ch:"heard"`
	}
	if text == "" {
		return nil, nil
	}
	exact := true
	rows, err := selectAll[row](ctx, p.store, "web/search", params{"text": text, "limit": limit})
	if err == nil && len(rows) == 0 {
		exact = false
		rows, err = selectAll[row](ctx, p.store, "web/search_prefix", params{"text": text, "limit": limit})
	}
	return pluck(rows, func(r *row) view.Hit {
		return view.Hit{Kind: view.HitKind(r.Kind), Exact: exact, Namespace: r.Namespace, BusinessKey: r.BusinessKey,
			TaskID: r.TaskID, Worker: r.Worker, Task: r.Task, Last: known(r.Heard)}
	}), err
}
