package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/alecthomas/kong"

	"auditor/cmd/auditor/config"
	"auditor/embedded/clickhouse"
)

// cli is the command line.
type cli struct {
	ConfigFile string `name:"config" placeholder:"FILE" help:"Configuration file, also AUDITOR_CONFIG. Without one, defaults and the environment hold."`

	Demo     demoCommand     `cmd:"" help:"Run everything on this machine, with a simulated shop that gets into trouble."`
	Run      runCommand      `cmd:"" help:"Audit: read events from Kafka into ClickHouse, judge them, show what was found."`
	Evaluate evaluateCommand `cmd:"" help:"Judge event files, with nothing else running."`
	Replay   replayCommand   `cmd:"" help:"Judge a window of the past again: what would have been found, or by another configuration."`
	Review   reviewCommand   `cmd:"" help:"Review tasks as before production: keys, retries, time-outs, effects."`
	Findings findingsCommand `cmd:"" help:"See what was found, and say what becomes of it."`
	Silence  silenceCommand  `cmd:"" help:"Keep findings silent for a while."`
	Rules    rulesCommand    `cmd:"" help:"List the rules, and see to those that you wrote."`
	Rejects  rejectsCommand  `cmd:"" help:"See to the records that could not be read as events."`
	Emit     emitCommand     `cmd:"" help:"Tell of a task from a shell: one event, a file of them, or the run of a command."`
	Bridge   bridgeCommand   `cmd:"" help:"Carry the events that a queue's own workers send to their broker on to Kafka."`
	Import   importCommand   `cmd:"" help:"Bring what happened before: files of events, of Celery's or Flower's, or CSV."`
	Verify   verifyCommand   `cmd:"" help:"Compare Kafka, the ledger and the tables: is every event stored once?"`
	Config   configCommand   `cmd:"" help:"Check or print the configuration."`
	Migrate  migrateCommand  `cmd:"" help:"Bring the ClickHouse schema up to date."`
	Version  versionCommand  `cmd:"" help:"Print the version."`
	Shop     shopCommand     `cmd:"" help:"Produce the events of the demo's simulated shop to Kafka."`
	Probe    probeCommand    `cmd:"" help:"Ask a running auditor whether it is ready; for health checks."`
}

// environment is what a command has of the world outside.
type environment struct {
	ctx        context.Context
	getenv     func(string) string
	stdin      io.Reader
	stdout     io.Writer
	stderr     io.Writer
	configFile string
}

// exited is how the parser ends the program after it has printed its help.
type exited int

// run carries out one command line.
func run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	defer func() {
		switch code := recover().(type) {
		case nil:
		case exited:
			if code != 0 {
				err = usageError{fmt.Errorf("exit code %d", int(code))}
			}
		default:
			panic(code)
		}
	}()
	if len(args) > 0 && args[0] == clickhouse.Subcommand { // not for people: the auditor starts it itself
		return clickhouse.Child(args[1:])
	}
	var c cli
	parser, err := kong.New(&c,
		kong.Name("auditor"),
		kong.Description("Finds the work that a task queue did twice, too often, or never finished, says why, and proves it."),
		kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		return err
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return usageError{fmt.Errorf("%w (see auditor --help)", err)}
	}
	env := &environment{ctx, getenv, stdin, stdout, stderr, c.ConfigFile}
	if env.configFile == "" {
		env.configFile = getenv("AUDITOR_CONFIG")
	}
	return parsed.Run(env)
}

// load reads the configuration; flags maps field paths to the text given for them, which is no text where the flag was
// not given.
func (e *environment) load(base func(*config.Config), flags map[string]string) (config.Config, error) {
	given := make(map[string]string)
	for path, text := range flags {
		if text != "" {
			given[path] = text
		}
	}
	c, err := config.Load(config.Source{File: e.configFile, Getenv: e.getenv, Base: base, Flags: given})
	if wrong := new(config.Error); errors.As(err, &wrong) && wrong.Origin == config.CommandLine {
		err = usageError{err}
	}
	return c, err
}

// logger writes as the configuration says, to standard error.
func (e *environment) logger(c config.Log) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Level)); err != nil {
		level = slog.LevelInfo // the configuration has been validated
	}
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		return slog.New(slog.NewJSONHandler(e.stderr, options))
	}
	return slog.New(slog.NewTextHandler(e.stderr, options))
}
