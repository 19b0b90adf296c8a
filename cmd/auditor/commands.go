package main

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"auditor/cmd/auditor/config"
	"auditor/queries"
)

// version is set at the time of the build: -ldflags "-X main.version=1.2.3".
var version = "dev"

type versionCommand struct{}

// Run prints the version, and the revision that the program was built from where that is known.
func (versionCommand) Run(env *environment) error {
	revision := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = ", revision " + s.Value
			}
		}
	}
	_, err := fmt.Fprintf(env.stdout, "auditor %s (%s, %s/%s%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH, revision)
	return err
}

type configCommand struct {
	Check configCheck      `cmd:"" help:"Say what is wrong with the configuration."`
	Print configPrint      `cmd:"" help:"Print what holds, with secrets as ***."`
	Log   configLogCommand `cmd:"" help:"Tell what the rules went by, and when it changed."`
}

type configCheck struct {
	Connect bool `help:"Ask the ClickHouse server, too, whether it lets the auditor do what it needs."`
}

// Run says that the configuration is good, or everything that is wrong with it.
func (check configCheck) Run(env *environment) error {
	c, err := env.load(nil, nil)
	if err != nil {
		return err
	}
	what := env.configFile
	if what == "" {
		what = "defaults and environment"
	}
	if _, err := fmt.Fprintf(env.stdout, "%s: good\n", what); err != nil {
		return err
	}
	var unnamed []string
	if len(c.Kafka.Brokers) == 0 {
		unnamed = append(unnamed, "kafka.brokers")
	}
	if len(c.ClickHouse.Addresses) == 0 {
		unnamed = append(unnamed, "clickhouse.addresses")
	}
	if len(unnamed) > 0 {
		if _, err = fmt.Fprintf(env.stdout, "no server under %s: run needs --embedded\n", strings.Join(unnamed, " and ")); err != nil {
			return err
		}
	}
	if !check.Connect {
		return nil
	}
	return checkClickHouse(env, c)
}

// checkClickHouse asks the server what it lets the auditor do. It changes nothing there.
func checkClickHouse(env *environment, c config.Config) error {
	if len(c.ClickHouse.Addresses) == 0 {
		return &config.Error{Field: "clickhouse.addresses", Reason: "must name at least one host:port: it is the server that --connect asks"}
	}
	store, err := queries.Open(c.ClickHouse, queries.Options{Logger: env.logger(c.Log)})
	if err != nil {
		return err
	}
	defer store.Close()
	version, err := store.ServerVersion(env.ctx)
	if err != nil {
		return err
	}
	if err := store.Check(env.ctx); err != nil {
		return err
	}
	if err := store.CheckServers(env.ctx); err != nil {
		return err
	}
	have, want, err := store.SchemaVersion(env.ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.stdout, "ClickHouse %s: good; its schema has version %d, this program needs %d\n", version, have, want)
	return err
}

type configPrint struct{}

// Run prints the effective configuration.
func (configPrint) Run(env *environment) error {
	c, err := env.load(nil, nil)
	if err != nil {
		return err
	}
	return c.Print(env.stdout)
}

type migrateCommand struct {
	Data     string `placeholder:"DIR" help:"Directory of what the embedded engine keeps (data)."`
	Embedded bool   `help:"Migrate the embedded engine, where no ClickHouse is configured."`
	Print    bool   `help:"Print the statements that would run, and run none."`
	Again    bool   `help:"Apply every migration, those that were applied too: for a server that is new in a cluster. With --print, print all of them and ask no server."`
}

// Run applies the migrations that the database lacks, or prints them.
func (m migrateCommand) Run(env *environment) error {
	c, err := env.load(nil, map[string]string{"data": m.Data})
	if err != nil {
		return err
	}
	offline := m.Print && m.Again
	if len(c.ClickHouse.Addresses) == 0 && !m.Embedded && !offline {
		return missing("clickhouse.addresses")
	}
	if offline && len(c.ClickHouse.Addresses) == 0 {
		c.ClickHouse.Addresses = []string{"localhost:0"} // never asked
	}
	a := newApp(c, nil, env.logger(c.Log), prometheus.NewRegistry())
	defer a.stop()
	if err := a.openStore(env.ctx); err != nil {
		return err
	}
	if !offline {
		if err := a.store.Wait(env.ctx); err != nil {
			return err
		}
	}
	if m.Print {
		return m.print(env, a.store)
	}
	migrate := a.store.Migrate
	if m.Again {
		migrate = a.store.MigrateAgain
	}
	if a.engine == nil {
		if err := a.store.Check(env.ctx); err != nil {
			return err
		}
	}
	applied, err := migrate(env.ctx)
	if err != nil {
		return err
	}
	for _, name := range applied {
		fmt.Fprintf(env.stdout, "applied %s\n", name)
	}
	_, err = fmt.Fprintf(env.stdout, "%s is up to date\n", a.store.Database())
	return err
}

// print writes statements for clickhouse-client, which runs one after the other.
func (m migrateCommand) print(env *environment, store *queries.Store) error {
	statements, err := store.Plan(env.ctx, m.Again)
	if err != nil {
		return err
	}
	if len(statements) == 0 {
		_, err := fmt.Fprintf(env.stdout, "-- %s is up to date\n", store.Database())
		return err
	}
	use := "USE " + store.Database()
	if strings.HasPrefix(statements[0], "CREATE DATABASE") {
		statements = slices.Insert(statements, 1, use)
	} else {
		statements = slices.Insert(statements, 0, use)
	}
	for _, statement := range statements {
		if _, err := fmt.Fprintf(env.stdout, "%s;\n\n", statement); err != nil {
			return err
		}
	}
	return nil
}

type runCommand struct {
	Roles    []string `default:"ingest,rules,web" help:"What this process does: ingest, rules, web (${default})."`
	Embedded bool     `help:"Run a broker and an engine on this machine in place of each server that is not configured."`
	Listen   string   `placeholder:"HOST:PORT" help:"Address of the pages and the API (127.0.0.1:8080)."`
	Data     string   `placeholder:"DIR" help:"Directory of what the embedded servers keep (data)."`
	LogLevel string   `placeholder:"LEVEL" help:"debug, info, warn or error (info)."`
}

// Run audits until it is told to stop.
func (r runCommand) Run(env *environment) error {
	c, err := env.load(nil, map[string]string{"listen": r.Listen, "data": r.Data, "log.level": r.LogLevel})
	if err != nil {
		return err
	}
	if err := r.check(c); err != nil {
		return err
	}
	a := newApp(c, r.Roles, env.logger(c.Log), newRegistry())
	return a.run(env.ctx)
}

// check says what the roles lack.
func (r runCommand) check(c config.Config) error {
	var errs []error
	for _, role := range r.Roles {
		if !slices.Contains(allRoles, role) {
			errs = append(errs, usageError{fmt.Errorf("--roles: must be among %s, not %q", strings.Join(allRoles, ", "), role)})
		}
	}
	if len(c.Kafka.Brokers) == 0 && !r.Embedded && slices.Contains(r.Roles, roleIngest) {
		errs = append(errs, missing("kafka.brokers"))
	}
	if len(c.ClickHouse.Addresses) == 0 && !r.Embedded {
		errs = append(errs, missing("clickhouse.addresses"))
	}
	return errors.Join(errs...)
}

func missing(field string) error {
	return &config.Error{Field: field, Reason: "must name at least one host:port, or start with --embedded, which needs no server"}
}
