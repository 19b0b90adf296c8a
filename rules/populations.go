package rules

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// populations is how far the tasks as wholes have been judged. The zero value has judged nothing.
type populations struct {
	judgedAt time.Time // when they were last judged
	oldest   time.Time // when the oldest change since then reached Kafka; zero when there is none
	took     time.Duration
}

// populationBack is how long ago storms may have begun that may still grow.
const populationBack = 2 * time.Hour

// populationShare bounds what the populations cost: to judge them takes one in so many parts of the time at most. They read more than
// what is new.
const populationShare = 20

// populationPause is how long to wait between two judgements of the populations: they are judged at every second look, or as often as
// their share of the time allows.
func (e *Engine) populationPause() time.Duration {
	return max(e.config.Interval*3/2, populationShare*e.populations.took)
}

// arrived notes that changes are there of which the oldest reached Kafka at that time.
func (p *populations) arrived(oldest time.Time) {
	if p.oldest.IsZero() || oldest.Before(p.oldest) {
		p.oldest = oldest
	}
}

// judgePopulations judges the tasks as wholes, when there is something new and the last time is long enough ago.
func (e *Engine) judgePopulations(ctx context.Context, at moment) error {
	p := &e.populations
	first := p.judgedAt.IsZero()
	if !at.past && !first && (at.now.Sub(p.judgedAt) < e.populationPause() || p.oldest.IsZero() && !e.gapsDue(at.now)) {
		return nil
	}
	begun := time.Now()
	from := at.from.Truncate(24 * time.Hour)
	if !at.past && !first {
		var err error
		if from, err = e.populationsFrom(ctx, at.now); err != nil {
			return err
		}
	}
	waves, err := e.store.Waves(ctx, from, at.limit(), e.config.LockStep.Tasks, e.config.ClockSkew)
	if err != nil {
		return fmt.Errorf("read the waves of retries: %w", err)
	}
	surgesFrom := from
	if !from.IsZero() {
		surgesFrom = from.Add(-e.config.RetrySurge.Window - e.config.RetrySurge.Base)
	}
	minutes, err := e.store.Minutes(ctx, surgesFrom, at.limit(), e.config.RetrySurge.Retries)
	if err != nil {
		return fmt.Errorf("read the retries by minute: %w", err)
	}
	arrived, changed := e.populations.oldest, e.populations.judgedAt
	if at.past || first {
		arrived, changed = time.Time{}, time.Time{}
	}
	failingFrom := at.from
	if !at.past {
		failingFrom = at.now.Add(-e.config.longestLookBack())
	}
	failing, err := e.store.Failing(ctx, failingFrom, at.limit(), arrived, e.config.leastPermanentIDs(), e.config.Transient)
	if err != nil {
		return fmt.Errorf("read what became of failures: %w", err)
	}
	lost, gone, err := e.lostEvents(ctx, arrived, at)
	if err != nil {
		return err
	}
	found := slices.Concat(synchronised(&e.config, waves), surges(&e.config, minutes), permanentErrors(&e.config, failing), lost)
	found = e.config.admit(found)
	if err := e.settle(ctx, judgement{found: found, gone: gone, since: from, now: at.now}); err != nil {
		return err
	}
	if err := e.judgeIncidents(ctx, changed, at); err != nil {
		return err
	}
	e.populations = populations{judgedAt: at.now, took: time.Since(begun)}
	if first {
		e.populations.took = 0 // all there is was judged, and will not be again
	}
	return nil
}

// populationsFrom gives the beginning of the day from which on the populations are judged: of the last hours or, when
// older retries have only now arrived, of theirs. A finding about a population is about one day.
func (e *Engine) populationsFrom(ctx context.Context, now time.Time) (time.Time, error) {
	from := now.Add(-populationBack)
	oldest, any, err := e.store.OldestAttempt(ctx, e.populations.oldest)
	if err != nil {
		return from, fmt.Errorf("find the oldest new retry: %w", err)
	}
	if any && oldest.Before(from) {
		from = oldest
	}
	return from.Truncate(24 * time.Hour), nil
}
