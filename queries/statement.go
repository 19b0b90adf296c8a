package queries

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
)

//go:embed */*.sql
var files embed.FS

// statement is one SQL file. It opens with a header of comment lines, in this order, each of which may go on in lines
// that are indented by three spaces or more:
//
//	-- name: store/findings              the path without .sql
//	-- What it answers, in a sentence.
//	-- params: ids Array(String)         those in the text, comma-separated with their types; or none
//	-- returns: one row a finding        and in what order
//	-- cost: one key look-up an id       what it reads, as data grows
//	-- example: {"ids": ["a"]}           values with which a test runs it; left out when there are no parameters
//	-- replicas: all                     on a cluster, it reads every replica that answers (see replicas.go)
//
// Lines between "-- if {name:Bool}" and "-- end if" are left out where that parameter is false, those behind "-- if not {name:Bool}"
// where it is true: to understand a statement takes the engine as long as many a statement runs.
type statement struct {
	name    string
	text    string            // without the header
	params  map[string]string // name to ClickHouse type
	example map[string]any
	all     bool // replicas: all
}

var (
	headerLine  = regexp.MustCompile(`^--(?: (name|params|returns|cost|example|replicas):)?(.*)$`)
	placeholder = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_]*):([^{}]+)\}`)
	conditional = regexp.MustCompile(`(?ms)^ *-- if (not )?\{([a-z_]+):Bool\}\n.*?^ *-- end if(?:\n|\z)`)
)

// loadStatements reads all statements once.
var loadStatements = sync.OnceValues(func() (map[string]*statement, error) {
	all := map[string]*statement{}
	err := fs.WalkDir(files, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Dir(file) == "schema" {
			return err
		}
		text, err := fs.ReadFile(files, file)
		if err != nil {
			return err
		}
		s, err := parseStatement(strings.TrimSuffix(file, ".sql"), string(text))
		if err != nil {
			return fmt.Errorf("queries/%s: %w", file, err)
		}
		all[s.name] = s
		return nil
	})
	return all, err
})

// loadStatements gives the statements as they run in this layout.
func (l layout) loadStatements() (map[string]*statement, error) {
	all, err := loadStatements()
	if err != nil || l.cluster == "" {
		return all, err
	}
	all = maps.Clone(all)
	for name, s := range all {
		if !s.all {
			continue
		}
		changed := *s
		if changed.text, err = l.everyReplica(s.text); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all[name] = &changed
	}
	return all, nil
}

// textFor is the text with what these parameters ask for.
func (s *statement) textFor(p params) string {
	return conditional.ReplaceAllStringFunc(s.text, func(part string) string {
		m := conditional.FindStringSubmatch(part)
		if is, _ := p[m[2]].(bool); is == (m[1] == "") {
			return part
		}
		return ""
	})
}

func parseStatement(name, text string) (*statement, error) {
	header, body := splitHeader(text)
	if header["name"] != name {
		return nil, fmt.Errorf("header says name %q", header["name"])
	}
	for _, key := range []string{"", "params", "returns", "cost"} {
		if header[key] == "" {
			return nil, fmt.Errorf("header lacks %q", key)
		}
	}
	s := &statement{name: name, text: strings.TrimRight(strings.TrimSpace(body), ";"), params: map[string]string{}}
	for _, m := range placeholder.FindAllStringSubmatch(s.text, -1) {
		if kind, known := s.params[m[1]]; known && kind != m[2] {
			return nil, fmt.Errorf("parameter %s is both %s and %s", m[1], kind, m[2])
		}
		s.params[m[1]] = m[2]
	}
	if declared := describeParams(s.params); !sameParams(declared, header["params"]) {
		return nil, fmt.Errorf("header declares params %q, the text has %q", header["params"], declared)
	}
	if header["replicas"] != "" {
		if s.all = header["replicas"] == "all"; !s.all {
			return nil, fmt.Errorf("header says replicas %q, which can only be all", header["replicas"])
		}
	}
	if header["example"] != "" {
		d := json.NewDecoder(strings.NewReader(header["example"]))
		d.UseNumber()
		if err := d.Decode(&s.example); err != nil {
			return nil, fmt.Errorf("example: %w", err)
		}
	}
	return s, nil
}

// splitHeader gives the header's values by key; the plain sentence is under "".
func splitHeader(text string) (header map[string]string, body string) {
	header = map[string]string{}
	key := ""
	for {
		line, rest, _ := strings.Cut(text, "\n")
		m := headerLine.FindStringSubmatch(line)
		if m == nil {
			return header, text
		}
		switch {
		case m[1] != "":
			key = m[1]
		case !strings.HasPrefix(m[2], "   "):
			key = ""
		}
		header[key] = strings.TrimSpace(header[key] + " " + strings.TrimSpace(m[2]))
		text = rest
	}
}

func describeParams(params map[string]string) string {
	if len(params) == 0 {
		return "none"
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(params)) {
		all = append(all, name+" "+params[name])
	}
	return strings.Join(all, ", ")
}

// sameParams compares two lists of parameters whatever their order. Types hold commas of their own, so the names are
// looked for, and the lengths compared.
func sameParams(a, b string) bool {
	letters := func(s string) string {
		parts := strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
		slices.Sort(parts)
		return strings.Join(parts, " ")
	}
	return letters(a) == letters(b)
}
