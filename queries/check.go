package queries

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// oldestVersion is the first whose settings and functions the statements rest on.
const oldestVersion = "24.8"

const (
	codeReadonly          = 164
	codeSettingConstraint = 452
	codeUnknownSetting    = 115
	codeAccessDenied      = 497
	codeAllReplicasStale  = 369 // or lack the table
	codeSyntax            = 62
)

var (
	macroName = regexp.MustCompile(`\{[^{}]*\}`)
	clusterOf = regexp.MustCompile(`^Distributed\('?([^',]*)`)
)

// Check says what keeps the store from working on this ClickHouse, as far as the server tells: its version, settings that it
// refuses or does not follow, rights that are missing (those for migrations only where there are any to apply), tables that
// were made in another layout, and of a cluster that it is there, and that the servers' macros tell shards and replicas
// apart. All that is wrong is told at once. What is wrong stays wrong until a person acts, save that a server does not answer.
//
// A server of a cluster that is away is not missed.
func (s *Store) Check(ctx context.Context) error {
	if err := s.checkSettings(ctx); err != nil {
		return err // no request would go through
	}
	exists, err := s.findLayout(ctx)
	if err != nil {
		return err
	}
	always, migrate := s.config.Grants()
	checks := []func(context.Context) error{s.checkVersion, s.checkCluster, s.checkRights(always)}
	if exists {
		checks = append(checks, s.checkLayout)
	}
	var wrong []error
	for _, check := range checks {
		err := check(ctx)
		var e *Error
		switch {
		case err == nil:
		case errors.As(err, &e) && e.Code == codeAccessDenied:
			wrong = append(wrong, s.refusedRight(e))
		case errors.As(err, &e) && !e.Permanent():
			return errors.Join(append(wrong, err)...)
		default:
			wrong = append(wrong, err)
		}
	}
	if len(wrong) > 0 {
		return errors.Join(wrong...)
	}
	if exists {
		if have, want, err := s.SchemaVersion(ctx); err != nil || have >= want {
			return s.lacking(ctx, err)
		}
		migrate = slices.DeleteFunc(migrate, func(grant string) bool { return strings.HasPrefix(grant, createsDatabase) })
	}
	return s.checkRights(migrate)(ctx)
}

// lasting is what only a person mends.
func lasting(format string, args ...any) error {
	return &Error{Op: "clickhouse", Err: fmt.Errorf(format, args...), permanent: true}
}

func (s *Store) checkVersion(ctx context.Context) error {
	return s.withoutDatabase(func(bare *Store) error {
		version, err := bare.server(ctx)
		if err == nil && older(version, oldestVersion) {
			err = lasting("the server has version %s, and %s or later is needed", version, oldestVersion)
		}
		return err
	})
}

// ServerVersion gives the version of the server that answers.
func (s *Store) ServerVersion(ctx context.Context) (version string, err error) {
	err = s.withoutDatabase(func(bare *Store) error {
		version, err = bare.server(ctx)
		return err
	})
	return version, err
}

func (s *Store) server(ctx context.Context) (version string, err error) {
	type row struct {
		Version string `ch:"version"`
		Host    string `ch:"host"`
		Who     string `ch:"who"`
	}
	r, _, err := selectOne[row](ctx, s, "store/server", nil)
	return r.Version, err
}

// older compares versions by the numbers that oldest has.
func older(version, oldest string) bool {
	have, want := strings.Split(version, "."), strings.Split(oldest, ".")
	for i := range want {
		if i >= len(have) {
			return true
		}
		h, err := strconv.Atoi(have[i])
		w, _ := strconv.Atoi(want[i])
		if err != nil || h != w {
			return err != nil || h < w
		}
	}
	return false
}

