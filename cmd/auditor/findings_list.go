package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"auditor/event/finding"
	"auditor/event/view"
)

type findingsList struct {
	storeAccess
	Rule      string  `placeholder:"RULE" help:"Of this rule only."`
	State     string  `default:"live" placeholder:"STATE" help:"In this state only: open, acknowledged, resolved, several with commas, live (the first two) or any (${default})."`
	Severity  string  `placeholder:"SEVERITY" help:"Of this severity only: critical, warning or info."`
	Cause     string  `placeholder:"CAUSE" help:"Of this cause only."`
	Task      string  `placeholder:"TASK" help:"Of this task, or task id, only."`
	Key       string  `placeholder:"KEY" help:"Of this business key only."`
	Namespace *string `placeholder:"NAME" help:"Of this namespace only; the empty text is the default one."`
	Assignee  string  `placeholder:"NAME" help:"That this person shall see to."`
	Silenced  string  `default:"no" placeholder:"WHICH" help:"Whether a silence keeps them silent: no, yes or any (${default})."`
	Incident  string  `placeholder:"ID" help:"That belong to this incident."`
	Text      string  `placeholder:"TEXT" help:"With this in the title, key or cause."`
	Since     string  `placeholder:"TIME" help:"Last seen then or later: RFC 3339, Unix seconds, or a length of time before now such as 24h."`
	Sort      string  `default:"severity" placeholder:"ORDER" help:"severity, recent, oldest or effects (${default})."`
	Limit     int     `default:"100" help:"How many at most; 0: all (${default})."`
	JSON      bool    `name:"json" help:"Print one JSON object a finding, not a table."`
}

// filter reads what was asked for.
func (l findingsList) filter() (view.FindingFilter, error) {
	f := view.FindingFilter{Rule: l.Rule, Severity: finding.Severity(l.Severity), Cause: l.Cause, Namespace: l.Namespace, Task: l.Task,
		BusinessKey: l.Key, Text: l.Text, Assignee: l.Assignee, Incident: l.Incident, Order: view.Order(l.Sort)}
	var errs []error
	must := func(ok bool, flag, allowed, got string) {
		if !ok {
			errs = append(errs, fmt.Errorf("--%s: must be %s, not %q", flag, allowed, got))
		}
	}
	switch l.State {
	case "any":
	case "live":
		f.States = []finding.State{finding.Open, finding.Acknowledged}
	default:
		for one := range strings.SplitSeq(l.State, ",") {
			must(slices.Contains(finding.States, finding.State(one)), "state", "open, acknowledged, resolved, live or any", one)
			f.States = append(f.States, finding.State(one))
		}
	}
	if l.Silenced != "any" {
		f.Silenced = new(l.Silenced == "yes")
	}
	must(slices.Contains([]string{"no", "yes", "any"}, l.Silenced), "silenced", "no, yes or any", l.Silenced)
	must(slices.Contains([]string{"", "critical", "warning", "info"}, l.Severity), "severity", "critical, warning or info", l.Severity)
	must(slices.Contains(view.Orders, f.Order), "sort", "severity, recent, oldest or effects", l.Sort)
	must(l.Limit >= 0, "limit", "0 or more", fmt.Sprint(l.Limit))
	var err error
	if f.Since, err = momentBefore("--since", l.Since, time.Now()); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return f, usageError{err}
	}
	return f, nil
}

