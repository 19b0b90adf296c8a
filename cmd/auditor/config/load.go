package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
)

// Source is what a configuration is read from.
type Source struct {
	File   string              // empty: no file
	Getenv func(string) string // nil: no environment
	Flags  map[string]string   // field path to the text given on the command line
	Base   func(*Config)       // adjusts the defaults, as the demo does; nil: nothing to adjust
}

// Load reads a configuration and validates it. The error joins everything that is wrong, each part an *Error.
func Load(s Source) (Config, error) {
	c := Default()
	if s.Base != nil {
		s.Base(&c)
	}
	origins := make(map[string]string)
	errs := []error{
		loadFile(&c, s.File, origins),
		loadEnvironment(&c, s.Getenv, origins),
		loadFlags(&c, s.Flags, origins),
	}
	if err := errors.Join(errs...); err != nil {
		return Config{}, err
	}
	if err := c.validate(origins); err != nil {
		return Config{}, err
	}
	return c, nil
}

func loadFile(c *Config, file string, origins map[string]string) error {
	if file == "" {
		return nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	return readYAML(reflect.ValueOf(c).Elem(), file, data, origins)
}

// loadEnvironment looks up the variable of each field. Variables that name no field are left alone: a cluster puts
// variables of its own beside ours for a service called auditor.
func loadEnvironment(c *Config, getenv func(string) string, origins map[string]string) error {
	if getenv == nil {
		return nil
	}
	var errs []error
	for _, f := range settable(c) {
		text := getenv(f.env())
		if text == "" {
			continue
		}
		if err := setText(f.value, text); err != nil {
			errs = append(errs, &Error{f.env(), f.path, err.Error()})
		}
		origins[f.path] = f.env()
	}
	return errors.Join(errs...)
}

// settable lists the fields that one line of text can set. The entries of maps are not among them: they have names of the
// user's choice, which no variable can spell.
func settable(c *Config) []field {
	var out []field
	for _, f := range fields(reflect.ValueOf(c).Elem(), "") {
		if !isTable(f.value.Type()) && !strings.HasPrefix(f.path, "tasks.") {
			out = append(out, f)
		}
	}
	return out
}

func loadFlags(c *Config, flags map[string]string, origins map[string]string) error {
	var errs []error
	for _, f := range settable(c) {
		text, given := flags[f.path]
		if !given {
			continue
		}
		if err := setText(f.value, text); err != nil {
			errs = append(errs, &Error{CommandLine, f.path, err.Error()})
		}
		origins[f.path] = CommandLine
	}
	return errors.Join(errs...)
}
