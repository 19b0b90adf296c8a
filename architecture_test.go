// Package auditor_test holds the architecture to what docs/architecture.md says of it.
package auditor_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "auditor"

// pkg is what go list tells of a package; test files are left out.
type pkg struct {
	ImportPath string
	Doc        string
	GoFiles    []string
	Imports    []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Doc,GoFiles,Imports", "./...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var all []pkg
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if len(p.GoFiles) > 0 {
			all = append(all, p)
		}
	}
	if len(all) < 10 {
		t.Fatalf("go list knows %d packages only", len(all))
	}
	return all
}

// within reports whether path is root or below it.
func within(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// part is the part of the project that a package belongs to.
func part(path string) string {
	for _, p := range []string{"embedded/clickhouse", "embedded/kafka", "cmd/auditor", "emit/emitasynq", "emit/emitriver"} {
		if within(path, module+"/"+p) {
			return p
		}
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(path, module+"/"), "/")
	return name
}

// mayImport says which other parts a part may import.
var mayImport = map[string][]string{
	"event":               {},
	"queries":             {"event", "internal"},
	"ingest":              {"event", "internal"},
	"rules":               {"event"},
	"alerts":              {"event"},
	"web":                 {"event"},
	"emit":                {"event"},
	"bridge":              {"event"},
	"emit/emitasynq":      {"emit"},
	"emit/emitriver":      {"emit", "event"},
	"embedded/kafka":      {},
	"embedded/clickhouse": {"internal"},
	"chaos":               {"embedded/kafka", "internal"},
	"truth":               {"event", "internal"},
	"cmd/auditor":         {"event", "queries", "ingest", "rules", "alerts", "web", "emit", "bridge", "embedded/kafka", "embedded/clickhouse", "internal"},
	"bench":               {"event", "queries", "ingest", "rules", "embedded/kafka", "embedded/clickhouse", "internal"},
	"capacity":            {"ingest"},
	"internal":            {},
}

// testSupport lists packages that only tests import, which may lean on what tests need.
var testSupport = []string{"embedded/clickhouse/chtest", "embedded/clickhouse/testserver", "queries/querytest", "event/history/historytest", "emit/emittest"}

func isTestSupport(path string) bool {
	return slices.ContainsFunc(testSupport, func(p string) bool { return within(path, module+"/"+p) })
}

func TestPartsImportWhatTheyMay(t *testing.T) {
	for _, p := range packages(t) {
		allowed, known := mayImport[part(p.ImportPath)]
		if !known {
			t.Errorf("%s belongs to no part of the architecture", p.ImportPath)
			continue
		}
		if isTestSupport(p.ImportPath) {
			continue
		}
		for _, imported := range p.Imports {
			if isTestSupport(imported) {
				t.Errorf("%s imports %s, which is for tests", p.ImportPath, imported)
			}
			other := part(imported)
			if within(imported, module) && other != part(p.ImportPath) && !slices.Contains(allowed, other) {
				t.Errorf("%s imports %s; it may import %v", p.ImportPath, imported, allowed)
			}
		}
	}
}

// onlyIn says which parts alone may import a library.
var onlyIn = map[string][]string{
	"github.com/ClickHouse":           {"queries"},
	"github.com/segmentio/kafka-go":   {"ingest", "emit"},
	"github.com/labstack/echo":        {"web"},
	"github.com/hibiken/asynq":        {"emit/emitasynq"},
	"github.com/riverqueue":           {"emit/emitriver"},
	"github.com/redis/go-redis":       {"bridge"},
	"github.com/rabbitmq":             {"bridge"},
	"github.com/jackc/pgx":            {},
	"github.com/twmb/franz-go":        {"embedded/kafka", "bench", "chaos", "truth"},
	"github.com/ebitengine/purego":    {"embedded/clickhouse"},
	"github.com/alecthomas/kong":      {"cmd/auditor"},
	"github.com/goccy/go-yaml":        {"cmd/auditor"},
	"html/template":                   {"web"},
	"github.com/chromedp":             {},
	"github.com/compose-spec":         {},
	"github.com/google/go-cmp":        {},
	"github.com/rogpeppe/go-internal": {},
	"go.uber.org/goleak":              {},
	"testing":                         {"internal"},
}

func TestLibrariesStayInTheirPart(t *testing.T) {
	for _, p := range packages(t) {
		if isTestSupport(p.ImportPath) {
			continue
		}
		for _, imported := range p.Imports {
			for library, parts := range onlyIn {
				if within(imported, library) && !slices.Contains(parts, part(p.ImportPath)) {
					t.Errorf("%s imports %s, which belongs to %v", p.ImportPath, imported, parts)
				}
			}
		}
	}
}

var clock = regexp.MustCompile(`\btime\.(Now|Since|Until|After|Sleep|NewTimer|NewTicker)\b`)

// Package event is pure: what a record decodes to depends on the record alone.
func TestEventIsPure(t *testing.T) {
	for _, p := range packages(t) {
		if part(p.ImportPath) != "event" || isTestSupport(p.ImportPath) {
			continue
		}
		for _, imported := range p.Imports {
			if slices.Contains([]string{"os", "net", "net/http", "io/fs", "math/rand", "math/rand/v2", "crypto/rand", "log/slog", "database/sql"}, imported) {
				t.Errorf("%s imports %s", p.ImportPath, imported)
			}
		}
		dir := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		for _, file := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if call := clock.Find(text); call != nil {
				t.Errorf("%s/%s calls %s", dir, file, call)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, p := range packages(t) {
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

// eachFile calls f with every text file of the project.
func eachFile(t *testing.T, f func(path string, text []byte)) {
	t.Helper()
	skip := []string{".git", "node_modules", "jars", "venv", "bin", "data", "artifacts"}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if path != "." && slices.Contains(skip, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil && !bytes.ContainsRune(text, 0) {
			f(filepath.ToSlash(path), text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSQLIsInQueries(t *testing.T) {
	eachFile(t, func(path string, _ []byte) {
		if strings.HasSuffix(path, ".sql") && !strings.HasPrefix(path, "queries/") {
			t.Errorf("%s: every line of SQL is in queries/", path)
		}
	})
}

// Marks of unfinished work, calls that end the program behind its back, and muted linters that give no reason.
var unwanted = []*regexp.Regexp{
	regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`),
	regexp.MustCompile(`\blog\.(Fat` + `al|Pan` + `ic)`),
	regexp.MustCompile(`(?m)//no` + `lint(:\w+)?\s*$`),
}

func TestNothingUnfinished(t *testing.T) {
	eachFile(t, func(path string, text []byte) {
		if !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".sql") && !strings.HasSuffix(path, ".md") {
			return
		}
		for _, mark := range unwanted {
			if at := mark.FindIndex(text); at != nil {
				t.Errorf("%s:%d: %s", path, 1+bytes.Count(text[:at[0]], []byte("\n")), text[at[0]:at[1]])
			}
		}
	})
}

// Every file that a page of documentation leads to is there.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)]*)?\)`)
	eachFile(t, func(path string, text []byte) {
		if !strings.HasSuffix(path, ".md") {
			return
		}
		for _, match := range link.FindAllSubmatch(text, -1) {
			target := string(match[1])
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), target)); err != nil {
				t.Errorf("%s leads to %s, which is not there", path, target)
			}
		}
	})
}
