package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"auditor/cmd/auditor/config"
	"auditor/event/finding"
	"auditor/queries"
	"auditor/rules"
)

type replayCommand struct {
	storeAccess
	From    string   `required:"" placeholder:"TIME" help:"Where the window begins: RFC 3339, Unix seconds, or a length of time before now such as 24h."`
	To      string   `placeholder:"TIME" help:"Where it ends, and the moment of judgement: what happened or reached Kafka later counts for nothing. Now, if not given."`
	Rule    []string `placeholder:"RULE" help:"Only what these rules find."`
	Compare string   `placeholder:"FILE" help:"Compare with what is found under the rules and tasks of this configuration, on the same past. Nothing is written."`
	DryRun  bool     `help:"Write nothing."`
	JSON    bool     `name:"json" help:"Print one JSON object a finding, not a table."`
}

// Run judges a window of the past, prints what is found, and writes it unless told otherwise.
func (r replayCommand) Run(env *environment) error {
	w, err := r.window(time.Now())
	if err != nil {
		return err
	}
	for _, rule := range r.Rule {
		if !slices.Contains(rules.Names, rule) {
			return usageError{fmt.Errorf("--rule: must be among %s, not %q", strings.Join(rules.Names, ", "), rule)}
		}
	}
	var other config.Config
	if r.Compare != "" {
		with := *env
		with.configFile = r.Compare
		if other, err = with.load(nil, nil); err != nil {
			return err
		}
	}
	a, err := r.open(env)
	if err != nil {
		return err
	}
	defer a.stop()
	if err := tellKept(env, a.store, w); err != nil {
		return err
	}
	found, err := r.replay(env.ctx, a.config, a.store, w)
	if err != nil {
		return err
	}
	heading := fmt.Sprintf("Replayed %s to %s", w.From.Format(time.RFC3339), w.To.Format(time.RFC3339))
	if r.Compare != "" {
		others, err := r.replay(env.ctx, other, a.store, w)
		if err != nil {
			return err
		}
		return comparison{nameA: rulesOf(env.configFile), nameB: rulesOf(r.Compare), a: found, b: others}.print(env.stdout, heading, r.JSON)
	}
	return r.tell(env, a.store, found, heading+" by "+rulesOf(env.configFile))
}

// window reads --from and --to.
func (r replayCommand) window(now time.Time) (rules.Window, error) {
	from, err := momentBefore("--from", r.From, now)
	if err != nil {
		return rules.Window{}, usageError{err}
	}
	to, err := momentBefore("--to", r.To, now)
	if err != nil {
		return rules.Window{}, usageError{err}
	}
	if to.IsZero() {
		to = now
	}
	switch {
	case from.IsZero():
		return rules.Window{}, usageError{fmt.Errorf("--from: must be a time such as 2026-03-04T05:06:07Z")}
	case to.Before(from):
		return rules.Window{}, usageError{fmt.Errorf("--to: %s is before --from, %s", to.UTC().Format(time.RFC3339), from.UTC().Format(time.RFC3339))}
	case to.After(now):
		return rules.Window{}, usageError{fmt.Errorf("--to: %s is yet to come", to.UTC().Format(time.RFC3339))}
	}
	return rules.Window{From: from.UTC(), To: to.UTC()}, nil
}

// rulesOf names whose rules judge.
func rulesOf(file string) string { return cmp.Or(file, "defaults and environment") }

// tellKept says when the window reaches further back than the store knows which keys changed. It is an error when all of the
// window does.
func tellKept(env *environment, store *queries.Store, w rules.Window) error {
	changes, events, err := store.KeptSince(env.ctx)
	switch {
	case err != nil:
		return err
	case events.IsZero():
		return fmt.Errorf("%s holds no event", store.Database())
	}
	note, err := kept(changes, events, w)
	if note != "" {
		_, err = fmt.Fprintf(env.stderr, "auditor: %s\n", note)
	}
	return err
}

// kept judges a window by the oldest change of a key and the oldest event that are there.
func kept(changes, events time.Time, w rules.Window) (note string, err error) {
	const rule = "which keys changed is kept for two weeks"
	switch {
	case changes.IsZero():
		return "", errors.New(rule + ", and nothing did since")
	case !events.Before(changes) || !w.From.Before(changes):
		return "", nil
	case w.To.Before(changes):
		return "", fmt.Errorf("%s, here since %s: the window ends before", rule, changes.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("%s, here since %s: of what is older, only keys that changed since are judged", rule, changes.UTC().Format(time.RFC3339)), nil
}

// replay gives what the rules of a configuration find in the window, the gravest first.
func (r replayCommand) replay(ctx context.Context, c config.Config, store *queries.Store, w rules.Window) ([]finding.Finding, error) {
	found, err := rules.Replay(ctx, c.RuleConfig(), store.AsOf(w.To), w)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(f finding.Finding) bool { return len(r.Rule) > 0 && !slices.Contains(r.Rule, f.Rule) })
	sortFindings(found)
	return found, nil
}

// tell writes the findings, unless this is a dry run, and prints them with what became of each.
func (r replayCommand) tell(env *environment, store *queries.Store, found []finding.Finding, heading string) error {
	outcomes, err := rules.Outcomes(env.ctx, store, found)
	if err == nil && !r.DryRun {
		outcomes, err = rules.Keep(env.ctx, store, found, time.Now().UTC())
	}
	if err != nil {
		return err
	}
	if r.JSON {
		return printReplayJSON(env.stdout, found, outcomes)
	}
	return r.printTable(env.stdout, found, outcomes, heading)
}

func printReplayJSON(w io.Writer, found []finding.Finding, outcomes []rules.Outcome) error {
	for i, f := range found {
		line, err := json.Marshal(f)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s,\"stored\":%q}\n", line[:len(line)-1], outcomes[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r replayCommand) printTable(w io.Writer, found []finding.Finding, outcomes []rules.Outcome, heading string) error {
	if _, err := fmt.Fprintf(w, "%s.\n\n", heading); err != nil {
		return err
	}
	if len(found) == 0 {
		_, err := fmt.Fprintln(w, "Nothing was found.")
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SEVERITY\tRULE\tCAUSE\tTASK\tKEY\tFIRST SEEN\tSTORED\tWHAT")
	counts := map[rules.Outcome]int{}
	for i, f := range found {
		counts[outcomes[i]]++
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.Severity, f.Rule, orDash(cause(f)), orDash(f.Task),
			orDash(key(f)), f.FirstSeen.UTC().Format("2006-01-02 15:04:05Z"), outcomes[i], printable(f.Title))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	written := "Written are those that are new or grown"
	if r.DryRun {
		written = "Nothing was written (--dry-run)"
	}
	_, err := fmt.Fprintf(w, "\n%s: %d new, %d grown, %d known already. %s. With --json: why, and the events that show it.\n",
		count(len(found), "finding"), counts[rules.IsNew], counts[rules.IsGrown], counts[rules.IsKnown], written)
	return err
}
