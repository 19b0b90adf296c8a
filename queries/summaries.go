package queries

import (
	"context"
	"time"

	"auditor/event"
	"auditor/event/history"
)

// Summaries gives what all events of each subject come to that reached Kafka since then and happened until then, those of its
// tasks that carry no business key among them.
func (s *Store) Summaries(ctx context.Context, subjects []history.Subject, since, until time.Time) (map[history.Subject]history.Summary, error) {
	type row struct {
		Namespace   string    `ch:"namespace"`
		BusinessKey string    `ch:"business_key"`
		SubjectTask string    `ch:"subject_task"`
		Kind        string    `ch:"kind"`
		Effect      string    `ch:"effect"`
		Target      string    `ch:"target"`
		Done        string    `ch:"done"`
		Whole       bool      `ch:"whole"`
		Count       uint64    `ch:"count"`
		Tasks       uint64    `ch:"tasks"`
		Starts      uint64    `ch:"starts"`
		FirstID     string    `ch:"first_id"`
		FirstType   string    `ch:"first_type"`
		FirstTime   time.Time `ch:"first_time"`
		FirstWorker string    `ch:"first_worker"`
		FirstTaskID string    `ch:"first_task_id"`
		Topic       string    `ch:"first_topic"`
		Partition   int32     `ch:"first_partition"`
		Offset      int64     `ch:"first_offset"`
		Index       int32     `ch:"first_index"`
	}
	keyless, err := s.AnyKeyless(ctx)
	if err != nil {
		return nil, err
	}
	all := make(map[history.Subject]history.Summary, len(subjects))
	for _, some := range subjectChunks(subjects) {
		p := subjectParams(some)
		p["since"], p["until"], p["keyless"] = since, until, keyless
		rows, err := selectAll[row](ctx, s, "rules/summaries", p)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			of := history.Subject{Namespace: r.Namespace, BusinessKey: r.BusinessKey, TaskID: r.SubjectTask}
			sum := all[of]
			if r.Whole {
				sum.Events, sum.Tasks, sum.Starts = int(r.Count), int(r.Tasks), int(r.Starts)
			} else {
				first := event.Event{ID: r.FirstID, Type: event.Type(r.FirstType), Time: known(r.FirstTime), Worker: r.FirstWorker, TaskID: r.FirstTaskID,
					Position: event.Position{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Index: r.Index}}
				sum.Deeds = append(sum.Deeds, history.Deed{Effect: r.Effect, Target: r.Target, Task: r.Done, Count: int(r.Count), First: first})
			}
			all[of] = sum
		}
	}
	return all, nil
}
