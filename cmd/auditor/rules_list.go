package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"auditor/cmd/auditor/config"
	"auditor/event/finding"
	"auditor/event/userrule"
	"auditor/rules"
)

type rulesList struct {
	storeAccess
	JSON bool `name:"json" help:"Print one JSON object a rule, not a table."`
}

// listed is a rule and how it fares.
type listed struct {
	Rule     string     `json:"rule"`
	Kind     string     `json:"kind"` // built-in or yours
	File     string     `json:"file,omitempty"`
	State    string     `json:"state"` // on, ok, failing, not evaluated yet, unknown
	Unsolved int        `json:"unresolved"`
	LastRun  *time.Time `json:"last_run,omitempty"`
	Seconds  float64    `json:"seconds,omitempty"`
	Found    int        `json:"found,omitempty"`
	Error    string     `json:"error,omitempty"`
}

// Run lists the rules.
func (r rulesList) Run(env *environment) error {
	a, err := r.open(env)
	if err != nil {
		return err
	}
	defer a.stop()
	own, err := a.config.UserRules()
	if err != nil {
		return err
	}
	runs, err := a.store.RuleRuns(env.ctx)
	if err != nil {
		return err
	}
	counts, err := a.store.Pages().FindingCounts(env.ctx)
	if err != nil {
		return err
	}
	unsolved := map[string]int{}
	for _, c := range counts {
		if c.State != finding.Resolved {
			unsolved[c.Rule] += c.Count
		}
	}
	all := listRules(a.config, own, runs, unsolved)
	if r.JSON {
		encoder := json.NewEncoder(env.stdout)
		for _, one := range all {
			if err := encoder.Encode(one); err != nil {
				return err
			}
		}
		return nil
	}
	return printRules(env.stdout, all)
}

// listRules puts together what is known of each rule. A built-in one is on unless a task says otherwise.
func listRules(c config.Config, own []userrule.Rule, runs []userrule.Run, unsolved map[string]int) []listed {
	var all []listed
	for _, name := range rules.Names {
		state, off := "on", 0
		for _, t := range c.Tasks {
			if slices.Contains(t.Rules.Off, name) {
				off++
			}
		}
		if off > 0 {
			state = "on, but for " + count(off, "task")
		}
		all = append(all, listed{Rule: name, Kind: "built-in", State: state, Unsolved: unsolved[name]})
	}
	for _, r := range own {
		one := listed{Rule: r.Name, Kind: "yours", File: r.File, State: "not evaluated yet", Unsolved: unsolved[r.Name]}
		if i := slices.IndexFunc(runs, func(run userrule.Run) bool { return run.Rule == r.Name }); i >= 0 {
			run := runs[i]
			one.State, one.LastRun, one.Seconds, one.Found, one.Error = "ok", &run.Time, run.Took.Seconds(), run.Found, run.Error
			if run.Error != "" {
				one.State = "failing"
			}
		}
		all = append(all, one)
	}
	return all
}

func printRules(w io.Writer, all []listed) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RULE\tKIND\tSTATE\tUNRESOLVED\tLAST RUN\tTOOK\tFILE")
	for _, r := range all {
		last, took := "-", "-"
		if r.LastRun != nil {
			last, took = r.LastRun.UTC().Format("2006-01-02 15:04:05Z"), time.Duration(r.Seconds*float64(time.Second)).Round(time.Millisecond).String()
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Rule, r.Kind, r.State, count(r.Unsolved, "finding"), last, took, orDash(r.File))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, r := range all {
		if r.Error == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n%s: %s\n", r.Rule, printable(r.Error)); err != nil {
			return err
		}
	}
	return nil
}
