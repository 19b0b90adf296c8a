// Package rules turns what changed into findings.
//
// # Contract
//
// Each look reads the keys that changed since the last one, by Kafka offset and up to what the ledger confirms, so that
// an event that comes late is judged like any other. One pass in ClickHouse over those keys' events sets the healthy ones
// aside; the histories of the others are read and diagnosed by pure functions. The cursor moves only after the findings
// are written, and every finding has an id that follows from what it is about: a look that is repeated after a crash
// writes the same again, which changes nothing.
//
// Rules about time read the tasks that wait for an end, when they are due. Rules about a population of tasks read
// aggregates by task and time.
//
// One Engine at a time judges one store. Run, Look and Evaluate must not be called at the same time.
package rules

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"auditor/event"
	"auditor/event/finding"
	"auditor/event/history"
)

// Store is what the rules read and write. Errors are retried at the next look.
type Store interface {
	Changes
	Pasts
	Findings
}

// Changes tells what is new.
type Changes interface {
	// Cursor gives how far a reader has read: the next offset by partition.
	Cursor(ctx context.Context, name string) (event.Cursor, error)
	// SaveCursor stores it.
	SaveCursor(ctx context.Context, name string, at event.Cursor) error
	// Confirmed gives the next offset by partition up to which the ledger proves that the store has everything.
	Confirmed(ctx context.Context) (event.Cursor, error)
	// DuePending gives at most limit of the noted tasks without an end that are due by now, the longest due first: of some
	// subjects, or of all when it gets nil.
	DuePending(ctx context.Context, of []history.Subject, now time.Time, limit int) ([]history.Pending, error)
	// OpenPending gives at most limit of the noted tasks without an end: of which they are, and when they are due.
	OpenPending(ctx context.Context, limit int) ([]history.Pending, error)
	// SavePending stores how tasks stand.
	SavePending(ctx context.Context, tasks []history.Pending) error
}

// Pasts tells what happened.
type Pasts interface {
	// AnyKeyless reports whether any event of a task came without a business key: such events may stand under the hashes of tasks.
	AnyKeyless(ctx context.Context) (bool, error)
	// NextChange gives the first offset from one to before another at which a key changed; false when there is none.
	NextChange(ctx context.Context, of event.PartitionID, from, end int64) (first int64, any bool, err error)
	// StretchKeys gives the keys that changed in a range of offsets, each once, with the tasks that changed them.
	StretchKeys(ctx context.Context, of event.PartitionID, from, to int64) ([]history.Arrived, error)
	// Plain gives those keys of which all that reached Kafka since then is the plain life of one task.
	Plain(ctx context.Context, hashes []uint64, since, until time.Time) ([]uint64, error)
	// Works gives which tasks worked for keys by what reached Kafka from one time to before another, and their effects.
	Works(ctx context.Context, hashes []uint64, from, to time.Time) (map[uint64]history.Works, error)
	// Told tells what the tasks of some keys told. What is handed to tell is valid during the call only.
	Told(ctx context.Context, q history.Stretch, tell func(*history.Told)) error
	// KeyTasks gives the hashes of the tasks of business keys, as far as events reached Kafka since then.
	KeyTasks(ctx context.Context, hashes []uint64, since time.Time) ([]history.Arrived, error)
	// KeyArrivals gives the hashes of the keys that have events which reached Kafka since then, by slices of time.
	KeyArrivals(ctx context.Context, first, last uint64, since time.Time, slice time.Duration) (map[history.Arrival][]uint64, error)
	// Histories gives the events of each subject, as far as the extent reaches.
	Histories(ctx context.Context, subjects []history.Subject, x history.Extent) (map[history.Subject][]event.Event, error)
	// Summaries gives what all events of each subject come to that reached Kafka since then and happened until then.
	Summaries(ctx context.Context, subjects []history.Subject, since, until time.Time) (map[history.Subject]history.Summary, error)
	// Signals gives what was heard of the workers from the given time on, in order of time.
	Signals(ctx context.Context, namespace string, workers []string, from time.Time) ([]history.Signal, error)
	// OldestAttempt gives the first minute in which a retry, or an attempt after one, happened of those that reached Kafka
	// from a time on; false when there are none.
	OldestAttempt(ctx context.Context, since time.Time) (time.Time, bool, error)
	// Crowds gives how many ids of each task retried, or came to their next attempt, within so short a time of each other (or a
	// third more), minute by minute, in order of time; and whether any of it reached Kafka from since on.
	Crowds(ctx context.Context, from, until, since time.Time, within time.Duration) ([]history.Crowd, error)
	// Waves gives, for the tasks of which at least ids came to their next retry within one second, every second's wave, by the
	// clock of one host where the retries tell by how much others differ from it, up to skew. The retry before it counts from back on.
	Waves(ctx context.Context, of history.Population, back time.Time, ids int, skew time.Duration) ([]history.Wave, error)
	// Drifted gives, of some task ids, those that stand under several business keys within one task, with these keys in order.
	Drifted(ctx context.Context, tasks []history.TaskID) (map[history.TaskID][]string, error)
	// Gaps gives what is missing of the numbers that emitters gave to events that reached Kafka from a time on.
	Gaps(ctx context.Context, namespace string, emitters []string, since time.Time) ([]history.Gap, error)
	// Emitters gives who numbered events that reached Kafka from a time on, by namespace.
	Emitters(ctx context.Context, since time.Time) (map[string][]string, error)
	// FreshErrors gives the types of error of which failures reached Kafka from a time on. Those that fit the transient patterns
	// count only where one was declared permanent.
	FreshErrors(ctx context.Context, since time.Time, transient []string) ([]history.ErrorType, error)
	// Failing tells what became of the ids that were tried again after errors of some types, by task and type of error, where an
	// error that was declared permanent was retried or at least ids were tried again.
	Failing(ctx context.Context, errors []history.ErrorType, from, until time.Time, ids int) ([]history.Failing, error)
	// UsualEffects gives the effects that at least share of the successful ids of each task did, where at least runs were seen.
	UsualEffects(ctx context.Context, namespace string, tasks []string, since, until time.Time, runs int, share float64) (map[string][]string, error)
	// RunTimes gives the 99th percentile of each task's run times, where enough of them were seen.
	RunTimes(ctx context.Context, since, until time.Time) (map[string]time.Duration, error)
	// Minutes gives what the tasks with at least retries retries did, minute by minute, in order of time.
	Minutes(ctx context.Context, of history.Population, retries int) ([]history.Minute, error)
}