// checkSettings sends each setting by itself, so that all that are refused can be named, and then all of them, to see that
// they hold: a proxy may drop what it does not know.
func (s *Store) checkSettings(ctx context.Context) error {
	settings := s.layout.sessionSettings()
	maps.Copy(settings, s.insertSettings("check", ""))
	settings["max_execution_time"] = int((s.config.InsertTimeout + Grace).Seconds())
	options := *s.options
	options.Settings = nil
	options.Auth.Database = "default"
	options.MaxOpenConns, options.MaxIdleConns = 1, 1
	conn, err := clickhouse.Open(&options)
	if err != nil {
		return fmt.Errorf("open clickhouse: %w", err)
	}
	defer conn.Close()
	text := s.statements["store/settings"].text
	ask := func(settings clickhouse.Settings) (map[string]string, error) {
		// Without a deadline, of which the driver would make a setting.
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		defer cancel()
		bound, err := s.statements["store/settings"].bind(params{"names": slices.Sorted(maps.Keys(settings))})
		if err != nil {
			return nil, err
		}
		rows, err := conn.Query(clickhouse.Context(ctx, clickhouse.WithSettings(settings), clickhouse.WithParameters(bound)), text)
		if err != nil {
			return nil, classify("check settings", err)
		}
		defer rows.Close()
		hold := map[string]string{}
		for rows.Next() {
			var name, value string
			if err := rows.Scan(&name, &value); err != nil {
				return nil, classify("check settings", err)
			}
			hold[name] = value
		}
		return hold, classify("check settings", rows.Err())
	}
	var refused []error
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		_, err := ask(clickhouse.Settings{name: settings[name]})
		var e *Error
		switch {
		case err == nil:
		case errors.As(err, &e) && slices.Contains([]int32{codeReadonly, codeSettingConstraint, codeUnknownSetting}, e.Code):
			refused = append(refused, lasting("the setting %s = %v is refused for user %s: %s; change the profile or the constraints of the user",
				name, settings[name], s.config.Username, exceptionText(e.Err)))
		default:
			return err
		}
	}
	if len(refused) > 0 {
		return errors.Join(refused...)
	}
	hold, err := ask(settings)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if name == "log_comment" { // a label only, to which the embedded engine puts its own
			continue
		}
		if value, known := hold[name]; known && value != fmt.Sprint(settings[name]) {
			refused = append(refused, lasting("the setting %s is sent as %v, and %s holds: something between here and the server changes it", name, settings[name], value))
		}
	}
	return errors.Join(refused...)
}

func exceptionText(err error) string {
	var exception *clickhouse.Exception
	if errors.As(err, &exception) {
		return strings.TrimSpace(exception.Message)
	}
	return err.Error()
}

// createsDatabase is what a user need not be granted whose database somebody else has made.
const createsDatabase = "GRANT CREATE DATABASE"

// Grants gives the statements that give the configured user the rights that it needs: those that it always needs, and those
// for migrations, which a person with these rights may run instead.
func (c Config) Grants() (always, migrate []string) {
	user := " TO `" + strings.NewReplacer("\\", "\\\\", "`", "\\`").Replace(c.Username) + "`"
	always = []string{"GRANT SELECT, INSERT, ALTER UPDATE, ALTER DELETE ON " + c.Database + ".*" + user} // to purge rejects; to join old rows of the ledger
	migrate = []string{
		createsDatabase + " ON " + c.Database + ".*" + user,
		"GRANT CREATE TABLE, CREATE VIEW, DROP TABLE, ALTER TABLE, ALTER VIEW ON " + c.Database + ".*" + user,
		"GRANT TABLE ENGINE ON *" + user,
	}
	if c.Cluster != "" {
		always = append(always,
			"GRANT CLUSTER, REMOTE ON *.*"+user,
			"GRANT SELECT ON system.clusters"+user, // of itself, anybody may read these; of other servers, not
			"GRANT SELECT ON system.tables"+user,
			"GRANT SELECT ON system.macros"+user)
	}
	return always, migrate
}

