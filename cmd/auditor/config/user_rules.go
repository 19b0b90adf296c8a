package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"auditor/event/userrule"
	"auditor/rules"
)

// maxRuleFile bounds the file of a rule, in bytes, and maxRules their number: each is a query of its own.
const (
	maxRuleFile = 256 << 10
	maxRules    = 200
)

// UserRules reads the rules of the files that rules.files names. The error joins everything that is
// wrong with any of them.
func (c Config) UserRules() ([]userrule.Rule, error) {
	var files []string
	var errs []error
	for _, pattern := range c.Rules.Files {
		found, err := filepath.Glob(pattern)
		switch {
		case err != nil:
			errs = append(errs, &Error{Field: "rules.files", Reason: fmt.Sprintf("%q is no path and no pattern", pattern)})
		case len(found) == 0 && !strings.ContainsAny(pattern, "*?["):
			errs = append(errs, &Error{Field: "rules.files", Reason: fmt.Sprintf("there is no file %s", pattern)})
		}
		for _, file := range found {
			if !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(files) > maxRules {
		return nil, &Error{Field: "rules.files", Reason: fmt.Sprintf("must name at most %d files, not %d", maxRules, len(files))}
	}
	return ReadUserRules(files)
}

// ReadUserRules reads a rule from each file. No two may have one name, nor that of a built-in rule.
func ReadUserRules(files []string) ([]userrule.Rule, error) {
	var all []userrule.Rule
	var errs []error
	taken := append([]string{}, rules.Names...)
	for _, file := range files {
		r, err := readUserRule(file, taken)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		taken = append(taken, r.Name)
		all = append(all, r)
	}
	return all, errors.Join(errs...)
}

func readUserRule(file string, taken []string) (userrule.Rule, error) {
	r := userrule.Default()
	r.File, r.Lines = file, map[string]string{}
	f, err := os.Open(file)
	if err != nil {
		return r, fmt.Errorf("read rule: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRuleFile+1))
	if err != nil {
		return r, fmt.Errorf("read rule: %w", err)
	}
	if len(data) > maxRuleFile {
		return r, &Error{Origin: file, Reason: fmt.Sprintf("must have at most %d bytes", maxRuleFile)}
	}
	if err := readYAML(reflect.ValueOf(&r).Elem(), file, data, r.Lines); err != nil {
		return r, err
	}
	return r, UserRuleErrors(&r, r.Validate(taken))
}

// UserRuleErrors puts before each error about a rule, which begins with the key that it is about, where that stands.
func UserRuleErrors(r *userrule.Rule, err error) error {
	var errs []error
	for _, e := range flatten(err) {
		key, reason, found := strings.Cut(e.Error(), ": ")
		if !found {
			key, reason = "", e.Error()
		}
		errs = append(errs, &Error{Origin: r.Place(key), Field: key, Reason: reason})
	}
	return errors.Join(errs...)
}
