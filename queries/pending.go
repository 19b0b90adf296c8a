package queries

import (
	"context"
	"slices"
	"time"

	"auditor/event/history"
)

// DuePending gives at most limit of the tasks without an end that are due by now, the longest due first, under the subject that
// they were noted for: those of some subjects, or of all when it gets nil. KnownKey is the business key that has become known since
// for one that was noted without.
func (s *Store) DuePending(ctx context.Context, of []history.Subject, now time.Time, limit int) ([]history.Pending, error) {
	type row struct {
		Namespace     string    `ch:"namespace"`
		BusinessKey   string    `ch:"business_key"`
		TaskID        string    `ch:"task_id"`
		PendingTaskID string    `ch:"pending_task_id"`
		Task          string    `ch:"task"`
		Phase         string    `ch:"phase"`
		Since         time.Time `ch:"since"`
		Due           time.Time `ch:"due"`
		KnownKey      string    `ch:"known_key"`
	}
	asked := subjectChunks(of)
	if of == nil {
		asked = [][]history.Subject{nil}
	}
	var tasks []history.Pending
	for _, some := range asked {
		p := subjectParams(some)
		p["now"], p["limit"], p["chosen"] = now, limit, some != nil
		rows, err := selectAll[row](ctx, s, "rules/due_pending", p)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			tasks = append(tasks, history.Pending{
				Subject:       history.Subject{Namespace: r.Namespace, BusinessKey: r.BusinessKey, TaskID: r.TaskID},
				PendingTaskID: r.PendingTaskID, Task: r.Task, Phase: history.Phase(r.Phase),
				Since: known(r.Since), Due: known(r.Due), Open: true, KnownKey: r.KnownKey,
			})
		}
	}
	slices.SortStableFunc(tasks, func(a, b history.Pending) int { return a.Due.Compare(b.Due) })
	return tasks[:min(len(tasks), limit)], nil
}

// OpenPending gives at most limit of the tasks without an end: of which they are, and when they are due.
func (s *Store) OpenPending(ctx context.Context, limit int) ([]history.Pending, error) {
	type row struct {
		Namespace     string    `ch:"namespace"`
		BusinessKey   string    `ch:"business_key"`
		TaskID        string    `ch:"task_id"`
		PendingTaskID string    `ch:"pending_task_id"`
		Due           time.Time `ch:"due"`
	}
	rows, err := selectAll[row](ctx, s, "rules/open_pending", params{"limit": limit})
	return pluck(rows, func(r *row) history.Pending {
		return history.Pending{Subject: history.Subject{Namespace: r.Namespace, BusinessKey: r.BusinessKey, TaskID: r.TaskID},
			PendingTaskID: r.PendingTaskID, Due: known(r.Due), Open: true}
	}), err
}

// SavePending stores how tasks stand. Of two calls about one task the later one counts.
func (s *Store) SavePending(ctx context.Context, tasks []history.Pending) error {
	if len(tasks) == 0 {
		return nil
	}
	word := func(get func(*history.Pending) string) []string { return pluck(tasks, get) }
	return s.insert(ctx, "waiting_tasks", "", []values{
		{"namespace", word(func(p *history.Pending) string { return p.Namespace })},
		{"business_key", word(func(p *history.Pending) string { return p.BusinessKey })},
		{"task_id", word(func(p *history.Pending) string { return p.TaskID })},
		{"pending_task_id", word(func(p *history.Pending) string { return p.PendingTaskID })},
		{"task", word(func(p *history.Pending) string { return p.Task })},
		{"phase", word(func(p *history.Pending) string { return string(p.Phase) })},
		{"since", pluck(tasks, func(p *history.Pending) time.Time { return storable(p.Since) })},
		{"due", pluck(tasks, func(p *history.Pending) time.Time { return storable(p.Due) })},
		{"open", pluck(tasks, func(p *history.Pending) bool { return p.Open })},
	})
}
