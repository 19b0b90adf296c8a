package queries

import (
	"context"
	"maps"
	"time"

	"auditor/event"
	"auditor/event/history"
)

// AsOf gives the store as it stood at a moment: in what it answers the rules, nothing is there that reached Kafka later.
// Two tables do not know when their parts arrived, and leave out what happened later instead: when workers were heard of,
// and how much a task did in a minute. What the auditor itself keeps (findings, cursors) is as it is now. It uses the
// connections of s, and needs no closing.
func (s *Store) AsOf(t time.Time) *Store {
	return &Store{config: s.config, options: s.options, conn: s.conn, log: s.log, statements: s.statements, layout: s.layout, asOf: t}
}

// arrivedParam is the parameter of statements that leave out what reached Kafka later. It is bound by itself.
const arrivedParam = "arrived"

// bindArrived adds the parameter where the statement has it and p does not.
func (s *Store) bindArrived(st *statement, p params) params {
	if _, wants := st.params[arrivedParam]; !wants {
		return p
	}
	if _, given := p[arrivedParam]; given {
		return p
	}
	p = maps.Clone(p)
	if p == nil {
		p = params{}
	}
	p[arrivedParam] = latest
	if !s.asOf.IsZero() {
		p[arrivedParam] = s.asOf
	}
	return p
}

// Arrivals gives, by partition, the offsets of the changes that reached Kafka in a stretch of time, both ends included: the
// first of them, and the one after the last. Between them may lie others, for producers set the time.
func (s *Store) Arrivals(ctx context.Context, from, to time.Time) (first, next event.Cursor, err error) {
	type row struct {
		Topic     string `ch:"kafka_topic"`
		Partition int32  `ch:"kafka_partition"`
		First     int64  `ch:"first"`
		Next      int64  `ch:"next"`
	}
	rows, err := selectAll[row](ctx, s, "rules/arrivals", params{"from": from, "to": to})
	if err != nil {
		return nil, nil, err
	}
	first, next = event.Cursor{}, event.Cursor{}
	for _, r := range rows {
		id := event.PartitionID{Topic: r.Topic, Partition: r.Partition}
		first[id], next[id] = r.First, r.Next
	}
	return first, next, nil
}

// Awaited gives at most limit of the tasks that were told, by records that reached Kafka before told, to begin between from
// and to: by an eta, or by the delay of a retry. Phase, Since and Due are not set.
func (s *Store) Awaited(ctx context.Context, from, to, told time.Time, limit int) ([]history.Pending, error) {
	type row struct {
		Namespace     string `ch:"namespace"`
		BusinessKey   string `ch:"business_key"`
		SubjectTask   string `ch:"subject_task"`
		PendingTaskID string `ch:"pending_task_id"`
		Task          string `ch:"task"`
		KnownKey      string `ch:"known_key"`
	}
	rows, err := selectAll[row](ctx, s, "rules/awaited", params{"from": from, "to": to, "told": told, "limit": uint64(limit)})
	if err != nil {
		return nil, err
	}
	return pluck(rows, func(r *row) history.Pending {
		return history.Pending{Subject: history.Subject{Namespace: r.Namespace, BusinessKey: r.BusinessKey, TaskID: r.SubjectTask},
			PendingTaskID: r.PendingTaskID, Task: r.Task, Open: true, KnownKey: r.KnownKey}
	}), nil
}

// KeptSince gives when the oldest event reached Kafka whose change of a key is still kept, and the oldest event at all;
// zero when there is none.
func (s *Store) KeptSince(ctx context.Context) (changes, events time.Time, err error) {
	type row struct {
		Changes time.Time `ch:"changes"`
		Events  time.Time `ch:"events"`
	}
	r, _, err := selectOne[row](ctx, s, "rules/kept_since", nil)
	return known(r.Changes), known(r.Events), err
}
