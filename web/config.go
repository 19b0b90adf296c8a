package web

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Config is what an operator may set about the pages and the API.
type Config struct {
	Title        string        `yaml:"title"`         // name shown in the rail and in window titles
	BaseURL      string        `yaml:"base_url"`      // where people reach the pages; its host is an allowed one. Empty: not told
	AllowedHosts []string      `yaml:"allowed_hosts"` // further names that a request may call this server by; "*" allows any
	TimeZone     string        `yaml:"time_zone"`     // IANA name of the zone that pages show times in
	PageSize     int           `yaml:"page_size"`     // findings and rejects on one page, 1 to 500
	KeyEvents    int           `yaml:"key_events"`    // events of one key that a page reads, 100 to 100000
	Refresh      time.Duration `yaml:"refresh"`       // how often an open page asks for news; 0 switches that off
	QueryTimeout time.Duration `yaml:"query_timeout"` // how long one question to the store may take
}

// DefaultConfig is what holds where nothing is set.
func DefaultConfig() Config {
	return Config{
		Title:        "auditor",
		TimeZone:     "UTC",
		PageSize:     50,
		KeyEvents:    5000,
		Refresh:      2 * time.Second,
		QueryTimeout: 5 * time.Second,
	}
}

// Validate names every field that cannot be, and what it may be.
func (c Config) Validate() error {
	var problems []error
	bad := func(field, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
	}
	if strings.TrimSpace(c.Title) == "" || len(c.Title) > 100 {
		bad("title", "must be 1 to 100 characters long")
	}
	if c.BaseURL != "" {
		u, err := url.Parse(c.BaseURL)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
			bad("base_url", "must be http:// or https:// and a host, without a path, got %q", c.BaseURL)
		}
	}
	for _, host := range c.AllowedHosts {
		if host == "" || strings.ContainsAny(host, "/: \t") {
			bad("allowed_hosts", "must be host names without scheme and port, or *, got %q", host)
		}
	}
	if _, err := time.LoadLocation(c.TimeZone); err != nil || c.TimeZone == "" {
		bad("time_zone", "must be the name of a time zone, such as UTC or Europe/Vienna, got %q", c.TimeZone)
	}
	if c.PageSize < 1 || c.PageSize > 500 {
		bad("page_size", "must be 1 to 500, got %d", c.PageSize)
	}
	if c.KeyEvents < 100 || c.KeyEvents > 100_000 {
		bad("key_events", "must be 100 to 100000, got %d", c.KeyEvents)
	}
	if c.Refresh != 0 && c.Refresh < time.Second {
		bad("refresh", "must be 0 or at least 1s, got %s", c.Refresh)
	}
	if c.QueryTimeout < 100*time.Millisecond || c.QueryTimeout > 5*time.Minute {
		bad("query_timeout", "must be 100ms to 5m, got %s", c.QueryTimeout)
	}
	return errors.Join(problems...)
}

// origin is BaseURL as a browser names it in the Origin header.
func (c Config) origin() string {
	u, err := url.Parse(c.BaseURL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}