// checkRights asks for rights one by one. Servers that have no CHECK GRANT yet tell of a missing right when it is needed.
func (s *Store) checkRights(grants []string) func(context.Context) error {
	return func(ctx context.Context) error {
		return s.withoutDatabase(func(bare *Store) error {
			var lacking []string
			for _, grant := range grants {
				what, _, _ := strings.Cut(strings.TrimPrefix(grant, "GRANT "), " TO ")
				var has uint8
				err := bare.conn.QueryRow(ctx, "CHECK GRANT "+what).Scan(&has)
				var e *Error
				if errors.As(classify("check rights", err), &e) {
					if e.Code == codeSyntax {
						return nil
					}
					return e
				}
				if has == 0 {
					lacking = append(lacking, grant)
				}
			}
			if len(lacking) > 0 {
				return lasting("the user %s lacks rights: %s", s.config.Username, strings.Join(lacking, "; "))
			}
			return nil
		})
	}
}

// refusedRight tells of a check that the server did not allow.
func (s *Store) refusedRight(e *Error) error {
	always, migrate := s.config.Grants()
	return lasting("the user %s lacks rights: %s (it needs: %s)", s.config.Username, exceptionText(e.Err), strings.Join(append(always, migrate...), "; "))
}

// checkCluster looks whether the cluster is there, and whether its servers' macros make each table's replicas what they
// should be: of one path within a shard, of another in another shard, each with a name of its own.
func (s *Store) checkCluster(ctx context.Context) error {
	if s.layout.cluster == "" {
		return nil
	}
	return s.withoutDatabase(func(bare *Store) error {
		type row struct {
			Cluster  string `ch:"cluster"`
			Shards   uint64 `ch:"shards"`
			Replicas uint64 `ch:"replicas"`
		}
		clusters, err := selectAll[row](ctx, bare, "store/clusters", nil)
		if err != nil {
			return err
		}
		at := slices.IndexFunc(clusters, func(r row) bool { return r.Cluster == s.layout.cluster })
		if at < 0 {
			names := strings.Join(pluck(clusters, func(r *row) string { return r.Cluster }), ", ")
			return lasting("no cluster is named %q (clickhouse.cluster); the server knows %s", s.layout.cluster, cmp.Or(names, "none"))
		}
		if !s.layout.arguments {
			return nil // the database decides on paths and names
		}
		return bare.checkMacros(ctx, int(clusters[at].Shards))
	})
}

