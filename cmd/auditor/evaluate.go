package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"auditor/cmd/auditor/config"
	"auditor/embedded/clickhouse"
	"auditor/event"
	"auditor/event/finding"
	"auditor/queries"
	"auditor/rules"
)

type evaluateCommand struct {
	AsOf  string   `placeholder:"TIME" help:"Moment of judgement, RFC 3339 or Unix seconds; what happened after it counts for nothing. Now, if not given."`
	JSON  bool     `name:"json" help:"Print one JSON object a finding, not a table."`
	Files []string `arg:"" name:"file" help:"Files of events in any accepted format: JSON lines, or one JSON array; - is standard input."`
}

// Run judges the files and prints what was found. What could not be read is told on standard error and changes the exit
// code only when nothing could be read at all.
func (e evaluateCommand) Run(env *environment) error {
	asOf, err := parseMoment(e.AsOf)
	if err != nil {
		return usageError{err}
	}
	c, err := env.load(nil, nil)
	if err != nil {
		return err
	}
	decoder, err := event.NewDecoder(c.Decoder())
	if err != nil {
		return err
	}
	scratch, err := openScratch(env.ctx, c)
	if err != nil {
		return err
	}
	defer scratch.close()
	in := &intake{store: scratch.store, decoder: decoder, warn: env.stderr, kafkaTime: later(time.Now(), asOf)}
	if err := in.readFiles(env.ctx, e.Files, env.stdin); err != nil {
		return err
	}
	if in.events == 0 {
		return fmt.Errorf("no event could be read (%d rejected)", in.rejects)
	}
	found, err := judge(env.ctx, c, scratch.store, asOf)
	if err != nil {
		return err
	}
	if e.JSON {
		return printJSON(env.stdout, found)
	}
	return printTable(env.stdout, found, in.summary(), asOf)
}

// parseMoment reads RFC 3339 or Unix seconds; empty text is now.
func parseMoment(text string) (time.Time, error) {
	if text == "" {
		return time.Now().UTC(), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t.UTC(), nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || seconds < 0 || seconds > 9e9 {
		return time.Time{}, fmt.Errorf("--as-of: must be a time such as 2026-03-04T05:06:07Z, or Unix seconds, not %q", text)
	}
	return time.UnixMicro(int64(seconds * 1e6)).UTC(), nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func judge(ctx context.Context, c config.Config, store *queries.Store, asOf time.Time) ([]finding.Finding, error) {
	engine, err := rules.New(c.RuleConfig(), store, discardLog, prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	found, err := engine.Evaluate(ctx, asOf)
	if err != nil {
		return nil, err
	}
	sortFindings(found)
	return found, nil
}

// sortFindings puts the gravest first, and of those the oldest.
func sortFindings(found []finding.Finding) { slices.SortFunc(found, gravest) }

func gravest(a, b finding.Finding) int {
	severities := []finding.Severity{finding.Critical, finding.Warning, finding.Info}
	return cmp.Or(
		cmp.Compare(slices.Index(severities, a.Severity), slices.Index(severities, b.Severity)),
		a.FirstSeen.Compare(b.FirstSeen),
		cmp.Compare(a.ID, b.ID))
}

// scratch is a store that nothing else uses and that is gone afterwards.
type scratch struct {
	engine *clickhouse.Engine
	store  *queries.Store
}

// openScratch starts an engine on a temporary directory. The engine removes the directory when it ends, also when this
// process is killed.
func openScratch(ctx context.Context, c config.Config) (*scratch, error) {
	dir, err := os.MkdirTemp("", "auditor-evaluate-")
	if err != nil {
		return nil, err
	}
	engine, err := clickhouse.Start(ctx, clickhouse.Config{Data: dir, Temporary: true, Logger: discardLog})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	s := &scratch{engine: engine}
	settings := queries.DefaultConfig()
	settings.RetentionDays = 0
	settings.QueryTimeout = c.ClickHouse.QueryTimeout
	s.store, err = queries.Open(settings, queries.Options{
		DialContext: func(ctx context.Context, _ string) (net.Conn, error) { return engine.Dial(ctx) },
	})
	if err == nil {
		_, err = s.store.Migrate(ctx)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *scratch) close() {
	if s.store != nil {
		_ = s.store.Close() // nothing of it is kept
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	_ = s.engine.Stop(ctx) // the child has been killed where this fails
}

func printJSON(w io.Writer, found []finding.Finding) error {
	for _, f := range found {
		line, err := json.Marshal(f)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%s\n", line); err != nil {
			return err
		}
	}
	return nil
}
