package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"auditor/cmd/auditor/config"
	"auditor/event/userrule"
	"auditor/queries"
)

type rulesCommand struct {
	List  rulesList  `cmd:"" help:"List the rules, built-in and your own, and how they fare."`
	Check rulesCheck `cmd:"" help:"Say what is wrong with rules that you wrote."`
	Test  rulesTest  `cmd:"" help:"Show what a rule that you wrote would find now."`
}

type rulesCheck struct {
	storeAccess
	Files []string `arg:"" name:"file" help:"Files with a rule each."`
}

// Run checks each file: what it says by itself, and its query by asking an engine, which is the configured one, or else one of
// its own.
func (r rulesCheck) Run(env *environment) error {
	all, err := config.ReadUserRules(r.Files)
	errs := []error{err}
	if len(all) > 0 {
		store, done, err := r.anyStore(env)
		if err != nil {
			return err
		}
		defer done()
		for i := range all {
			columns, err := checkRule(env.ctx, store, &all[i])
			if err != nil {
				errs = append(errs, err)
				continue
			}
			var own []string
			for _, c := range columns {
				own = append(own, c.Name)
			}
			fmt.Fprintf(env.stdout, "%s: good: %s looks back %s every %s; its query gives %s\n", all[i].File, all[i].Name, shortSpan(all[i].Window),
				shortSpan(all[i].Interval), printable(strings.Join(own, ", ")))
		}
	}
	return errors.Join(errs...)
}

// anyStore opens the store of the configuration, or an empty one that is gone afterwards.
func (r rulesCheck) anyStore(env *environment) (*queries.Store, func(), error) {
	c, err := env.load(nil, nil)
	if err != nil {
		return nil, nil, err
	}
	if len(c.ClickHouse.Addresses) > 0 || r.Embedded {
		a, err := r.open(env)
		if err != nil {
			return nil, nil, err
		}
		return a.store, func() { _ = a.stop() }, nil
	}
	s, err := openScratch(env.ctx, c)
	if err != nil {
		return nil, nil, err
	}
	return s.store, s.close, nil
}

// checkRule checks a rule's query. The error says where in the file it lies.
func checkRule(ctx context.Context, store *queries.Store, r *userrule.Rule) ([]userrule.Column, error) {
	columns, err := store.UserRuleColumns(ctx, r)
	if err != nil {
		return nil, placed(r, err)
	}
	return columns, config.UserRuleErrors(r, r.CheckColumns(columns))
}

// placed says where in the file an error lies, if it lies there.
func placed(r *userrule.Rule, err error) error {
	if errors.As(err, new(*queries.UserRuleError)) {
		return config.UserRuleErrors(r, err)
	}
	return err
}

type rulesTest struct {
	storeAccess
	File  string        `arg:"" help:"File with the rule."`
	Since time.Duration `placeholder:"LENGTH" help:"Look so far back, such as 24h; as the rule says, if not given."`
	JSON  bool          `name:"json" help:"Print one JSON object a finding, not a table."`
}

// Run evaluates a rule once, and prints what it finds. It writes nothing.
func (r rulesTest) Run(env *environment) error {
	all, err := config.ReadUserRules([]string{r.File})
	if err != nil {
		return err
	}
	rule := &all[0]
	if r.Since < 0 {
		return usageError{errors.New("--since: must be longer than 0")}
	}
	a, err := r.open(env)
	if err != nil {
		return err
	}
	defer a.stop()
	if _, err := checkRule(env.ctx, a.store, rule); err != nil {
		return err
	}
	maker, err := userrule.NewMaker(*rule)
	if err != nil {
		return err
	}
	until := time.Now().UTC()
	from := until.Add(-cmp.Or(r.Since, rule.Window))
	rows, read, err := a.store.TryUserRule(env.ctx, rule, from, until)
	took := time.Since(until)
	if err != nil {
		return placed(rule, err)
	}
	found, err := maker.Findings(rows)
	if err != nil {
		return err
	}
	sortFindings(found)
	if r.JSON {
		return printJSON(env.stdout, found)
	}
	did := fmt.Sprintf("%s, from %s on: about %s read in %s, nothing written.", rule.Name, from.Format(time.RFC3339), count(int(read), "row"), took.Round(time.Millisecond))
	return printTable(env.stdout, found, did, until)
}

// shortSpan writes a duration without what is zero of it: 1h, not 1h0m0s.
func shortSpan(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
