package main

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"auditor/event/finding"
	"auditor/event/silence"
	"auditor/event/view"
)

type silenceCommand struct {
	Add  silenceAdd  `cmd:"" help:"Keep findings silent for a while: they are found and kept, but not counted as trouble."`
	List silenceList `cmd:"" help:"List silences."`
	End  silenceEnd  `cmd:"" help:"End silences before their time."`
}

type silenceAdd struct {
	storeAccess
	Rule      string `placeholder:"PATTERN" help:"Of this rule only. In each pattern * stands for any text."`
	Task      string `placeholder:"PATTERN" help:"Of this task only."`
	Namespace string `default:"*" placeholder:"PATTERN" help:"Of this namespace only; the empty text is the default one."`
	Key       string `placeholder:"PATTERN" help:"Of this business key only, or task id where there is no key."`
	Worker    string `placeholder:"PATTERN" help:"With an event of this worker only."`
	Severity  string `placeholder:"SEVERITY" help:"Of this severity only: critical, warning or info."`
	Until     string `required:"" placeholder:"WHEN" help:"Until when: RFC 3339, or a length of time from now such as 8h."`
	By        string `placeholder:"NAME" help:"Who asks for it; the name of the user that runs the command, if not given."`
	Note      string `placeholder:"TEXT" help:"Why."`
	Request   string `placeholder:"ID" help:"An id of your own for this request, under which one silence is made, however often it is asked for."`
	JSON      bool   `name:"json" help:"Print the silence as one JSON object."`
}

// Run makes a silence.
func (s silenceAdd) Run(env *environment) error {
	now := time.Now().UTC()
	one := silence.Silence{From: now, By: caller(env, s.By), Note: strings.TrimSpace(s.Note), Request: s.Request, Matchers: silence.Matchers{
		Rule: s.Rule, Task: s.Task, Namespace: s.Namespace, BusinessKey: s.Key, Worker: s.Worker, Severity: s.Severity}.Filled()}
	var err error
	if one.Until, err = silence.ParseUntil(s.Until, now); err != nil {
		return usageError{fmt.Errorf("--%w", err)}
	}
	if err := one.Validate(); err != nil {
		return usageError{err}
	}
	a, err := s.open(env)
	if err != nil {
		return err
	}
	defer a.stop()
	pages := a.store.Pages()
	if one, err = pages.AddSilence(env.ctx, one); err != nil {
		return err
	}
	page, err := pages.Findings(env.ctx, view.FindingFilter{Silence: one.ID, Limit: 1})
	if err != nil {
		return err
	}
	one.Findings = page.Total
	if s.JSON {
		return printLine(env.stdout, one.Shown(now))
	}
	_, err = fmt.Fprintf(env.stdout, "%s keeps %s silent until %s: %s\n", one.ID, count(one.Findings, "finding"), moment(one.Until),
		printable(one.Matchers.String()))
	return err
}

type silenceList struct {
	storeAccess
	State string `default:"active" placeholder:"STATE" help:"In this state only: active, expired, ended, several with commas, or any (${default})."`
	Limit int    `default:"100" help:"How many at most (${default})."`
	JSON  bool   `name:"json" help:"Print one JSON object a silence, not a table."`
}

// Run lists silences.
func (l silenceList) Run(env *environment) error {
	var states []silence.State
	if l.State != "any" {
		var err error
		if states, err = silence.ParseStates(l.State); err != nil {
			return usageError{fmt.Errorf("--%w", err)}
		}
	}
	if l.Limit < 1 {
		return usageError{fmt.Errorf("--limit: must be 1 or more, not %d", l.Limit)}
	}
	a, err := l.open(env)
	if err != nil {
		return err
	}
	defer a.stop()
	all, err := a.store.Pages().Silences(env.ctx, states, l.Limit)
	if err != nil {
		return err
	}
	if len(all) == 0 && !l.JSON {
		_, err = fmt.Fprintln(env.stdout, "There is no such silence.")
		return err
	}
	table := tabwriter.NewWriter(env.stdout, 0, 0, 2, ' ', 0)
	if !l.JSON {
		fmt.Fprintln(table, "ID\tSTATE\tUNTIL\tFINDINGS\tBY\tWHICH\tWHY")
	}
	now := time.Now()
	for _, one := range all {
		if l.JSON {
			if err := printLine(env.stdout, one.Shown(now)); err != nil {
				return err
			}
			continue
		}
		until := one.Until
		if !one.EndedAt.IsZero() {
			until = one.EndedAt
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", one.ID, one.State(now), moment(until), one.Findings, orDash(one.By),
			printable(one.Matchers.String()), orDash(one.Note))
	}
	return table.Flush()
}

type silenceEnd struct {
	storeAccess
	By   string   `placeholder:"NAME" help:"Who asks for it; the name of the user that runs the command, if not given."`
	Note string   `placeholder:"TEXT" help:"Why."`
	JSON bool     `name:"json" help:"Print the silences as they are then, one JSON object a line."`
	IDs  []string `arg:"" name:"id" help:"Ids of silences."`
}

// Run ends silences.
func (s silenceEnd) Run(env *environment) error {
	by := caller(env, s.By)
	if err := finding.Words(by, s.Note, ""); err != nil {
		return usageError{fmt.Errorf("--%w", err)}
	}
	a, err := s.open(env)
	if err != nil {
		return err
	}
	defer a.stop()
	var errs []error
	for _, id := range s.IDs {
		now := time.Now().UTC()
		one, err := a.store.Pages().EndSilence(env.ctx, id, now, by, strings.TrimSpace(s.Note), "")
		switch {
		case errors.Is(err, view.ErrNotFound):
			errs = append(errs, fmt.Errorf("%s: there is no such silence", id))
			continue
		case err != nil:
			return err
		case s.JSON:
			err = printLine(env.stdout, one.Shown(now))
		default:
			_, err = fmt.Fprintf(env.stdout, "%s is %s: %s\n", id, one.State(now), printable(one.Matchers.String()))
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}
