package queries

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// migration is one file of schema/. Its number orders it; its statements may run more than once, also at the same time
// from several processes, for ClickHouse has no transaction around them.
type migration struct {
	number     int
	name       string // the file's name without .sql
	checksum   string
	statements []string
}

// loadMigrations reads all migrations once, in order.
var loadMigrations = sync.OnceValues(func() ([]migration, error) {
	names, err := fs.Glob(files, "schema/*.sql") // sorted
	if err != nil {
		return nil, err
	}
	var all []migration
	for i, file := range names {
		text, err := fs.ReadFile(files, file)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(path.Base(file), ".sql")
		digits, _, _ := strings.Cut(name, "_")
		number, err := strconv.Atoi(digits)
		if err != nil || len(digits) != 4 || number != i+1 {
			return nil, fmt.Errorf("queries/%s: want number %04d", file, i+1)
		}
		sum := sha256.Sum256(text)
		all = append(all, migration{number, name, hex.EncodeToString(sum[:16]), splitStatements(string(text))})
	}
	return all, nil
})

// appliedMigration is a row of schema_migrations.
type appliedMigration struct {
	Name     string `ch:"name"`
	Checksum string `ch:"checksum"`
}

// Migrate makes the database when it is missing, applies the migrations that it lacks, in order, and sets how long data
// is kept. It returns the names of those that it applied. Several processes may migrate at once. A migration that was
// applied and has since changed is an error, before anything is done.
func (s *Store) Migrate(ctx context.Context) (applied []string, err error) {
	return s.migrate(ctx, false)
}

// MigrateAgain is Migrate, but applies every migration, those that were applied too: a server that is new in a cluster gets
// the tables that the others have.
func (s *Store) MigrateAgain(ctx context.Context) (applied []string, err error) {
	return s.migrate(ctx, true)
}

func (s *Store) migrate(ctx context.Context, again bool) (applied []string, err error) {
	migrations, err := loadMigrations()
	if err != nil {
		return nil, err
	}
	exists, err := s.findLayout(ctx)
	if err != nil {
		return nil, err
	}
	var done map[string]string
	if exists {
		if err := s.checkLayout(ctx); err != nil {
			return nil, err
		}
		done, err = s.appliedMigrations(ctx)
	}
	// Nothing is made that is there: on a cluster even that waits for every server, and one of them may be down.
	if !exists || again || missing(err) {
		if err := s.begin(ctx, !exists || again); err != nil {
			return nil, err
		}
		done, err = s.appliedMigrations(ctx)
	}
	if err != nil {
		return nil, s.lacking(ctx, err)
	}
	if err := compareMigrations(migrations, done); err != nil {
		return nil, err
	}
	if again {
		done = nil
	}
	for _, m := range migrations {
		if _, ok := done[m.name]; ok {
			continue
		}
		if err := s.applyBesideOthers(ctx, m); err != nil {
			return applied, err
		}
		applied = append(applied, m.name)
	}
	return applied, s.setRetention(ctx)
}

// Plan gives the statements that Migrate would run, in order, to be run by a person: each by itself, with the database named
// or, on one server, as the default. With all, it is what an empty server needs, and no server is asked.
func (s *Store) Plan(ctx context.Context, all bool) (statements []string, err error) {
	migrations, err := loadMigrations()
	if err != nil {
		return nil, err
	}
	exists, done := false, map[string]string{}
	if !all {
		if exists, err = s.findLayout(ctx); err != nil {
			return nil, err
		}
	}
	if exists {
		if err := s.checkLayout(ctx); err != nil {
			return nil, err
		}
		done, err = s.appliedMigrations(ctx)
		if exists = !missing(err); exists && err != nil {
			return nil, err
		}
	}
	if !exists {
		forms, err := s.layout.statements(s.statements["store/create_schema_migrations"].text)
		if err != nil {
			return nil, err
		}
		statements = append([]string{s.layout.createDatabase()}, forms...)
	}
	for _, m := range migrations {
		if sum, ok := done[m.name]; ok {
			if sum != m.checksum {
				return nil, compareMigrations(migrations, done)
			}
			continue
		}
		for _, statement := range append(slices.Clone(m.statements),
			"INSERT INTO schema_migrations (name, checksum) SELECT '"+m.name+"', '"+m.checksum+"'") {
			forms, err := s.layout.statements(statement)
			if err != nil {
				return nil, fmt.Errorf("migration %s: %w", m.name, err)
			}
			statements = append(statements, forms...)
		}
	}
	changes, err := s.planRetention(ctx, migrations, done, exists)
	return append(statements, changes...), err
}

// lacking says more of an error that may come from a server which has no tables yet. A nil error stays nil.
func (s *Store) lacking(ctx context.Context, err error) error {
	var e *Error
	if errors.As(err, &e) && e.Code == codeAllReplicasStale {
		if lacks := s.CheckServers(ctx); lacks != nil {
			return lacks
		}
	}
	return err
}

// missing reports that the database, or a table of it, is not there.
func missing(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Code == codeUnknownDatabase || e.Code == codeUnknownTable)
}

// begin makes the table that records the migrations, and before it, if asked to, the database: that takes a right of its
// own, even where there is nothing to make.
func (s *Store) begin(ctx context.Context, database bool) error {
	if database {
		err := s.withoutDatabase(func(bare *Store) error {
			return bare.execText(ctx, s.layout.createDatabase())
		})
		if err != nil {
			return classify("create database", err)
		}
	}
	statements, err := s.layout.statements(s.statements["store/create_schema_migrations"].text)
	if err != nil {
		return err
	}
	for _, statement := range statements {
		if err := s.execText(ctx, statement); err != nil {
			return classify("create schema_migrations", err)
		}
	}
	return nil
}

