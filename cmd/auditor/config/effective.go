package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"auditor/rules"
)

// Effective is what the rules go by.
type Effective struct {
	Section string // the sections rules and tasks, as Print prints them, and a digest of each rule that users wrote
	Digest  string // of Section: two that are equal judge alike
}

// Effective gives what the rules go by. The error says what is wrong with a rule that users wrote.
func (c Config) Effective() (Effective, error) {
	own, err := c.UserRules()
	if err != nil {
		return Effective{}, err
	}
	parts := struct {
		Rules     rules.Config      `yaml:"rules"`
		Tasks     map[string]Task   `yaml:"tasks"`
		UserRules map[string]string `yaml:"user_rules"`
	}{c.Rules, c.Tasks, map[string]string{}}
	for _, r := range own {
		r.File, r.Lines = "", nil
		parts.UserRules[r.Name] = digestOf(fmt.Sprintf("%+v", r))
	}
	var b bytes.Buffer
	if err := printSection(&b, reflect.ValueOf(&parts).Elem(), "", 0); err != nil {
		return Effective{}, err
	}
	return Effective{Section: b.String(), Digest: digestOf(b.String())}, nil
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// Differences tells what differs between two sections, a line a key: "- key: before" and "+ key: now".
func Differences(before, now string) (string, error) {
	old, err := flat(before)
	if err != nil {
		return "", fmt.Errorf("read the configuration from before: %w", err)
	}
	current, err := flat(now)
	if err != nil {
		return "", err
	}
	keys := slices.Collect(maps.Keys(old))
	for key := range current {
		if _, known := old[key]; !known {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	var lines []string
	for _, key := range keys {
		was, had := old[key]
		is, has := current[key]
		if had && has && was == is {
			continue
		}
		if had {
			lines = append(lines, "- "+key+": "+was)
		}
		if has {
			lines = append(lines, "+ "+key+": "+is)
		}
	}
	return strings.Join(lines, "\n"), nil
}

// flat gives the values of a section by their whole keys. A list is one value.
func flat(section string) (map[string]string, error) {
	var tree map[string]any
	if err := yaml.Unmarshal([]byte(section), &tree); err != nil {
		return nil, err
	}
	values := map[string]string{}
	spread(values, "", tree)
	return values, nil
}

// spread puts the values below a path under their keys.
func spread(values map[string]string, path string, value any) {
	tree, ok := value.(map[string]any)
	if !ok {
		if value != nil { // a section in which nothing is told
			values[path] = oneLine(value)
		}
		return
	}
	for name, v := range tree {
		spread(values, join(path, name), v)
	}
}

// oneLine writes a value of a file on one line.
func oneLine(value any) string {
	switch v := value.(type) {
	case []any:
		items := make([]string, len(v))
		for i := range v {
			items[i] = oneLine(v[i])
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		var cells []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			cells = append(cells, name+": "+oneLine(v[name]))
		}
		return "{" + strings.Join(cells, ", ") + "}"
	}
	return strings.NewReplacer("\n", `\n`, "\r", `\r`).Replace(fmt.Sprint(value))
}
