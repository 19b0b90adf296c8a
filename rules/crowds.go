package rules

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"auditor/event/history"
)

// mayBeStorms gives the storms that may have begun by what is new, and notes which of those that are known may have grown. It reads the
// minutes around what is new; of the tasks that retry much in them the hour, or the time that a surge is compared with.
func (e *Engine) mayBeStorms(ctx context.Context, at moment) ([]storm, error) {
	since := e.populations.oldest
	if since.IsZero() {
		return nil, nil
	}
	oldest, any, err := e.store.OldestAttempt(ctx, since)
	if err != nil || !any {
		return nil, wrap("find the oldest new retry", err)
	}
	crowds, err := e.store.Crowds(ctx, oldest.Add(-e.config.RetrySurge.Window-2*time.Minute), at.limit(), since, e.config.waveWidth())
	if err != nil {
		return nil, fmt.Errorf("read how many retry together: %w", err)
	}
	crowded, loud := candidates(&e.config, crowds)
	lockStep, err := e.mayBeLockStep(ctx, e.populations.storms.unknown(kindSynchronised, crowded, e.config.waveWidth()), at)
	if err != nil {
		return nil, err
	}
	surging, err := e.maySurge(ctx, e.populations.storms.unknown(kindSurge, loud, 0), at)
	return slices.Concat(lockStep, surging), err
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// waveWidth is how far apart the retries of one wave may lie as they are told: a second, and the clocks of two hosts.
func (c *Config) waveWidth() time.Duration { return time.Second + 2*c.ClockSkew }

// stretch is the first and the last minute in which a task did something.
type stretch struct{ first, last time.Time }

func (s *stretch) add(minute time.Time) {
	if s.first.IsZero() {
		s.first = minute
	}
	s.last = minute
}

// candidates gives the tasks of which so many ids came close together that it may be a wave, and those that retried so often that it
// may be a surge, each with the minutes in which they did. What has nothing new in it, nor before it, is left out: it was judged.
func candidates(config *Config, crowds []history.Crowd) (crowded, loud map[history.Task]stretch) {
	byTask := map[history.Task][]history.Crowd{}
	for _, c := range crowds {
		if !slices.Contains(config.Polling, c.Task) && config.on(RetryStorm, c.Task) {
			of := history.Task{Namespace: c.Namespace, Name: c.Task}
			byTask[of] = append(byTask[of], c)
		}
	}
	crowded, loud = map[history.Task]stretch{}, map[history.Task]stretch{}
	for of, all := range byTask {
		var news, waves, surges stretch
		retries, first := 0, 0
		for _, c := range all {
			if c.Fresh {
				news.add(c.Minute)
			}
			if c.FreshIDs >= config.LockStep.Tasks || c.IDs >= config.LockStep.Tasks && !news.first.IsZero() && news.first.Before(c.Minute) {
				waves.add(c.Minute)
			}
			retries += c.Retries
			// Retries may be told of the minute before their own.
			for ; all[first].Minute.Before(c.Minute.Add(-config.RetrySurge.Window)); first++ {
				retries -= all[first].Retries
			}
			if retries >= config.RetrySurge.Retries && !news.first.IsZero() {
				surges.add(c.Minute)
			}
		}
		if !waves.first.IsZero() {
			crowded[of] = waves
		}
		if !surges.first.IsZero() {
			loud[of] = surges
		}
	}
	return crowded, loud
}

// unknown leaves out the tasks of which storms of that kind are known on all days that may be concerned, and notes that these may have
// grown. What is told of a minute may have happened a little before it, or up to two minutes after it.
func (s *storms) unknown(kind string, tasks map[history.Task]stretch, before time.Duration) map[history.Task]stretch {
	unknown := map[history.Task]stretch{}
	for of, at := range tasks {
		last := at.last.Add(2 * time.Minute).UTC().Truncate(day)
		for d := at.first.Add(-before).UTC().Truncate(day); !d.After(last); d = d.Add(day) {
			if s.add(storm{kind, of, d}) {
				unknown[of] = at
			}
		}
	}
	return unknown
}

// mayBeLockStep keeps those of the crowded tasks of which a wave is in lock-step: one may be the first of several.
func (e *Engine) mayBeLockStep(ctx context.Context, crowded map[history.Task]stretch, at moment) ([]storm, error) {
	if len(crowded) == 0 {
		return nil, nil
	}
	waves, err := e.waves(ctx, slices.Collect(maps.Keys(crowded)), firstOf(crowded), at)
	if err != nil {
		return nil, err
	}
	var storms []storm
	for of, lockStep := range inLockStep(&e.config, waves) {
		last := lockStep[len(lockStep)-1]
		if last.Second.Before(crowded[of.Task].first.Add(-e.config.waveWidth())) {
			continue // nothing of it is new
		}
		if s := (storm{kindSynchronised, of.Task, last.Second.UTC().Truncate(day)}); e.populations.storms.add(s) && !slices.Contains(storms, s) {
			storms = append(storms, s)
		}
	}
	return storms, nil
}

// maySurge keeps those of the tasks that retry that do so more than they run and, of these, more than before.
func (e *Engine) maySurge(ctx context.Context, loud map[history.Task]stretch, at moment) ([]storm, error) {
	if len(loud) == 0 {
		return nil, nil
	}
	since, window := firstOf(loud), e.config.RetrySurge.Window
	minutes, err := e.minutes(ctx, slices.Collect(maps.Keys(loud)), since.Add(-window), at)
	if err != nil {
		return nil, err
	}
	more := map[history.Task]bool{}
	for _, w := range surgeWindows(&e.config, minutes, since) {
		more[w.of] = true
	}
	if len(more) == 0 {
		return nil, nil
	}
	minutes, err = e.minutes(ctx, slices.Collect(maps.Keys(more)), since.Add(-window-e.config.RetrySurge.Base), at)
	if err != nil {
		return nil, err
	}
	var storms []storm
	for _, f := range surges(&e.config, minutes, since) {
		if s := stormOf(f); e.populations.storms.add(s) {
			storms = append(storms, s)
		}
	}
	return storms, nil
}

func firstOf(tasks map[history.Task]stretch) time.Time {
	var first time.Time
	for _, at := range tasks {
		if first.IsZero() || at.first.Before(first) {
			first = at.first
		}
	}
	return first
}