// SchemaVersion tells the number of the last migration up to which the database has all of them, 0 when there is no
// database, and the number that this program needs. A database that has more was made by a newer program.
func (s *Store) SchemaVersion(ctx context.Context) (have, want int, err error) {
	migrations, err := loadMigrations()
	if err != nil {
		return 0, 0, err
	}
	want = len(migrations)
	done, err := s.appliedMigrations(ctx)
	if missing(err) {
		return 0, want, nil
	}
	if err != nil {
		return 0, want, err
	}
	for _, m := range migrations {
		if _, ok := done[m.name]; !ok {
			return have, want, nil
		}
		have = m.number
	}
	return max(have, len(done)), want, nil
}

func (s *Store) appliedMigrations(ctx context.Context) (map[string]string, error) {
	rows, err := selectAll[appliedMigration](ctx, s, "store/schema_migrations", nil)
	if err != nil {
		return nil, err
	}
	done := make(map[string]string, len(rows))
	for _, r := range rows {
		done[r.Name] = r.Checksum
	}
	return done, nil
}

// compareMigrations fails when a migration that was applied is no longer what it was.
func compareMigrations(migrations []migration, done map[string]string) error {
	var errs []error
	for _, m := range migrations {
		if sum, ok := done[m.name]; ok && sum != m.checksum {
			errs = append(errs, fmt.Errorf("migration %s was applied with checksum %s, but is now %s: "+
				"this database was made by another version; use another database, or the program that made it",
				m.name, sum, m.checksum))
		}
	}
	return errors.Join(errs...)
}

// applyBesideOthers applies a migration that another process may be applying at this moment: a view that this one asks for may
// just have been dropped by the other, to be made anew.
func (s *Store) applyBesideOthers(ctx context.Context, m migration) error {
	const tries = 20
	for n := 1; ; n++ {
		err := s.apply(ctx, m)
		var e *Error
		if err == nil || n == tries || !errors.As(err, &e) || e.Code != codeUnknownTable {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Duration(n) * 20 * time.Millisecond):
		}
	}
}

func (s *Store) apply(ctx context.Context, m migration) error {
	for i, statement := range m.statements {
		forms, err := s.layout.statements(statement)
		if err != nil {
			return fmt.Errorf("migration %s: %w", m.name, err)
		}
		for _, form := range forms {
			if err := s.execText(ctx, form); err != nil {
				return classify(fmt.Sprintf("migration %s, statement %d", m.name, i+1), err)
			}
		}
	}
	s.log.Info("applied migration", "name", m.name)
	return s.exec(ctx, "store/record_migration", params{"name": m.name, "checksum": m.checksum})
}

// execText runs DDL. The server gives up on the others of a cluster before the request ends, so that it can say which.
func (s *Store) execText(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.QueryTimeout)
	defer cancel()
	if s.layout.cluster != "" {
		ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
			"distributed_ddl_task_timeout": max(1, int(s.config.QueryTimeout.Seconds())-2),
			"distributed_ddl_output_mode":  "throw",
		}))
	}
	return s.conn.Exec(ctx, text)
}

// withoutDatabase runs f on a connection of its own that names no database: one that names a database which is missing is
// refused.
func (s *Store) withoutDatabase(f func(bare *Store) error) error {
	options := *s.options
	options.Auth.Database = "default"
	options.MaxOpenConns, options.MaxIdleConns = 1, 1
	conn, err := clickhouse.Open(&options)
	if err != nil {
		return fmt.Errorf("open clickhouse: %w", err)
	}
	defer conn.Close()
	return f(&Store{config: s.config, conn: conn, log: s.log, statements: s.statements, layout: s.layout})
}

// splitStatements cuts a migration at each semicolon that ends a line, outside of strings and comments. Statements of
// comments alone are left out.
func splitStatements(text string) []string {
	var all []string
	start, code := 0, false // code: the statement holds more than comments and space
	end := func(i int) {
		if statement := strings.TrimSpace(text[start:i]); code && statement != "" {
			all = append(all, statement)
		}
		start, code = i+1, false
	}
	for i := 0; i < len(text); {
		switch rest := text[i:]; {
		case strings.HasPrefix(rest, "--"):
			i += until(rest, "\n")
		case strings.HasPrefix(rest, "/*"):
			i += until(rest, "*/")
		case rest[0] == '\'' || rest[0] == '"' || rest[0] == '`':
			code = true
			i += quoted(rest)
		case rest[0] == ';' && endsLine(rest[1:]):
			end(i)
			i++
		default:
			code = code || !strings.ContainsRune(" \t\r\n", rune(rest[0]))
			i++
		}
	}
	end(len(text))
	return all
}

// until is the length of text up to and with mark.
func until(text, mark string) int {
	if i := strings.Index(text, mark); i >= 0 {
		return i + len(mark)
	}
	return len(text)
}

// quoted is the length of the quoted text that text begins with. A doubled quote is two quoted texts side by side.
func quoted(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case text[0]:
			return i + 1
		}
	}
	return len(text)
}

func endsLine(text string) bool {
	line, _, _ := strings.Cut(text, "\n")
	line = strings.TrimSpace(line)
	return line == "" || strings.HasPrefix(line, "--")
}