// Findings keeps what was found.
type Findings interface {
	// Findings gives those of the ids that exist.
	Findings(ctx context.Context, ids []string) (map[string]finding.Finding, error)
	// Unresolved gives the findings about the subjects that are not resolved.
	Unresolved(ctx context.Context, subjects []history.Subject) ([]finding.Finding, error)
	// SaveFindings stores findings with the changes of state that they went through.
	SaveFindings(ctx context.Context, findings []finding.Finding, changes []finding.Change) error
	// FreshRoots gives the first and the last moment of what findings come from that changed since a time; false when there are none.
	FreshRoots(ctx context.Context, since time.Time) (first, last time.Time, any bool, err error)
	// Rooted gives the findings that tell a root between two moments, without what it takes to explain them. What was written
	// before the first moment need not be among them.
	Rooted(ctx context.Context, from, until time.Time) ([]finding.Finding, error)
	// OpenFindings gives those that are not resolved, as far as the configuration is held against them: id, rule, state,
	// namespace, task, business key, and of their own fields effect.
	OpenFindings(ctx context.Context) ([]finding.Finding, error)
	// AllFindings gives every finding.
	AllFindings(ctx context.Context) ([]finding.Finding, error)
}

const (
	cursorName = "rules"
	chunk      = 100 // histories that are read at once
)

// Engine looks at what is new and judges it.
type Engine struct {
	config  Config
	store   Store
	log     *slog.Logger
	metrics *metrics

	heeded      bool // what stood open before has been held against the configuration
	known       knownKeys
	open        openTasks
	populations populations
	learned     learned
	gapsSeen    map[gapID]time.Time                                // when a gap was first seen
	completeTo  func(ctx context.Context, now time.Time) time.Time // nil: now
	complete    time.Time                                          // what it came to so far
}

// New makes an engine. It starts nothing.
func New(config Config, store Store, log *slog.Logger, registerer prometheus.Registerer) (*Engine, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	m, err := newMetrics(registerer)
	if err != nil {
		return nil, err
	}
	return &Engine{config: config, store: store, log: log, metrics: m, learned: newLearned(), known: knownKeys{limit: config.KeyMemory}}, nil
}

// CompleteTo tells the engine how to learn up to when the store has all that happened, as of now: behind a backlog, or
// while Kafka is away, an end that is not in the store yet is no missing one. A zero time says that nothing is known yet.
// It must be called before Run.
func (e *Engine) CompleteTo(f func(ctx context.Context, now time.Time) time.Time) { e.completeTo = f }

