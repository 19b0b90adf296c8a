package queries

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"time"

	"auditor/internal/access"
)

// Config is how to reach ClickHouse, and how long to keep what is in it.
type Config struct {
	Addresses      []string      `yaml:"addresses"` // host:port; tried in order
	Protocol       string        `yaml:"protocol"`  // Native or HTTP, which Addresses speak
	Database       string        `yaml:"database"`  // made when it does not exist
	Username       string        `yaml:"username"`
	Password       access.Secret `yaml:"password"`
	PasswordFile   string        `yaml:"password_file"` // read when the store is opened; not beside password
	TLS            access.TLS    `yaml:"tls"`
	DialTimeout    time.Duration `yaml:"dial_timeout"`
	QueryTimeout   time.Duration `yaml:"query_timeout"`
	InsertTimeout  time.Duration `yaml:"insert_timeout"` // must stay below the consumer group's rebalance time-out
	MaxConnections int           `yaml:"max_connections"`
	RetentionDays  int           `yaml:"retention_days"` // by Kafka timestamp; 0 keeps everything for ever
}

// The protocols. HTTP is for servers of which only that interface can be reached, and is spoken uncompressed.
const (
	Native = "native"
	HTTP   = "http"
)

// DefaultConfig is a server on this machine.
func DefaultConfig() Config {
	return Config{
		Addresses:      []string{"127.0.0.1:9000"},
		Protocol:       Native,
		Database:       "auditor",
		Username:       "default",
		DialTimeout:    5 * time.Second,
		QueryTimeout:   30 * time.Second,
		InsertTimeout:  20 * time.Second,
		MaxConnections: 16,
		RetentionDays:  90,
	}
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// Validate names each field that is wrong and says what is allowed. All errors are joined.
func (c Config) Validate() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf(field+": "+format, args...))
	}
	if len(c.Addresses) == 0 {
		bad("addresses", "must name at least one host:port")
	}
	for _, a := range c.Addresses {
		if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" {
			bad("addresses", "%q must be host:port", a)
		}
	}
	if c.Protocol != Native && c.Protocol != HTTP {
		bad("protocol", "%q must be %s or %s", c.Protocol, Native, HTTP)
	}
	if !plainName.MatchString(c.Database) {
		bad("database", "%q must be letters, digits and _, at most 64", c.Database)
	}
	if c.Password != "" && c.PasswordFile != "" {
		bad("password_file", "must not be set beside password")
	}
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"dial_timeout", c.DialTimeout}, {"query_timeout", c.QueryTimeout}, {"insert_timeout", c.InsertTimeout}} {
		if d.value < 100*time.Millisecond || d.value > time.Hour {
			bad(d.field, "%s must be from 100ms to 1h", d.value)
		}
	}
	if c.MaxConnections < 1 || c.MaxConnections > 1000 {
		bad("max_connections", "%d must be from 1 to 1000", c.MaxConnections)
	}
	if c.RetentionDays < 0 || c.RetentionDays > 36500 {
		bad("retention_days", "%d must be from 0 (for ever) to 36500", c.RetentionDays)
	}
	return errors.Join(append(errs, c.TLS.Validate())...)
}
