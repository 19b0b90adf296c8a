package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"auditor/event/finding"
	"auditor/event/view"
)

type findingsCommand struct {
	List    findingsList    `cmd:"" help:"List what was found."`
	Show    findingsShow    `cmd:"" help:"Show one finding: why the auditor thinks so, and what became of it."`
	Ack     findingsAck     `cmd:"" aliases:"acknowledge" help:"Say that somebody sees to findings."`
	Assign  findingsAssign  `cmd:"" help:"Say who shall see to findings."`
	Comment findingsComment `cmd:"" help:"Write a comment into the log of findings."`
	Resolve findingsResolve `cmd:"" help:"Say that findings are over. New evidence opens them again."`
	Reopen  findingsReopen  `cmd:"" help:"Open findings again."`
}

// findingsAct is what all commands take that do something to findings.
type findingsAct struct {
	storeAccess
	By      string   `placeholder:"NAME" help:"Who does it, for the log; the name of the user that runs the command, if not given."`
	Request string   `placeholder:"ID" help:"An id of your own for this request, under which it is done once, however often it is asked for."`
	JSON    bool     `name:"json" help:"Print the findings as they are then, one JSON object a line."`
	IDs     []string `arg:"" name:"id" help:"Ids of findings."`
}

// findingsNote is why, where it may be left out.
type findingsNote struct {
	Note string `placeholder:"TEXT" help:"Why, for the log."`
}

type findingsAck struct {
	findingsAct
	findingsNote
}

type findingsResolve struct {
	findingsAct
	findingsNote
}

type findingsReopen struct {
	findingsAct
	findingsNote
}

type findingsComment struct {
	findingsAct
	Note string `required:"" placeholder:"TEXT" help:"The comment."`
}

type findingsAssign struct {
	findingsAct
	findingsNote
	To  string  `required:"" placeholder:"NAME" help:"Who shall see to them; the empty text: nobody."`
	Was *string `placeholder:"NAME" help:"Only if that is who shall see to them until now; the empty text: nobody."`
}

// Run acknowledges findings.
func (c findingsAck) Run(env *environment) error {
	return c.do(env, finding.Act{Action: finding.Acknowledge, Note: c.Note})
}

// Run resolves findings.
func (c findingsResolve) Run(env *environment) error {
	return c.do(env, finding.Act{Action: finding.Resolve, Note: c.Note})
}

// Run opens findings again.
func (c findingsReopen) Run(env *environment) error {
	return c.do(env, finding.Act{Action: finding.Reopen, Note: c.Note})
}

// Run comments on findings.
func (c findingsComment) Run(env *environment) error {
	return c.do(env, finding.Act{Action: finding.Comment, Note: c.Note})
}

// Run assigns findings.
func (c findingsAssign) Run(env *environment) error {
	return c.do(env, finding.Act{Action: finding.Assign, Assignee: strings.TrimSpace(c.To), Was: c.Was, Note: c.Note})
}

// do does the same to each finding, and tells how each stands then. One that it cannot be done to keeps no other back.
func (c findingsAct) do(env *environment, a finding.Act) error {
	a.By, a.Note, a.Request = caller(env, c.By), strings.TrimSpace(a.Note), c.Request
	if err := a.Validate(); err != nil {
		return usageError{fmt.Errorf("--%w", err)}
	}
	store, err := c.open(env)
	if err != nil {
		return err
	}
	defer store.stop()
	var errs []error
	for _, id := range c.IDs {
		a.FindingID, a.Time = id, time.Now().UTC()
		if err := store.store.Act(env.ctx, a); err != nil {
			errs = append(errs, ofFinding(id, err))
			continue
		}
		f, err := store.store.Pages().Finding(env.ctx, id)
		if err != nil {
			return err
		}
		if c.JSON {
			err = printLine(env.stdout, f)
		} else {
			_, err = fmt.Fprintf(env.stdout, "%s  %s  %s\n", id, howItStands(f), printable(f.Title))
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}

// ofFinding says which finding an error is about.
func ofFinding(id string, err error) error {
	if errors.Is(err, view.ErrNotFound) {
		err = errors.New("there is no such finding")
	}
	return fmt.Errorf("%s: %w", id, err)
}

// howItStands is a finding's state and what else sets it apart.
func howItStands(f finding.Finding) string {
	text := string(f.State)
	if f.Assignee != "" {
		text += ", assigned to " + printable(f.Assignee)
	}
	if f.Silenced != nil {
		text += ", silenced until " + moment(f.Silenced.Until)
	}
	return text
}

// caller is who does something: the name given, or that of the user that runs the command.
func caller(env *environment, by string) string {
	return cmp.Or(strings.TrimSpace(by), env.getenv("USER"), env.getenv("LOGNAME"), "cli")
}
