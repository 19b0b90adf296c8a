package rules

import (
	"context"
	"fmt"
	"slices"
	"time"

	"auditor/event/finding"
)

// populations is how far the tasks as wholes have been judged. The zero value has judged nothing.
type populations struct {
	judgedAt time.Time // when they were last judged
	oldest   time.Time // when the oldest change since then reached Kafka; zero when there is none
	storms   storms
}

// populationBack is how long ago findings about populations may have begun that may still grow.
const populationBack = 2 * time.Hour

// arrived notes that changes are there of which the oldest reached Kafka at that time.
func (p *populations) arrived(oldest time.Time) {
	if p.oldest.IsZero() || oldest.Before(p.oldest) {
		p.oldest = oldest
	}
}

// judgedAll reports whether nothing is left to be judged of what has arrived.
func (p *populations) judgedAll() bool { return p.oldest.IsZero() && len(p.storms.waiting) == 0 }

// judgePopulations judges the tasks as wholes at every second look, when there is something new or something that has waited.
func (e *Engine) judgePopulations(ctx context.Context, at moment) error {
	p := &e.populations
	all := at.past || p.judgedAt.IsZero()
	quiet := p.oldest.IsZero() && !e.gapsDue(at.now)
	if !all && (at.now.Sub(p.judgedAt) < e.config.Interval*3/2 || quiet && len(p.storms.due(at.now)) == 0) {
		return nil
	}
	arrived, changed := p.oldest, p.judgedAt
	if all {
		arrived, changed = time.Time{}, time.Time{}
	}
	came, err := e.storms(ctx, all, at)
	if err != nil {
		return err
	}
	var failing, lost []finding.Finding
	var gone []string
	if all || !quiet {
		if failing, err = e.permanentErrors(ctx, all, at); err != nil {
			return err
		}
		if lost, gone, err = e.lostEvents(ctx, arrived, at); err != nil {
			return err
		}
	}
	found := e.config.admit(slices.Concat(came.findings, failing, lost))
	if err := e.settle(ctx, judgement{found: found, gone: gone, since: came.since, now: at.now}); err != nil {
		return err
	}
	if err := e.judgeIncidents(ctx, changed, at); err != nil {
		return err
	}
	p.storms.note(came, at.now)
	p.judgedAt, p.oldest = at.now, time.Time{}
	return nil
}

// storms judges the retries of all tasks, or of those that may be in a storm by what is new.
func (e *Engine) storms(ctx context.Context, all bool, at moment) (stormy, error) {
	if all {
		return e.allStorms(ctx, at.from.Truncate(day), at)
	}
	came, err := e.newStorms(ctx, at)
	came.since = earlier(came.since, at.now.Add(-populationBack).Truncate(day))
	return came, err
}

// permanentErrors judges the types of error that failed anew, or all of them.
func (e *Engine) permanentErrors(ctx context.Context, all bool, at moment) ([]finding.Finding, error) {
	from, since := at.from, time.Time{}
	if !at.past {
		from = at.now.Add(-e.config.longestLookBack())
	}
	if !all {
		if since = e.populations.oldest; since.IsZero() {
			return nil, nil
		}
	}
	errors, err := e.store.FreshErrors(ctx, since, e.config.Transient)
	if err != nil || len(errors) == 0 {
		return nil, wrap("find the types of error that are new", err)
	}
	failing, err := e.store.Failing(ctx, errors, from, at.limit(), e.config.leastPermanentIDs())
	if err != nil {
		return nil, fmt.Errorf("read what became of failures: %w", err)
	}
	return permanentErrors(&e.config, failing), nil
}
