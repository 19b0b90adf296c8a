package rules

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"auditor/event"
	"auditor/event/history"
)

// judges rebuilds the histories of subjects and gathers what is known besides: whatever a judge needs is read here, so that
// to judge is pure. Besides them it gives which of their tasks stand under several subjects.
func (e *Engine) judges(ctx context.Context, subjects []history.Subject, r reach, at moment) ([]*judge, drift, error) {
	events, err := e.store.Histories(ctx, subjects, history.Extent{Since: r.since, Limit: e.config.MaxKeyEvent, Tasks: r.first})
	if err != nil {
		return nil, drift{}, fmt.Errorf("read histories: %w", err)
	}
	cut := map[history.Subject]bool{}
	for _, s := range subjects {
		cut[s] = len(events[s]) >= e.config.MaxKeyEvent
	}
	d, err := e.drift(ctx, r.drift, subjects, events)
	if err != nil {
		return nil, drift{}, err
	}
	if err := e.bringTogether(ctx, d, subjects, events, r.since); err != nil {
		return nil, drift{}, err
	}
	p99, err := e.runTimes(ctx, at)
	if err != nil {
		return nil, drift{}, err
	}
	var judges []*judge
	for _, s := range subjects {
		past := d.of(s, events[s])
		if at.past {
			past = before(past, at.now)
		}
		j := &judge{config: &e.config, history: history.Build(s, past), asOf: at.known, grace: at.grace(), cut: cut[s], p99: p99, drifted: d.under(s)}
		judges = append(judges, j)
	}
	if err := e.inform(ctx, judges, at); err != nil {
		return nil, drift{}, err
	}
	if err := e.summarise(ctx, judges, r, at); err != nil {
		return nil, drift{}, err
	}
	return judges, d, nil
}

// lookFurther judges anew, by all that is kept, where a run stood aside for work of which nothing was read: it may have been done
// long before.
func (e *Engine) lookFurther(ctx context.Context, judges []*judge, r reach, at moment) ([]*judge, error) {
	if r.since.IsZero() {
		return judges, nil
	}
	var subjects []history.Subject
	judges = slices.DeleteFunc(judges, func(j *judge) bool {
		further := j.leftToTheUnseen()
		if further {
			subjects = append(subjects, j.history.Subject)
		}
		return further
	})
	if len(subjects) == 0 {
		return judges, nil
	}
	r.since = time.Time{}
	anew, _, err := e.judges(ctx, subjects, r, at)
	return append(judges, anew...), err
}