// Run looks at what is new every interval until ctx ends, and then returns nil. A look that fails is tried again: the
// first failure and the recovery are logged.
func (e *Engine) Run(ctx context.Context) error {
	failing := false
	for {
		started := time.Now()
		more, err := e.Look(ctx, started)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			e.log.Error("rules can't look at what is new, trying again", "error", err)
		case err == nil && failing:
			e.log.Info("rules look at what is new again")
		}
		failing = err != nil
		e.metrics.look(time.Since(started), err)
		if err == nil && !more && e.populations.judgedAll() && !e.gapsOpen() {
			e.metrics.judged.Set(float64(started.UnixMicro()) / 1e6)
		}
		pause := e.config.Interval
		if more && err == nil {
			pause = 0
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// Look judges what is new, as of now, and reports whether more is left to be judged at once. Run calls it; it is for those
// who keep time themselves.
func (e *Engine) Look(ctx context.Context, now time.Time) (more bool, err error) {
	return e.look(ctx, e.present(ctx, now.UTC()))
}

// Evaluate judges everything that the store holds as of a moment: what happened after it counts for nothing. It returns
// all findings.
func (e *Engine) Evaluate(ctx context.Context, asOf time.Time) ([]finding.Finding, error) {
	return e.evaluate(ctx, moment{now: asOf.UTC(), known: asOf.UTC(), past: true})
}

func (e *Engine) evaluate(ctx context.Context, at moment) ([]finding.Finding, error) {
	e.learned = newLearned()
	for {
		more, err := e.look(ctx, at)
		if err != nil {
			return nil, err
		}
		if !more {
			return e.store.AllFindings(ctx)
		}
	}
}

// moment is when a look judges. One of the past knows nothing of what came after it.
type moment struct {
	now   time.Time
	known time.Time // up to when all is known that happened; zero: not known yet
	past  bool
	from  time.Time // of a moment of the past: from when on what happened is judged; zero: all of it
}

// present is a moment of the present.
func (e *Engine) present(ctx context.Context, now time.Time) moment {
	known := now
	if e.completeTo != nil {
		if known = e.completeTo(ctx, now); known.After(now) {
			known = now
		}
	}
	e.complete = later(e.complete, known) // a record may tell of an older time than the one before it
	return moment{now: now, known: e.complete}
}

// look judges what is new. It reports whether more is left to be judged at once.
func (e *Engine) look(ctx context.Context, at moment) (more bool, err error) {
	if at.known.IsZero() {
		return false, nil
	}
	if !at.past && !e.heeded {
		if err := e.leaveOut(ctx, at); err != nil {
			return false, err
		}
		e.heeded = true
	}
	from, err := e.store.Cursor(ctx, cursorName)
	if err != nil {
		return false, fmt.Errorf("read the rules' cursor: %w", err)
	}
	confirmed, err := e.store.Confirmed(ctx)
	if err != nil {
		return false, fmt.Errorf("read the ledger: %w", err)
	}
	keyless, err := e.store.AnyKeyless(ctx)
	if err != nil {
		return false, fmt.Errorf("ask for events without a key: %w", err)
	}
	next, news := event.Cursor{}, newNews(keyless)
	for of, end := range confirmed {
		start := from[of]
		if start >= end {
			continue
		}
		to, err := e.partition(ctx, of, start, end, news, at)
		if err != nil {
			return false, err
		}
		next[of] = to
		more = more || to < end
	}
	if err := e.judgeNews(ctx, news, at); err != nil {
		return false, err
	}
	due, err := e.due(ctx, at)
	if err != nil {
		return false, err
	}
	if len(next) > 0 {
		if err := e.store.SaveCursor(ctx, cursorName, next); err != nil {
			return false, fmt.Errorf("move the rules' cursor: %w", err)
		}
	}
	if !more && !due {
		if err := e.judgePopulations(ctx, at); err != nil {
			return false, err
		}
	}
	return more || due, nil
}

// partition adds the keys that changed in a stretch of one partition to the news, or judges them at once when it is of the past
// that they tell, and tells where the stretch ended.
func (e *Engine) partition(ctx context.Context, of event.PartitionID, from, end int64, news *news, at moment) (int64, error) {
	to := min(end, from+int64(e.config.BatchSize))
	keys, err := e.store.StretchKeys(ctx, of, from, to)
	if err != nil {
		return 0, fmt.Errorf("read which keys of %s/%d changed: %w", of.Topic, of.Partition, err)
	}
	if len(keys) == 0 && to < end {
		first, any, err := e.store.NextChange(ctx, of, to, end)
		if err != nil {
			return 0, fmt.Errorf("find the next change of %s/%d: %w", of.Topic, of.Partition, err)
		}
		if any {
			to = first
		} else {
			to = end
		}
	}
	if len(keys) == 0 {
		return to, nil
	}
	oldest := keys[0].First
	for _, key := range keys {
		oldest = earlier(oldest, key.First)
	}
	e.populations.arrived(oldest)
	return to, e.note(ctx, news, keys, oldest, at)
}

// judgeChanged judges what some keys come to that changed, of which all events that count arrived since then; those that drift are
// judged whatever they tell.
func (e *Engine) judgeChanged(ctx context.Context, since time.Time, at moment, drifting map[uint64]bool, stretches ...history.Stretch) error {
	p99, err := e.runTimes(ctx, at)
	if err != nil {
		return err
	}
	suspects := newSuspects(&e.config, p99, drifting)
	for _, q := range stretches {
		if len(q.Keys) == 0 {
			continue
		}
		if err := e.store.Told(ctx, q, suspects.add); err != nil {
			return fmt.Errorf("read what the changed keys told: %w", err)
		}
	}
	subjects := suspects.all()
	e.metrics.suspects.Add(float64(len(subjects)))
	if err := e.savePending(ctx, suspects.tasks); err != nil {
		return err
	}
	ended := slices.DeleteFunc(suspects.tasks, func(t history.Pending) bool { return t.Open })
	_, err = e.judgeAll(ctx, subjects, reach{since: since, ended: ended}, at)
	return err
}

// reach is how far a judgement looks back, and what is known of tasks whose events it may not see.
type reach struct {
	since time.Time         // what reached Kafka before is not read
	first []string          // task ids whose events are read whatever else there is of their subject
	ended []history.Pending // tasks that were noted to have no end and have one now, or that are judged elsewhere
	drift drift             // what is known of task ids that stand under several keys
}

// told is what a judgement tells of the tasks of its subjects.
type told struct {
	tasks []history.Pending // how each stands, as far as it was read
	cut   []history.Subject // subjects of which not all was read
}

func (t *told) add(more told) {
	t.tasks, t.cut = append(t.tasks, more.tasks...), append(t.cut, more.cut...)
}

// judgeAll reads the histories of subjects, as far as the reach goes, and stores what they come to.
func (e *Engine) judgeAll(ctx context.Context, subjects []history.Subject, r reach, at moment) (told, error) {
	var all told
	for some := range slices.Chunk(subjects, chunk) {
		came, err := e.judgeChunk(ctx, some, r, at)
		if err != nil {
			return told{}, err
		}
		all.add(came)
	}
	return all, nil
}

// judgeChunk does so for as many as are read at once, after the subjects under which some of their tasks are judged.
func (e *Engine) judgeChunk(ctx context.Context, subjects []history.Subject, r reach, at moment) (told, error) {
	judges, drift, err := e.judges(ctx, subjects, r, at)
	if err != nil {
		return told{}, err
	}
	r.drift = drift
	var elsewhere told
	for some := range slices.Chunk(drift.elsewhere(subjects), chunk) {
		more, _, err := e.judges(ctx, some, r, at)
		if err != nil {
			return told{}, err
		}
		came, err := e.conclude(ctx, more, r, at)
		if err != nil {
			return told{}, err
		}
		elsewhere.add(came)
	}
	r.ended = slices.Concat(r.ended, elsewhere.tasks)
	came, err := e.conclude(ctx, judges, r, at)
	came.add(elsewhere)
	return came, err
}

// conclude stores what judges come to.
func (e *Engine) conclude(ctx context.Context, judges []*judge, r reach, at moment) (told, error) {
	judges, err := e.lookFurther(ctx, judges, r, at)
	if err != nil {
		return told{}, err
	}
	came := judgement{ended: r.ended, since: r.since, now: at.now}
	for _, j := range judges {
		if s := j.history.Subject; j.cut {
			came.cut = append(came.cut, s)
		} else {
			came.whole = append(came.whole, s)
		}
		v := j.verdict()
		came.former = append(came.former, formerly(j.history)...)
		came.found, came.tasks = append(came.found, v.findings...), append(came.tasks, v.tasks...)
	}
	if err := e.settle(ctx, came); err != nil {
		return told{}, err
	}
	if err := e.savePending(ctx, came.tasks); err != nil {
		return told{}, err
	}
	return told{came.tasks, came.cut}, nil
}

// since is the arrival time from which on the past of keys is read whose oldest change arrived then: the look-back for the
// effects, and as much again for the runs that did them. It does not go by the clock: what was long on its way is judged
// like any other.
func (e *Engine) since(oldest time.Time, at moment) time.Time {
	if at.past {
		if at.from.IsZero() {
			return time.Time{}
		}
		oldest = at.from
	}
	return oldest.Add(-2*e.config.longestLookBack() - 24*time.Hour)
}

// grace is how long after the last word of a task reached Kafka further ones may still be on their way, by another path.
func (m moment) grace() time.Duration {
	if m.past {
		return 0
	}
	return 10 * time.Second
}

// limit is the moment after which nothing is known: never, for a look at the present, since a sender's clock may run ahead.
func (m moment) limit() time.Time {
	if m.past {
		return m.now
	}
	return m.now.AddDate(100, 0, 0)
}
