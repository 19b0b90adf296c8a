package queries

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"auditor/event"
	"auditor/event/reject"
	"auditor/event/view"
)

// rejectParams are the params of the statements that choose rejects by a filter.
func rejectParams(f view.RejectFilter) params {
	partition := int32(-1)
	if f.Partition != nil {
		partition = *f.Partition
	}
	until := f.Until
	if until.IsZero() {
		until = latest
	}
	return params{"topic": f.Topic, "partition": partition, "reasons": f.Reasons, "states": f.States, "since": f.Since, "until": until}
}

// with gives the params and more.
func (p params) with(more params) params {
	all := make(params, len(p)+len(more))
	for _, some := range []params{p, more} {
		for name, value := range some {
			all[name] = value
		}
	}
	return all
}

// rejectPlace is where a reject stands, as rows tell it.
type rejectPlace struct {
	Topic     string    `ch:"topic"`
	Partition int32     `ch:"partition"`
	Offset    int64     `ch:"offset"`
	Index     int32     `ch:"index"`
	Time      time.Time `ch:"time"`
}

func (r *rejectPlace) position() event.Position {
	return event.Position{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Index: r.Index}
}

// Rejects gives one page of the rejects that a filter chooses, the newest first, without headers and log.
func (p *Pages) Rejects(ctx context.Context, l view.RejectList) ([]reject.Reject, error) {
	type row struct {
		rejectPlace
		Reason string `ch:"reason"`
		Detail string `ch:"detail"`
		State  string `ch:"state"`
		Key    string `ch:"head"`
		Raw    string `ch:"bytes"`
		Size   uint64 `ch:"size"`
	}
	rows, err := selectAll[row](ctx, p.store, "web/rejects", rejectParams(l.RejectFilter).with(params{
		"first": l.Before == view.Position{}, "before_time": l.Before.KafkaTime, "before_topic": l.Before.Topic,
		"before_partition": l.Before.Partition, "before_offset": l.Before.Offset, "before_index": l.Before.Index,
		"raw_limit": l.RawLimit, "limit": max(l.Limit, 1),
	}))
	return pluck(rows, func(r *row) reject.Reject {
		return reject.Reject{Size: int(r.Size), State: reject.State(r.State), Reject: event.Reject{
			Position: r.position(), KafkaTime: known(r.Time), Reason: event.Reason(r.Reason), Detail: r.Detail, Key: []byte(r.Key), Raw: []byte(r.Raw),
		}}
	}), err
}

// RejectCounts counts the rejects that a filter chooses by topic, reason and state, the most frequent first.
func (p *Pages) RejectCounts(ctx context.Context, f view.RejectFilter) ([]view.RejectCount, error) {
	type row struct {
		Topic  string    `ch:"topic"`
		Reason string    `ch:"reason"`
		State  string    `ch:"state"`
		Found  uint64    `ch:"found"`
		Bytes  uint64    `ch:"bytes"`
		Oldest time.Time `ch:"oldest"`
		Newest time.Time `ch:"newest"`
	}
	rows, err := selectAll[row](ctx, p.store, "web/reject_counts", rejectParams(f))
	return pluck(rows, func(r *row) view.RejectCount {
		return view.RejectCount{Topic: r.Topic, Reason: event.Reason(r.Reason), State: reject.State(r.State), Count: int(r.Found),
			Bytes: int(r.Bytes), First: known(r.Oldest), Last: known(r.Newest)}
	}), err
}

// RejectRates counts rejects by reason, from a time on, by slots of the given length, whole seconds.
func (p *Pages) RejectRates(ctx context.Context, from time.Time, slot time.Duration) ([]view.RejectRate, error) {
	type row struct {
		Slot   time.Time `ch:"begun"`
		Reason string    `ch:"why"`
		Found  uint64    `ch:"found"`
	}
	rows, err := selectAll[row](ctx, p.store, "web/reject_rates", params{"from": from, "slot": uint32(slot.Seconds())})
	return pluck(rows, func(r *row) view.RejectRate {
		return view.RejectRate{Slot: r.Slot, Reason: event.Reason(r.Reason), Count: int(r.Found)}
	}), err
}

