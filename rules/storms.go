package rules

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"auditor/event/finding"
	"auditor/event/history"
)

// storms is what is known of the retry storms of whole tasks. The zero value knows of none.
type storms struct {
	found   map[storm]bool // those that have a finding
	waiting map[storm]bool // those of them that may have grown since they were judged
	next    time.Time      // when these are judged at the earliest
}

// storm is a retry storm of a task: a finding is about one kind and one day.
type storm struct {
	kind string
	history.Task
	day time.Time
}

const (
	// stormShare bounds what a storm costs that goes on: to judge anew what is known takes one in so many parts of the time at most.
	stormShare = 20
	// stormMemory is how long it is known that a storm has a finding.
	stormMemory = 14 * day
	// longestGap is how long before a retry the one before it may lie.
	longestGap = day
)

// stormOf tells which storm a finding is about.
func stormOf(f finding.Finding) storm {
	s := storm{f.Fields["kind"].(string), history.Task{Namespace: f.Namespace, Name: f.Task}, f.FirstSeen.UTC().Truncate(day)}
	if s.kind == kindSurge {
		s.day = f.LastSeen.UTC().Truncate(day)
	}
	return s
}

// due tells which known storms are to be judged anew.
func (s *storms) due(now time.Time) []storm {
	if now.Before(s.next) {
		return nil
	}
	return slices.Collect(maps.Keys(s.waiting))
}

// add notes that a storm may have begun or grown, and reports whether it is a new one.
func (s *storms) add(of storm) bool {
	if !s.found[of] {
		return true
	}
	if s.waiting == nil {
		s.waiting = map[storm]bool{}
	}
	s.waiting[of] = true
	return false
}

// stormy is what the judgement of some storms came to.
type stormy struct {
	findings []finding.Finding
	judged   []storm
	since    time.Time // what lies before it may not have been seen
	took     time.Duration
}

// note remembers what was judged and stored.
func (s *storms) note(came stormy, now time.Time) {
	if s.found == nil {
		s.found = map[storm]bool{}
	}
	for _, of := range came.judged {
		delete(s.waiting, of)
	}
	for _, f := range came.findings {
		s.found[stormOf(f)] = true
	}
	maps.DeleteFunc(s.found, func(of storm, _ bool) bool { return now.Sub(of.day) > stormMemory+day })
	if len(came.judged) > 0 {
		s.next = later(s.next, now.Add(stormShare*came.took))
	}
}

// allStorms judges the retries of all tasks, from the beginning of a day on; the zero time is all of them.
func (e *Engine) allStorms(ctx context.Context, from time.Time, at moment) (stormy, error) {
	came := stormy{since: from}
	if !from.IsZero() {
		came.since = from.Add(-e.config.RetrySurge.Window)
	}
	lockStep, err := e.lockStep(ctx, nil, from, at)
	if err != nil {
		return stormy{}, err
	}
	surging, err := e.surging(ctx, nil, from, at)
	came.findings = slices.Concat(lockStep, surging)
	return came, err
}

// newStorms judges the storms that may have begun by what is new, and at times those that are known and may have grown. Whether there
// may be any is told by the last minutes of retries; only then are the tasks judged, by all that they did on the day.
func (e *Engine) newStorms(ctx context.Context, at moment) (stormy, error) {
	begun := time.Now()
	judged, err := e.mayBeStorms(ctx, at)
	if err != nil {
		return stormy{}, err
	}
	judged = append(judged, e.populations.storms.due(at.now)...)
	if len(judged) == 0 {
		return stormy{since: at.now}, nil
	}
	came := stormy{judged: judged, since: judged[0].day}
	tasks, from := map[string][]history.Task{}, map[string]time.Time{}
	for _, s := range judged {
		if len(tasks[s.kind]) == 0 {
			from[s.kind] = s.day
		}
		if !slices.Contains(tasks[s.kind], s.Task) {
			tasks[s.kind] = append(tasks[s.kind], s.Task)
		}
		from[s.kind], came.since = earlier(from[s.kind], s.day), earlier(came.since, s.day)
	}
	came.since = came.since.Add(-e.config.RetrySurge.Window)
	for kind, judge := range map[string]func(context.Context, []history.Task, time.Time, moment) ([]finding.Finding, error){
		kindSynchronised: e.lockStep, kindSurge: e.surging} {
		if len(tasks[kind]) == 0 {
			continue
		}
		found, err := judge(ctx, tasks[kind], from[kind], at)
		if err != nil {
			return stormy{}, err
		}
		came.findings = append(came.findings, found...)
	}
	came.took = time.Since(begun)
	return came, nil
}

// lockStep judges the waves of retries of some tasks from the beginning of a day on.
func (e *Engine) lockStep(ctx context.Context, tasks []history.Task, from time.Time, at moment) ([]finding.Finding, error) {
	read := from
	if !from.IsZero() {
		read = from.Add(-time.Hour) // clocks that differ may move a wave across midnight
	}
	waves, err := e.waves(ctx, tasks, read, at)
	waves = slices.DeleteFunc(waves, func(w history.Wave) bool { return w.Second.Before(from) })
	return synchronised(&e.config, waves), err
}

// waves reads the waves of retries of some tasks; by how much clocks differ is told by whole hours.
func (e *Engine) waves(ctx context.Context, tasks []history.Task, from time.Time, at moment) ([]history.Wave, error) {
	back := from
	if !from.IsZero() {
		from = from.Truncate(time.Hour)
		back = from.Add(-longestGap)
	}
	waves, err := e.store.Waves(ctx, history.Population{Tasks: tasks, From: from, Until: at.limit()}, back, e.config.LockStep.Tasks, e.config.ClockSkew)
	if err != nil {
		return nil, fmt.Errorf("read the waves of retries: %w", err)
	}
	return waves, nil
}

// surging judges the retries by minute of some tasks from the beginning of a day on.
func (e *Engine) surging(ctx context.Context, tasks []history.Task, from time.Time, at moment) ([]finding.Finding, error) {
	read := from
	if !from.IsZero() {
		read = from.Add(-e.config.RetrySurge.Window - e.config.RetrySurge.Base)
	}
	minutes, err := e.minutes(ctx, tasks, read, at)
	return surges(&e.config, minutes, from), err
}

func (e *Engine) minutes(ctx context.Context, tasks []history.Task, from time.Time, at moment) ([]history.Minute, error) {
	minutes, err := e.store.Minutes(ctx, history.Population{Tasks: tasks, From: from, Until: at.limit()}, e.config.RetrySurge.Retries)
	if err != nil {
		return nil, fmt.Errorf("read the retries by minute: %w", err)
	}
	return minutes, nil
}