// Run lists the findings that were asked for.
func (l findingsList) Run(env *environment) error {
	filter, err := l.filter()
	if err != nil {
		return err
	}
	a, err := l.open(env)
	if err != nil {
		return err
	}
	defer a.stop()
	table := tabwriter.NewWriter(env.stdout, 0, 0, 2, ' ', 0)
	shown, total := 0, 0
	for more := true; more; {
		filter.Limit = listPage
		if l.Limit > 0 {
			filter.Limit = min(listPage, l.Limit-shown)
		}
		page, err := a.store.Pages().Findings(env.ctx, filter)
		if err != nil {
			return err
		}
		for _, f := range page.Items {
			if l.JSON {
				err = printLine(env.stdout, f)
			} else {
				err = findingRow(table, f, shown == 0)
			}
			if err != nil {
				return err
			}
			shown++
		}
		total, filter.Cursor = max(total, page.Total), page.NextCursor
		more = page.NextCursor != "" && (l.Limit == 0 || shown < l.Limit)
	}
	if l.JSON {
		return nil
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if total == 0 {
		_, err = fmt.Fprintln(env.stdout, "No finding fits.")
		return err
	}
	_, err = fmt.Fprintf(env.stdout, "\n%s shown of %d.\n", count(shown, "finding"), total)
	return err
}

func findingRow(w io.Writer, f finding.Finding, first bool) error {
	if first {
		fmt.Fprintln(w, "ID\tSEVERITY\tSTATE\tRULE\tCAUSE\tTASK\tKEY\tLAST SEEN\tWHAT")
	}
	_, err := fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.ID, f.Severity, howItStands(f), printable(f.Rule), orDash(cause(f)),
		orDash(f.Task), orDash(short(key(f), shownText)), moment(f.LastSeen), printable(f.Title))
	return err
}

type findingsShow struct {
	storeAccess
	JSON bool   `name:"json" help:"Print one JSON object, with the log under log."`
	ID   string `arg:"" help:"Id of a finding."`
}

// Run shows one finding whole.
func (s findingsShow) Run(env *environment) error {
	a, err := s.open(env)
	if err != nil {
		return err
	}
	defer a.stop()
	f, err := a.store.Pages().Finding(env.ctx, s.ID)
	if err != nil {
		return ofFinding(s.ID, err)
	}
	log, err := a.store.Pages().FindingLog(env.ctx, s.ID)
	if err != nil {
		return err
	}
	if s.JSON {
		return printLine(env.stdout, loggedFinding{f, log})
	}
	return printFinding(env.stdout, f, log)
}

// loggedFinding is a finding with its log beside its fields.
type loggedFinding struct {
	finding.Finding
	log []finding.Change
}

func (l loggedFinding) MarshalJSON() ([]byte, error) {
	out, err := json.Marshal(l.Finding)
	if err != nil {
		return nil, err
	}
	log, err := json.Marshal(l.log)
	if err != nil {
		return nil, err
	}
	return slices.Concat(out[:len(out)-1], []byte(`,"log":`), log, []byte("}")), nil
}

func printFinding(w io.Writer, f finding.Finding, log []finding.Change) error {
	facts := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fact := func(name, value string) { fmt.Fprintf(facts, "%s\t%s\n", name, value) }
	fact("finding", f.ID)
	fact("rule", printable(f.Rule))
	fact("severity", string(f.Severity))
	fact("state", howItStands(f))
	fact("cause", orDash(cause(f)))
	fact("namespace", orDash(f.Namespace))
	fact("task", orDash(f.Task))
	fact("key", orDash(key(f)))
	fact("first seen", moment(f.FirstSeen))
	fact("last seen", moment(f.LastSeen))
	for _, e := range f.Evidence {
		fact("shown by", moment(e.Time)+" "+printable(strings.Join(slices.DeleteFunc([]string{e.Says, string(e.Type), e.Worker, e.TaskID},
			func(s string) bool { return s == "" }), ", ")))
	}
	for _, c := range log {
		fact("history", moment(c.Time)+" "+changeText(c))
	}
	if err := facts.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n%s\n%s\n", printable(f.Title), printable(f.Explanation), printable(f.Remedy))
	return err
}

// changeText is one line of a finding's log.
func changeText(c finding.Change) string {
	text := map[finding.Action]string{finding.Found: "found", finding.Acknowledge: "acknowledged", finding.Resolve: "resolved",
		finding.Reopen: "reopened"}[c.What()]
	switch {
	case c.What() == finding.Assign && c.Assignee == "":
		text = "assigned to nobody"
	case c.What() == finding.Assign:
		text = "assigned to " + printable(c.Assignee)
	case c.From == c.To || text == "":
		text = "comment"
	}
	if c.Note == "" || c.Note == text {
		return text + " by " + printable(c.By)
	}
	return text + " by " + printable(c.By) + ": " + printable(c.Note)
}