// Reject gives a reject whole, or view.ErrNotFound.
func (p *Pages) Reject(ctx context.Context, at event.Position) (reject.Reject, error) {
	all, err := p.store.RejectsAt(ctx, at)
	if err == nil && len(all) == 0 {
		err = view.ErrNotFound
	}
	if err != nil {
		return reject.Reject{}, err
	}
	return all[0], nil
}

// PurgeReject is PurgeRejectsAt for one reject.
func (p *Pages) PurgeReject(ctx context.Context, at event.Position, by, note string) error {
	return p.store.PurgeRejectsAt(ctx, []event.Position{at}, by, note)
}

// RejectsAt gives the reject at a position whole, with its log; with event.AnyIndex, all of that record, in order.
func (s *Store) RejectsAt(ctx context.Context, at event.Position) ([]reject.Reject, error) {
	type row struct {
		Index  int32     `ch:"kafka_index"`
		Time   time.Time `ch:"kafka_time"`
		Reason string    `ch:"reason"`
		Detail string    `ch:"detail"`
		Key    string    `ch:"key"`
		Names  []string  `ch:"header_names"`
		Values []string  `ch:"header_values"`
		Raw    string    `ch:"raw"`
		Purged bool      `ch:"purged"`
	}
	rows, err := selectAll[row](ctx, s, "store/reject", params{"topic": at.Topic, "partition": at.Partition, "offset": at.Offset, "index": at.Index})
	if err != nil {
		return nil, err
	}
	positions := pluck(rows, func(r *row) event.Position {
		return event.Position{Topic: at.Topic, Partition: at.Partition, Offset: at.Offset, Index: r.Index}
	})
	logs, err := s.RejectLogs(ctx, positions)
	if err != nil {
		return nil, err
	}
	all := make([]reject.Reject, len(rows))
	for i, r := range rows {
		log := logs[positions[i]]
		all[i] = reject.Reject{Size: len(r.Raw), State: reject.StateOf(r.Purged, log), Log: log, Reject: event.Reject{
			Position: positions[i], KafkaTime: known(r.Time), Reason: event.Reason(r.Reason), Detail: r.Detail, Key: []byte(r.Key), Raw: []byte(r.Raw),
		}}
		for j := range min(len(r.Names), len(r.Values)) {
			all[i].Headers = append(all[i].Headers, event.Header{Key: r.Names[j], Value: []byte(r.Values[j])})
		}
	}
	return all, nil
}

// RejectLogs gives what was done with rejects, each log in order of time. A reject with which nothing was done has none.
func (s *Store) RejectLogs(ctx context.Context, positions []event.Position) (map[event.Position][]reject.Entry, error) {
	type row struct {
		Topic       string    `ch:"kafka_topic"`
		Partition   int32     `ch:"kafka_partition"`
		Offset      int64     `ch:"kafka_offset"`
		Index       int32     `ch:"kafka_index"`
		KafkaTime   time.Time `ch:"kafka_time"`
		Time        time.Time `ch:"time"`
		Action      string    `ch:"action"`
		Attempt     string    `ch:"attempt"`
		By          string    `ch:"by"`
		Note        string    `ch:"note"`
		ToTopic     string    `ch:"to_topic"`
		ToPartition int32     `ch:"to_partition"`
		ToOffset    int64     `ch:"to_offset"`
		Mended      bool      `ch:"mended"`
		Digest      string    `ch:"digest"`
		EventIDs    []string  `ch:"event_ids"`
	}
	logs := make(map[event.Position][]reject.Entry)
	for some := range slices.Chunk(positions, positionsAtOnce) {
		rows, err := selectAll[row](ctx, s, "store/reject_log", params{
			"topics":    slices.Compact(slices.Sorted(slices.Values(pluck(some, func(p *event.Position) string { return p.Topic })))),
			"offsets":   pluck(some, func(p *event.Position) int64 { return p.Offset }),
			"positions": pluck(some, func(p *event.Position) string { return event.FormatPosition(*p) }),
		})
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			at := event.Position{Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Index: r.Index}
			logs[at] = append(logs[at], reject.Entry{
				Position: at, KafkaTime: known(r.KafkaTime), Time: r.Time, Action: reject.Action(r.Action), Attempt: r.Attempt, By: r.By, Note: r.Note,
				To:     event.Position{Topic: r.ToTopic, Partition: r.ToPartition, Offset: r.ToOffset},
				Mended: r.Mended, Digest: r.Digest, EventIDs: r.EventIDs,
			})
		}
	}
	return logs, nil
}

