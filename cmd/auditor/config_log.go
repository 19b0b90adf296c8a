package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"auditor/cmd/auditor/config"
	"auditor/event/view"
)

// configRecorder notes what the rules go by, so that everybody can tell later why they found what they found.
type configRecorder struct {
	effective config.Effective
	store     configLog
	log       *slog.Logger
}

// configLog is what was noted so far.
type configLog interface {
	ConfigLog(ctx context.Context, limit int) ([]view.ConfigChange, error)
	LogConfig(ctx context.Context, c view.ConfigChange) error
}

// run notes it, where it is another configuration than the last that was noted. While the store does not answer it tries
// again; the rules do not wait for it.
func (r *configRecorder) run(ctx context.Context) error {
	for failing := false; ; failing = true {
		err := r.record(ctx, time.Now().UTC())
		if err == nil || ctx.Err() != nil {
			return nil
		}
		if !failing {
			r.log.Warn("the configuration of the rules can't be noted, trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(10 * time.Second):
		}
	}
}

// record notes the configuration as of now, where it differs from the last.
func (r *configRecorder) record(ctx context.Context, now time.Time) error {
	last, err := r.store.ConfigLog(ctx, 1)
	if err != nil {
		return err
	}
	change := view.ConfigChange{Time: now.Truncate(time.Microsecond), Digest: r.effective.Digest, Section: r.effective.Section, Program: version}
	if len(last) > 0 {
		if last[0].Digest == change.Digest {
			return nil
		}
		if change.Changed, err = config.Differences(last[0].Section, change.Section); err != nil {
			return err
		}
		if !change.Time.After(last[0].Time) { // a clock that is behind
			change.Time = last[0].Time.Add(time.Microsecond)
		}
	}
	if err := r.store.LogConfig(ctx, change); err != nil {
		return err
	}
	r.log.Info("the rules go by a configuration that is new", "digest", change.Digest)
	return nil
}

type configLogCommand struct {
	storeAccess
	Limit int  `default:"20" help:"How many at most, the newest (${default})."`
	JSON  bool `name:"json" help:"Print one JSON object a change, with the whole configuration."`
}

// Run tells what the rules went by, and when it changed.
func (l configLogCommand) Run(env *environment) error {
	if l.Limit < 1 {
		return usageError{fmt.Errorf("--limit: must be 1 or more, not %d", l.Limit)}
	}
	a, err := l.open(env)
	if err != nil {
		return err
	}
	defer a.stop()
	all, err := a.store.ConfigLog(env.ctx, l.Limit)
	if err != nil {
		return err
	}
	if len(all) == 0 && !l.JSON {
		_, err = fmt.Fprintln(env.stdout, "The rules have not begun yet.")
		return err
	}
	for _, c := range all {
		if l.JSON {
			err = printLine(env.stdout, c)
		} else {
			_, err = fmt.Fprint(env.stdout, configChangeText(c))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// configChangeText tells a change to a person.
func configChangeText(c view.ConfigChange) string {
	text := fmt.Sprintf("%s  %s  by auditor %s\n", moment(c.Time), printable(c.Digest), printable(c.Program))
	if c.Changed == "" {
		return text + "  the first that was noted\n"
	}
	for line := range strings.SplitSeq(c.Changed, "\n") {
		text += "  " + printable(line) + "\n"
	}
	return text
}