// inform tells judges what is known of the workers and emitters of their histories, and of their tasks.
func (e *Engine) inform(ctx context.Context, judges []*judge, at moment) error {
	if err := e.hear(ctx, judges, at); err != nil {
		return err
	}
	if err := e.count(ctx, judges, at); err != nil {
		return err
	}
	if err := e.learnEffects(ctx, judges, at); err != nil {
		return err
	}
	var err error
	for _, j := range judges {
		if j.awaitsAnother() {
			if j.gapsOfAll, err = e.namespaceGaps(ctx, j.history.Subject.Namespace, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// learnEffects tells judges which effects the tasks do that did some and did not succeed.
func (e *Engine) learnEffects(ctx context.Context, judges []*judge, at moment) error {
	tasks := map[string][]string{} // by namespace
	for _, j := range judges {
		of := j.history.Subject.Namespace
		tasks[of] = append(tasks[of], partialSuspects(j.history)...)
	}
	for namespace, names := range tasks {
		slices.Sort(names)
		usual, err := e.usualEffects(ctx, namespace, slices.Compact(names), at)
		if err != nil {
			return err
		}
		for _, j := range judges {
			if j.history.Subject.Namespace == namespace {
				j.usual = usual
			}
		}
	}
	return nil
}

// hearing is what is asked at once of the workers' lives: for histories of one namespace whose unfinished runs began at about
// the same time.
type hearing struct {
	namespace string
	hour      time.Time
}

// hear tells judges what was heard of the workers of runs without an end, which decides what became of those.
func (e *Engine) hear(ctx context.Context, judges []*judge, at moment) error {
	asked := map[hearing][]*judge{}
	workers, since := map[hearing][]string{}, map[hearing]time.Time{}
	for _, j := range judges {
		names, from := unfinishedWorkers(j.history)
		from = from.Add(-hearBefore).Truncate(history.Slice)
		of := hearing{j.history.Subject.Namespace, from.Truncate(time.Hour)}
		if len(names) == 0 {
			j.pulse = pulse{}
			continue
		}
		asked[of] = append(asked[of], j)
		if since[of].IsZero() || from.Before(since[of]) {
			since[of] = from
		}
		for _, w := range names {
			if !slices.Contains(workers[of], w) {
				workers[of] = append(workers[of], w)
			}
		}
	}
	for of, all := range asked {
		signals, err := e.store.Signals(ctx, of.namespace, workers[of], since[of])
		if err != nil {
			return fmt.Errorf("read what was heard of the workers: %w", err)
		}
		for _, j := range all {
			j.pulse = newPulse(own(signals, j), at.limit())
		}
	}
	return nil
}

// hearBefore is how long before a run the signs of life of its worker are heard, from which their usual interval shows.
const hearBefore = 2 * time.Minute

// own keeps the signals that a judge would have asked for alone, so that nothing depends on what is judged beside it.
func own(signals []history.Signal, j *judge) []history.Signal {
	workers, from := unfinishedWorkers(j.history)
	from = from.Add(-hearBefore).Truncate(history.Slice)
	var kept []history.Signal
	for _, s := range signals {
		if !s.First.Before(from) && slices.Contains(workers, s.Worker) {
			kept = append(kept, s)
		}
	}
	return kept
}

// count tells judges what is missing of the numbers of those who told of runs without an end.
func (e *Engine) count(ctx context.Context, judges []*judge, at moment) error {
	emitters := map[string][]string{} // by namespace
	for _, j := range judges {
		of := j.history.Subject.Namespace
		for _, emitter := range emittersOf(j.history) {
			if !slices.Contains(emitters[of], emitter) {
				emitters[of] = append(emitters[of], emitter)
			}
		}
	}
	for namespace, names := range emitters {
		gaps, err := e.store.Gaps(ctx, namespace, names, e.numbersSince(at))
		if err != nil {
			return fmt.Errorf("read the emitters' numbers: %w", err)
		}
		for _, j := range judges {
			if j.history.Subject.Namespace == namespace {
				j.gaps = gaps
			}
		}
	}
	return nil
}

// namespaceGaps gives what is missing of the numbers of all emitters of a namespace. It changes slowly, and is read again after
// a minute.
func (e *Engine) namespaceGaps(ctx context.Context, namespace string, at moment) ([]history.Gap, error) {
	if known, ok := e.learned.gaps[namespace]; ok && at.now.Sub(known.at).Abs() < time.Minute {
		return known.gaps, nil
	}
	emitters, err := e.store.Emitters(ctx, e.numbersSince(at))
	if err != nil {
		return nil, fmt.Errorf("find who numbers events: %w", err)
	}
	gaps, err := e.store.Gaps(ctx, namespace, emitters[namespace], e.numbersSince(at))
	if err != nil {
		return nil, fmt.Errorf("read the emitters' numbers: %w", err)
	}
	e.learned.gaps[namespace] = gapsAt{at.now, gaps}
	return gaps, nil
}

type gapsAt struct {
	at   time.Time
	gaps []history.Gap
}

// drift is which task ids of some subjects stand under several business keys. Such an id is judged under the first of them.
type drift struct {
	keys map[history.TaskID][]string
}

// drift adds to what is known of it the task ids among events of subjects with a business key that stand under several of them.
func (e *Engine) drift(ctx context.Context, known drift, subjects []history.Subject, events map[history.Subject][]event.Event) (drift, error) {
	var ids []history.TaskID
	seen := map[history.TaskID]bool{}
	for _, s := range subjects {
		for _, ev := range events[s] {
			id := history.TaskID{Namespace: s.Namespace, ID: ev.TaskID}
			if s.BusinessKey != "" && ev.TaskID != "" && !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
	}
	if len(ids) == 0 {
		return known, nil
	}
	keys, err := e.store.Drifted(ctx, ids)
	if err != nil {
		return drift{}, fmt.Errorf("find the keys of tasks: %w", err)
	}
	maps.Copy(keys, known.keys)
	return drift{keys}, nil
}

// bringTogether adds to the events of each subject those of its task ids that stand under further keys.
func (e *Engine) bringTogether(ctx context.Context, d drift, subjects []history.Subject, events map[history.Subject][]event.Event, since time.Time) error {
	homes := map[history.TaskID]history.Subject{}
	for id := range d.keys {
		if home := d.home(id); slices.Contains(subjects, home) {
			homes[id] = home
		}
	}
	for some := range slices.Chunk(slices.Collect(maps.Keys(homes)), driftAtOnce) {
		others, ids := map[history.Subject]bool{}, []string{}
		for _, id := range some {
			ids = append(ids, id.ID)
			for _, key := range d.keys[id] {
				others[history.Subject{Namespace: id.Namespace, BusinessKey: key}] = true
			}
		}
		found, err := e.store.Histories(ctx, slices.Collect(maps.Keys(others)), history.Extent{Since: since, Limit: maxDriftEvents, Tasks: ids})
		if err != nil {
			return fmt.Errorf("read the events of tasks under their other keys: %w", err)
		}
		for s, all := range found {
			for _, ev := range all {
				id := history.TaskID{Namespace: s.Namespace, ID: ev.TaskID}
				home := homes[id]
				if slices.Contains(some, id) && s != home && ev.BusinessKey != "" && len(events[home]) < 2*e.config.MaxKeyEvent {
					events[home] = append(events[home], ev)
				}
			}
		}
	}
	return nil
}

const (
	driftAtOnce    = 20  // task ids whose events under further keys are read at once
	maxDriftEvents = 200 // events that are read of each further key
)

// home is the subject under which a task id is judged.
func (d drift) home(id history.TaskID) history.Subject {
	return history.Subject{Namespace: id.Namespace, BusinessKey: d.keys[id][0]}
}

// of gives those of a subject's events that are judged under it.
func (d drift) of(s history.Subject, events []event.Event) []event.Event {
	if len(d.keys) == 0 || s.BusinessKey == "" {
		return events
	}
	return slices.DeleteFunc(events, func(e event.Event) bool {
		keys := d.keys[history.TaskID{Namespace: s.Namespace, ID: e.TaskID}]
		return len(keys) > 0 && keys[0] != s.BusinessKey
	})
}

// under gives the keys of the task ids that are judged under s.
func (d drift) under(s history.Subject) map[string][]string {
	under := map[string][]string{}
	for id, keys := range d.keys {
		if id.Namespace == s.Namespace && keys[0] == s.BusinessKey {
			under[id.ID] = keys
		}
	}
	return under
}

// elsewhere gives the subjects besides those under which task ids are judged.
func (d drift) elsewhere(subjects []history.Subject) []history.Subject {
	also := map[history.Subject]bool{}
	for id := range d.keys {
		if home := d.home(id); !slices.Contains(subjects, home) {
			also[home] = true
		}
	}
	return slices.Collect(maps.Keys(also))
}

// learned is what was measured of the tasks: it changes slowly, and is measured again now and then.
type learned struct {
	effects map[[2]string][]string // by namespace and task
	asked   map[[2]string]time.Time
	p99     map[string]time.Duration
	p99At   time.Time
	gaps    map[string]gapsAt // by namespace
}

func newLearned() learned {
	return learned{effects: map[[2]string][]string{}, asked: map[[2]string]time.Time{}, gaps: map[string]gapsAt{}}
}

const (
	learnAgain  = 10 * time.Minute // after which what was measured of a task is measured again
	learnAtOnce = 100              // tasks that are measured along with others
	mostLearned = 10_000           // tasks of which it is remembered: a name may be made anew for each job
)

// usualEffects gives the effects that tasks do: as they are configured or, where they are not, as they were learned.
func (e *Engine) usualEffects(ctx context.Context, namespace string, tasks []string, at moment) (map[string][]string, error) {
	usual := map[string][]string{}
	var ask []string
	for _, task := range tasks {
		if own := e.config.of(task).Effects; len(own) > 0 {
			usual[task] = own
			continue
		}
		of := [2]string{namespace, task}
		if asked, ok := e.learned.asked[of]; !ok || at.now.Sub(asked).Abs() >= learnAgain {
			ask = append(ask, task)
		} else {
			usual[task] = e.learned.effects[of]
		}
	}
	if len(ask) == 0 {
		return usual, nil
	}
	for of, asked := range e.learned.asked { // what must be measured soon is measured along with it
		if of[0] == namespace && len(ask) < learnAtOnce && !slices.Contains(ask, of[1]) && at.now.Sub(asked).Abs() >= learnAgain/2 {
			ask = append(ask, of[1])
		}
	}
	if len(e.learned.asked) > mostLearned {
		e.learned.effects, e.learned.asked = map[[2]string][]string{}, map[[2]string]time.Time{}
	}
	learned, err := e.store.UsualEffects(ctx, namespace, ask, e.learnedSince(at), at.limit(), e.config.Partial.Runs, e.config.Partial.Share)
	if err != nil {
		return nil, fmt.Errorf("learn which effects tasks do: %w", err)
	}
	for _, task := range ask {
		of := [2]string{namespace, task}
		e.learned.effects[of], e.learned.asked[of] = learned[task], at.now
		usual[task] = learned[task]
	}
	return usual, nil
}

// runTimes gives the p99 of the tasks' run times, where a rule goes by it.
func (e *Engine) runTimes(ctx context.Context, at moment) (map[string]time.Duration, error) {
	if !e.config.goesByRunTimes() {
		return nil, nil
	}
	if e.learned.p99 != nil && at.now.Sub(e.learned.p99At).Abs() < learnAgain {
		return e.learned.p99, nil
	}
	p99, err := e.store.RunTimes(ctx, e.learnedSince(at), at.limit())
	if err != nil {
		return nil, fmt.Errorf("learn how long tasks run: %w", err)
	}
	e.learned.p99, e.learned.p99At = p99, at.now
	return p99, nil
}

// learnedSince is the arrival time from which on tasks are measured: a week.
func (e *Engine) learnedSince(at moment) time.Time {
	if at.past {
		return time.Time{}
	}
	return at.now.AddDate(0, 0, -7)
}

// numbersSince is the arrival time from which on emitters' numbers are read.
func (e *Engine) numbersSince(at moment) time.Time {
	if at.past {
		return time.Time{}
	}
	return at.now.Add(-e.config.longestLookBack())
}