// positionsAtOnce is how many positions one request tells: parameters travel in the address of an HTTP request.
const positionsAtOnce = 500

// LogRejects adds entries to the log. Once it returns without an error, RejectLogs gives them to everybody.
func (s *Store) LogRejects(ctx context.Context, entries []reject.Entry) error {
	word := func(get func(*reject.Entry) string) []string { return pluck(entries, get) }
	return s.insert(ctx, "reject_log", "", []values{
		{"kafka_topic", word(func(e *reject.Entry) string { return e.Topic })},
		{"kafka_partition", pluck(entries, func(e *reject.Entry) int32 { return e.Partition })},
		{"kafka_offset", pluck(entries, func(e *reject.Entry) int64 { return e.Offset })},
		{"kafka_index", pluck(entries, func(e *reject.Entry) int32 { return e.Index })},
		{"kafka_time", pluck(entries, func(e *reject.Entry) time.Time { return storable(e.KafkaTime) })},
		{"time", pluck(entries, func(e *reject.Entry) time.Time { return storable(e.Time) })},
		{"action", word(func(e *reject.Entry) string { return string(e.Action) })},
		{"attempt", word(func(e *reject.Entry) string { return e.Attempt })},
		{"by", word(func(e *reject.Entry) string { return e.By })},
		{"note", word(func(e *reject.Entry) string { return e.Note })},
		{"to_topic", word(func(e *reject.Entry) string { return e.To.Topic })},
		{"to_partition", pluck(entries, func(e *reject.Entry) int32 { return e.To.Partition })},
		{"to_offset", pluck(entries, func(e *reject.Entry) int64 { return e.To.Offset })},
		{"mended", pluck(entries, func(e *reject.Entry) bool { return e.Mended })},
		{"digest", word(func(e *reject.Entry) string { return e.Digest })},
		{"event_ids", pluck(entries, func(e *reject.Entry) []string { return e.EventIDs })},
	})
}

// ChooseRejects gives where the rejects are that a filter chooses and that still have their bytes, the oldest first.
func (s *Store) ChooseRejects(ctx context.Context, f view.RejectFilter, limit int) ([]event.Position, error) {
	rows, err := selectAll[rejectPlace](ctx, s, "store/reject_positions", rejectParams(f).with(params{"limit": limit}))
	return pluck(rows, (*rejectPlace).position), err
}

// Arrived gives the offset of the first event that is stored of to's partition, from to's offset on, under one of the
// ids; false when there is none.
func (s *Store) Arrived(ctx context.Context, to event.Position, ids []string) (int64, bool, error) {
	for _, some := range chunks(ids) {
		offset, ok, err := selectOne[int64](ctx, s, "store/arrived", params{"topic": to.Topic, "partition": to.Partition, "from": to.Offset, "ids": some})
		if ok || err != nil {
			return offset, ok, err
		}
	}
	return 0, false, nil
}

// RejectFates gives what the store knows of a reject's replays that were sent or may have been, in order.
func (p *Pages) RejectFates(ctx context.Context, r reject.Reject) ([]reject.Fate, error) {
	var fates []reject.Fate
	first := func(statement string, at event.Position) (*event.Position, error) {
		found, err := p.store.places(ctx, statement, at.Topic, at.Partition, at.Offset, at.Offset)
		if err != nil || len(found) == 0 {
			return nil, err
		}
		return &found[0], nil
	}
	for _, e := range r.Log {
		if e.Action != reject.Sent {
			continue
		}
		fate := reject.Fate{Attempt: e.Attempt}
		var err error
		if fate.Event, err = first("store/present_events", e.To); err != nil {
			return nil, err
		}
		if fate.Reject, err = first("store/present_rejects", e.To); err != nil {
			return nil, err
		}
		fates = append(fates, fate)
	}
	for _, e := range r.Unsettled() {
		offset, ok, err := p.store.Arrived(ctx, e.To, e.EventIDs)
		if err != nil {
			return nil, err
		}
		fate := reject.Fate{Attempt: e.Attempt}
		if ok {
			fate.Event = &event.Position{Topic: e.To.Topic, Partition: e.To.Partition, Offset: offset}
		}
		fates = append(fates, fate)
	}
	return fates, nil
}