func (s *Store) checkMacros(ctx context.Context, shards int) error {
	p := params{"cluster": s.layout.cluster}
	hosts, err := s.everyServer(ctx, "store/hosts", p, func(r hostRow) string { return "" })
	if err != nil {
		return err
	}
	macros, err := s.everyServer(ctx, "store/macros", p, func(r hostRow) string { return r.Macro })
	if err != nil {
		return err
	}
	var wrong []error
	paths, replicas := map[string]bool{}, map[string][]string{}
	for host := range hosts {
		path, replica := s.layout.path, s.layout.replica
		for macro, r := range macros[host] {
			path = strings.ReplaceAll(path, "{"+macro+"}", r.Substitution)
			replica = strings.ReplaceAll(replica, "{"+macro+"}", r.Substitution)
		}
		for _, known := range []string{"{database}", "{table}"} { // ClickHouse fills these in itself
			path = strings.ReplaceAll(path, known, "")
		}
		if missing := macroName.FindAllString(path+replica, -1); len(missing) > 0 {
			wrong = append(wrong, lasting("the server %s has no macro %s, which clickhouse.keeper_path or clickhouse.replica names", host, strings.Join(missing, ", ")))
			continue
		}
		paths[path] = true
		replicas[path+" "+replica] = append(replicas[path+" "+replica], host)
	}
	for _, same := range replicas {
		if slices.Sort(same); len(same) > 1 {
			wrong = append(wrong, lasting("the servers %s would be the same replica of the same shard: their macros do not tell them apart", strings.Join(same, " and ")))
		}
	}
	if len(wrong) == 0 && len(paths) > shards {
		wrong = append(wrong, lasting("the macros of the cluster's servers make %d shards, but %s has %d: replicas of a shard must have the same", len(paths), s.layout.cluster, shards))
	}
	slices.SortFunc(wrong, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(wrong...)
}

type hostRow struct {
	Host         string `ch:"host"`
	Macro        string `ch:"macro"`
	Substitution string `ch:"substitution"`
	Name         string `ch:"name"`
}

// everyServer gives what a statement says of each server of the cluster that answers.
func (s *Store) everyServer(ctx context.Context, name string, p params, key func(hostRow) string) (map[string]map[string]hostRow, error) {
	rows, err := selectAll[hostRow](ctx, s, name, p)
	hosts := map[string]map[string]hostRow{}
	for _, r := range rows {
		if hosts[r.Host] == nil {
			hosts[r.Host] = map[string]hostRow{}
		}
		hosts[r.Host][key(r)] = r
	}
	return hosts, err
}

// checkLayout fails when the tables were made in another layout than the configuration asks for: they cannot be turned.
func (s *Store) checkLayout(ctx context.Context) error {
	type row struct {
		Name   string `ch:"name"`
		Engine string `ch:"engine"`
		Full   string `ch:"engine_full"`
	}
	tables, err := selectAll[row](ctx, s, "store/tables", nil)
	if err != nil {
		return err
	}
	for _, t := range tables {
		if shardedBy[t.Name] == "" {
			continue
		}
		made := ""
		if t.Engine == "Distributed" {
			made = clusterOf.FindStringSubmatch(t.Full)[1]
		}
		switch {
		case made == s.layout.cluster:
		case made == "":
			return lasting("the tables of the database %s were made without a cluster, and clickhouse.cluster is %q: name another database "+
				"(clickhouse.database), which is filled from Kafka as far as that reaches back, or no cluster", s.config.Database, s.layout.cluster)
		case s.layout.cluster == "":
			return lasting("the tables of the database %s were made for the cluster %q: set clickhouse.cluster to it, or name another database", s.config.Database, made)
		default:
			return lasting("the tables of the database %s were made for the cluster %q, and clickhouse.cluster is %q: set it to the former, or name another database",
				s.config.Database, made, s.layout.cluster)
		}
	}
	return nil
}

// CheckServers fails when a server of the cluster lacks tables that others have, as one does that was added to it. While a
// migration is on its way, that is so for a moment.
func (s *Store) CheckServers(ctx context.Context) error {
	if s.layout.cluster == "" {
		return nil
	}
	return s.withoutDatabase(func(bare *Store) error {
		p := params{"cluster": s.layout.cluster}
		hosts, err := bare.everyServer(ctx, "store/hosts", p, func(hostRow) string { return "" })
		if err != nil {
			return err
		}
		p["database"] = s.config.Database
		tables, err := bare.everyServer(ctx, "store/tables_everywhere", p, func(r hostRow) string { return r.Name })
		if err != nil {
			return err
		}
		everywhere := map[string]bool{}
		for _, names := range tables {
			for name := range names {
				everywhere[name] = true
			}
		}
		var wrong []error
		for _, host := range slices.Sorted(maps.Keys(hosts)) {
			var lacks []string
			for _, name := range slices.Sorted(maps.Keys(everywhere)) {
				if _, has := tables[host][name]; !has {
					lacks = append(lacks, name)
				}
			}
			if len(lacks) > 0 {
				wrong = append(wrong, &Error{Op: "clickhouse", Err: fmt.Errorf("the server %s lacks %d tables and views of the database %s, such as %s: run `auditor migrate --again`",
					host, len(lacks), s.config.Database, lacks[0])})
			}
		}
		return errors.Join(wrong...)
	})
}
