package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"auditor/cmd/auditor/config"
	"auditor/embedded/clickhouse"
	"auditor/event"
	"auditor/event/reject"
	"auditor/event/view"
	"auditor/queries"
)

type rejectsCommand struct {
	List   rejectsList   `cmd:"" help:"List the records that could not be read as events."`
	Show   rejectsShow   `cmd:"" help:"Show one of them, and what became of it."`
	Replay rejectsReplay `cmd:"" help:"Send some through again, as they are or mended."`
	Purge  rejectsPurge  `cmd:"" help:"Delete what some of them hold."`
}

// storeAccess is how commands reach the store of an auditor that may be running.
type storeAccess struct {
	Data     string `placeholder:"DIR" help:"Directory of what the embedded servers keep (data)."`
	Embedded bool   `help:"Reach the embedded engine, where no ClickHouse is configured, whether an auditor runs on it or not."`
}

// open opens the store, as part of an app that the caller stops.
func (r storeAccess) open(env *environment) (*app, error) {
	c, err := env.load(func(c *config.Config) { c.Log.Level = "warn" }, map[string]string{"data": r.Data})
	if err != nil {
		return nil, err
	}
	if len(c.ClickHouse.Addresses) == 0 && !r.Embedded {
		return nil, missing("clickhouse.addresses")
	}
	a := newApp(c, []string{roleIngest}, env.logger(c.Log), prometheus.NewRegistry())
	if err := a.attachStore(env.ctx); err != nil {
		return nil, errors.Join(err, a.stop())
	}
	have, want, err := a.store.SchemaVersion(env.ctx)
	if err == nil && have < want {
		err = fmt.Errorf("the schema of %s has version %d, this program needs %d: bring it up to date with auditor migrate", a.store.Database(), have, want)
	}
	if err != nil {
		return nil, errors.Join(err, a.stop())
	}
	return a, nil
}

// attachStore opens ClickHouse, or the embedded engine: that of an auditor which runs on the same data, or else one of its own.
func (a *app) attachStore(ctx context.Context) error {
	if len(a.config.ClickHouse.Addresses) > 0 {
		return a.openStore(ctx)
	}
	dial, running := clickhouse.Attach(ctx, filepath.Join(a.config.Data, "clickhouse"))
	if !running {
		err := a.openStore(ctx)
		if errors.Is(err, clickhouse.ErrInUse) {
			err = fmt.Errorf("%w; reach it through embedded.clickhouse_listen of the auditor that runs there, with clickhouse.addresses and clickhouse.protocol: http", err)
		}
		return err
	}
	a.attached = true
	c := a.config.ClickHouse
	c.Addresses = []string{"embedded:0"} // never dialled: dial is
	store, err := queries.Open(c, queries.Options{Logger: a.log, DialContext: func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }})
	if err != nil {
		return err
	}
	a.store = store
	a.onStop("store", func(context.Context) error { return store.Close() })
	return nil
}

// rejectsChoice chooses rejects by what they are.
type rejectsChoice struct {
	Topic     string   `placeholder:"TOPIC" help:"Of this topic only."`
	Partition *int32   `placeholder:"N" help:"Of this partition only."`
	Reason    []string `placeholder:"REASON" help:"For these reasons only."`
	Since     string   `placeholder:"TIME" help:"Whose Kafka timestamp is then or later: RFC 3339, Unix seconds, or a length of time before now such as 24h."`
	Until     string   `aliases:"before" placeholder:"TIME" help:"Whose Kafka timestamp is before then; also --before."`
}

func (r rejectsChoice) isEmpty() bool {
	return r.Topic == "" && r.Partition == nil && len(r.Reason) == 0 && r.Since == "" && r.Until == ""
}

// filter reads the choice, of rejects in certain states.
func (r rejectsChoice) filter(states []string) (view.RejectFilter, error) {
	f := view.RejectFilter{Topic: r.Topic, Partition: r.Partition}
	var errs []error
	if r.Partition != nil && *r.Partition < 0 { // to the store it would mean every partition
		errs = append(errs, fmt.Errorf("--partition: must be 0 or more, not %d", *r.Partition))
	}
	for _, reason := range r.Reason {
		if !slices.Contains(event.Reasons, event.Reason(reason)) {
			errs = append(errs, fmt.Errorf("--reason: must be among %s, not %q", joined(event.Reasons), reason))
		}
		f.Reasons = append(f.Reasons, event.Reason(reason))
	}
	for _, state := range states {
		if state == "any" {
			f.States = nil
			break
		}
		if !slices.Contains(reject.States, reject.State(state)) {
			errs = append(errs, fmt.Errorf("--state: must be among %s, or any, not %q", joined(reject.States), state))
		}
		f.States = append(f.States, reject.State(state))
	}
	var err error
	now := time.Now()
	if f.Since, err = momentBefore("--since", r.Since, now); err != nil {
		errs = append(errs, err)
	}
	if f.Until, err = momentBefore("--until", r.Until, now); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return f, usageError{err}
	}
	return f, nil
}

func joined[T ~string](all []T) string {
	words := make([]string, len(all))
	for i, word := range all {
		words[i] = string(word)
	}
	return strings.Join(words, ", ")
}

// momentBefore reads RFC 3339, Unix seconds, or a length of time before now; empty text is no moment.
func momentBefore(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil && !t.IsZero() {
		return t.UTC(), nil
	}
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds >= 0 && seconds <= 9e9 {
		return time.UnixMicro(int64(seconds * 1e6)).UTC(), nil
	}
	return time.Time{}, fmt.Errorf("%s: must be a time such as 2026-03-04T05:06:07Z, Unix seconds, or a length of time before now such as 24h, not %q", flag, text)
}

// positionsOf reads positions.
func positionsOf(texts []string) ([]event.Position, error) {
	var all []event.Position
	for _, text := range texts {
		at, err := event.ParsePosition(text)
		if err != nil {
			return nil, usageError{err}
		}
		if slices.Contains(all, at) {
			return nil, usageError{fmt.Errorf("%s is given twice", text)}
		}
		all = append(all, at)
	}
	return all, nil
}

// rejectAt gives the one reject at a position.
func rejectAt(ctx context.Context, store *queries.Store, at event.Position) (reject.Reject, error) {
	all, err := store.RejectsAt(ctx, at)
	switch {
	case err != nil:
		return reject.Reject{}, err
	case len(all) == 0:
		return reject.Reject{}, fmt.Errorf("%s: there is no such reject", event.FormatPosition(at))
	case len(all) > 1:
		return reject.Reject{}, fmt.Errorf("%s: the record has %d rejects, from %s to %s: name one of them", event.FormatPosition(at), len(all),
			event.FormatPosition(all[0].Position), event.FormatPosition(all[len(all)-1].Position))
	}
	return all[0], nil
}

// rejectsBy is who does something to rejects, and why.
type rejectsBy struct {
	By   string `placeholder:"NAME" help:"Who asks for it, for the log; the name of the user that runs the command, if not given."`
	Note string `placeholder:"TEXT" help:"Why, for the log."`
}

// check gives the name and the note.
func (r rejectsBy) check(env *environment) (by, note string, err error) {
	by = caller(env, r.By)
	switch {
	case len(by) > reject.LongestBy:
		err = usageError{fmt.Errorf("--by: must have at most %d bytes", reject.LongestBy)}
	case len(r.Note) > reject.LongestNote:
		err = usageError{fmt.Errorf("--note: must have at most %d bytes", reject.LongestNote)}
	}
	return by, r.Note, err
}