// purgedAtOnce is how many rejects one change of the table names.
const purgedAtOnce = 1000

// PurgeRejectsAt deletes what rejects hold, after it has logged who asked for that. What is left of each is where and when
// it was, and the reason. One that is purged already stays so, and one that is not there is none.
//
// It returns once the bytes are gone, or with an error if that is not known in the time that ctx has: ClickHouse goes on
// with what it was told nevertheless, and the same call again does no harm.
func (s *Store) PurgeRejectsAt(ctx context.Context, positions []event.Position, by, note string) error {
	for some := range slices.Chunk(positions, purgedAtOnce) {
		chosen := purgeParams(view.RejectFilter{}, params{
			"positions": pluck(some, func(p *event.Position) string { return event.FormatPosition(*p) }), "ends": map[string]int64{},
		})
		if err := s.purge(ctx, chosen, by, note); err != nil {
			return err
		}
	}
	return nil
}

// PurgeRejects is PurgeRejectsAt for all rejects that a filter chooses, as far as the ledger proves that they are all there
// when the call begins.
func (s *Store) PurgeRejects(ctx context.Context, f view.RejectFilter, by, note string) error {
	if len(f.States) > 0 { // which the table itself does not know
		for {
			some, err := s.ChooseRejects(ctx, f, purgedAtOnce)
			if err != nil || len(some) == 0 {
				return err
			}
			if err := s.PurgeRejectsAt(ctx, some, by, note); err != nil {
				return err
			}
		}
	}
	confirmed, err := s.confirmed(ctx)
	if err != nil {
		return err
	}
	ends := make(map[string]int64, len(confirmed))
	for id, next := range confirmed {
		ends[fmt.Sprintf("%s:%d", id.Topic, id.Partition)] = next - 1
	}
	return s.purge(ctx, purgeParams(f, params{"positions": []string{}, "ends": ends}), by, note)
}

// purgeParams are the params of the statements that choose what is purged. They tell times in milliseconds, for a change of
// a table cannot compare one with text.
func purgeParams(f view.RejectFilter, more params) params {
	p := rejectParams(f).with(more)
	for _, bound := range []string{"since", "until"} {
		first := storable(p[bound].(time.Time)).Add(time.Millisecond - time.Nanosecond) // the first that is not before
		p[bound+"_ms"] = first.UnixMilli()
		delete(p, bound)
	}
	delete(p, "states")
	return p
}

func (s *Store) purge(ctx context.Context, chosen params, by, note string) error {
	err := s.exec(ctx, "store/log_purge", chosen.with(params{"at": time.Now(), "attempt": rand.Text(), "by": by, "note": note}))
	if err != nil {
		return err
	}
	err = s.alter(ctx, "store/purge_rejects", "rejects", chosen)
	for pause := 50 * time.Millisecond; stillDoing(err); pause = min(2*pause, time.Second) {
		left, _, failure := selectOne[uint64](ctx, s, "store/unpurged_rejects", chosen)
		if failure == nil && left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: ClickHouse has not deleted all bytes yet", cmp.Or(context.Cause(ctx), err))
		case <-time.After(pause):
		}
	}
	return err
}

// stillDoing reports whether ClickHouse may be carrying out what it was asked for, although the answer says otherwise or
// did not come.
func stillDoing(err error) bool {
	const timeoutExceeded, unfinished = 159, 341
	var e *Error
	return errors.As(err, &e) && (e.Code == 0 || e.Code == timeoutExceeded || e.Code == unfinished)
}
