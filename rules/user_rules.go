package rules

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"auditor/event/finding"
	"auditor/event/userrule"
)

// UserStore is what the rules of users read and write.
type UserStore interface {
	// UserRuleColumns checks a rule's query, and gives the columns that it comes to.
	UserRuleColumns(ctx context.Context, r *userrule.Rule) ([]userrule.Column, error)
	// UserRuleRows runs it.
	UserRuleRows(ctx context.Context, r *userrule.Rule, from, until time.Time) ([]userrule.Row, error)
	// SaveRuleRun stores what became of the newest evaluation.
	SaveRuleRun(ctx context.Context, r userrule.Run) error
	// Findings gives those of the ids that exist.
	Findings(ctx context.Context, ids []string) (map[string]finding.Finding, error)
	// UnresolvedOf gives the findings of a rule that are not resolved.
	UnresolvedOf(ctx context.Context, rule string) ([]finding.Finding, error)
	// SaveFindings stores findings with the changes of state that they went through.
	SaveFindings(ctx context.Context, findings []finding.Finding, changes []finding.Change) error
}

// UserRules evaluates the rules that users wrote, one after the other, each at its interval. What fails is one rule's affair:
// it is logged once, counted and noted, and neither the other rules nor the built-in ones wait for it.
type UserRules struct {
	config  Config // what tasks say of rules
	store   UserStore
	log     *slog.Logger
	metrics *userMetrics
	rules   []*scheduled

	mu      sync.Mutex
	failing map[string]string // why, by rule
}

// scheduled is a rule and when it is evaluated next.
type scheduled struct {
	userrule.Rule
	maker   *userrule.Maker
	checked bool // the engine finds its query good
	next    time.Time
}

// NewUserRules prepares rules that are valid. It starts nothing.
func NewUserRules(all []userrule.Rule, config Config, store UserStore, log *slog.Logger, registerer prometheus.Registerer) (*UserRules, error) {
	m, err := newUserMetrics(registerer)
	if err != nil {
		return nil, err
	}
	u := &UserRules{config: config, store: store, log: log, metrics: m, failing: map[string]string{}}
	for _, r := range all {
		maker, err := userrule.NewMaker(r)
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", r.Name, err)
		}
		u.rules = append(u.rules, &scheduled{Rule: r, maker: maker})
		m.begin(r.Name)
	}
	return u, nil
}

// Run evaluates the rules until ctx ends, and then returns nil.
func (u *UserRules) Run(ctx context.Context) error {
	for len(u.rules) > 0 {
		next := u.look(ctx, time.Now)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Until(next)):
		}
	}
	return nil
}

// look evaluates the rules whose time has come, and tells when the next one's comes.
func (u *UserRules) look(ctx context.Context, now func() time.Time) (next time.Time) {
	for _, r := range u.rules {
		if began := now().UTC(); !r.next.After(began) {
			found, err := u.evaluate(ctx, r, began)
			if ctx.Err() != nil {
				return began
			}
			u.tell(ctx, r, userrule.Run{Rule: r.Name, Time: began, Took: now().Sub(began), Found: found}, err)
			r.next = began.Add(r.Interval)
		}
		if next.IsZero() || r.next.Before(next) {
			next = r.next
		}
	}
	return next
}

// tell says what became of an evaluation to everyone who asks.
func (u *UserRules) tell(ctx context.Context, r *scheduled, run userrule.Run, err error) {
	outcome := "ok"
	if err != nil {
		run.Error, outcome = err.Error(), "error"
	}
	if saved := u.store.SaveRuleRun(ctx, run); err == nil && saved != nil {
		run.Error = saved.Error()
	}
	u.metrics.runs.WithLabelValues(r.Name, outcome).Inc()
	u.mu.Lock()
	was := u.failing[r.Name]
	delete(u.failing, r.Name)
	if run.Error != "" {
		u.failing[r.Name] = run.Error
	}
	u.mu.Unlock()
	switch {
	case run.Error != "" && was == "":
		u.metrics.failing.WithLabelValues(r.Name).Set(1)
		u.log.Error("a user's rule fails, trying again at its interval", "rule", r.Name, "file", r.File, "error", run.Error)
	case run.Error == "" && was != "":
		u.metrics.failing.WithLabelValues(r.Name).Set(0)
		u.log.Info("a user's rule works again", "rule", r.Name)
	}
}

// Note says which rules fail, for a person; empty when none does. It may be called at any time.
func (u *UserRules) Note() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var parts []string
	for _, r := range u.rules {
		if why, ok := u.failing[r.Name]; ok {
			const most = 200
			parts = append(parts, fmt.Sprintf("%s fails: %s", r.Name, strings.ToValidUTF8(why[:min(len(why), most)], "")))
		}
	}
	return strings.Join(parts, "; ")
}

// evaluate runs a rule as of now, and stores what it finds. It gives how many findings that were.
func (u *UserRules) evaluate(ctx context.Context, r *scheduled, now time.Time) (int, error) {
	if !r.checked {
		columns, err := u.store.UserRuleColumns(ctx, &r.Rule)
		if err == nil {
			err = r.CheckColumns(columns)
		}
		if err != nil {
			return 0, err
		}
		r.checked = true
	}
	from := now.Add(-r.Window)
	rows, err := u.store.UserRuleRows(ctx, &r.Rule, from, now)
	if err != nil {
		r.checked = false // its tables may have changed
		return 0, err
	}
	found, err := r.maker.Findings(rows)
	if err != nil {
		return 0, err
	}
	found = u.config.admit(found)
	return len(found), u.settle(ctx, r.Name, found, from, now)
}

// settle stores what a rule found: new findings open, known ones grow, resolved ones open again by new evidence, and those that
// the rule no longer finds, although all of them lies within the window, resolve by themselves.
func (u *UserRules) settle(ctx context.Context, rule string, found []finding.Finding, from, now time.Time) error {
	known, err := knownOf(ctx, u.store, found)
	if err != nil {
		return err
	}
	var changed []finding.Finding
	var log []finding.Change
	note := func(f finding.Finding, before finding.State, why string) {
		if f.State != before {
			log = append(log, finding.Change{FindingID: f.ID, Time: now, From: before, To: f.State, By: byAuditor, Note: why})
		}
	}
	for _, f := range found {
		old, exists := known[f.ID]
		if exists && old.FirstSeen.Before(f.FirstSeen) {
			f.FirstSeen = old.FirstSeen // the window has moved on
		}
		next, why, differs, err := grow(old, exists, f)
		if err != nil {
			return err
		}
		if differs {
			next.UpdatedAt = now
			changed = append(changed, next)
			note(next, old.State, why)
		}
	}
	unresolved, err := u.store.UnresolvedOf(ctx, rule)
	if err != nil {
		return fmt.Errorf("read unresolved findings: %w", err)
	}
	for _, f := range unresolved {
		holds := slices.ContainsFunc(found, func(other finding.Finding) bool { return other.ID == f.ID })
		if holds || f.FirstSeen.Before(from) { // what it rests on may have left the window
			continue
		}
		before := f.State
		f.State, f.UpdatedAt = finding.Resolved, now
		changed = append(changed, f)
		note(f, before, cmp.Or(u.config.leftOut(f), "the rule finds it no longer"))
	}
	if len(changed) == 0 {
		return nil
	}
	if err := u.store.SaveFindings(ctx, changed, log); err != nil {
		return fmt.Errorf("store findings: %w", err)
	}
	return nil
}
