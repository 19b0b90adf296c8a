package queries

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"regexp"
	"strings"
	"time"
)

// Config is how to reach ClickHouse, and how long to keep what is in it.
type Config struct {
	Addresses      []string      `yaml:"addresses"` // host:port of the native protocol; tried in order
	Database       string        `yaml:"database"`  // made when it does not exist
	Username       string        `yaml:"username"`
	Password       Secret        `yaml:"password"`
	PasswordFile   string        `yaml:"password_file"` // read when the store is opened; not beside password
	TLS            TLS           `yaml:"tls"`
	DialTimeout    time.Duration `yaml:"dial_timeout"`
	QueryTimeout   time.Duration `yaml:"query_timeout"`
	InsertTimeout  time.Duration `yaml:"insert_timeout"` // must stay below the consumer group's rebalance time-out
	MaxConnections int           `yaml:"max_connections"`
	RetentionDays  int           `yaml:"retention_days"` // by Kafka timestamp; 0 keeps everything for ever
}

// TLS is how to encrypt connections to the server.
type TLS struct {
	Enabled    bool   `yaml:"enabled"`
	CAFile     string `yaml:"ca_file"`   // empty: the system's
	CertFile   string `yaml:"cert_file"` // with key_file: the client's own certificate
	KeyFile    string `yaml:"key_file"`
	ServerName string `yaml:"server_name"` // empty: the address's host
}

// Secret is text that must not be shown. It prints as ***.
type Secret string

const hidden = "***"

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// LogValue hides the secret from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the secret from JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Reveal gives the secret itself.
func (s Secret) Reveal() string { return string(s) }

// DefaultConfig is a server on this machine.
func DefaultConfig() Config {
	return Config{
		Addresses:      []string{"127.0.0.1:9000"},
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
	if !c.TLS.Enabled && (c.TLS.CAFile != "" || c.TLS.CertFile != "" || c.TLS.KeyFile != "" || c.TLS.ServerName != "") {
		bad("tls", "enabled must be true when other fields of tls are set")
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		bad("tls", "cert_file and key_file must be set together")
	}
	return errors.Join(errs...)
}

func (c Config) password() (string, error) {
	if c.PasswordFile == "" {
		return c.Password.Reveal(), nil
	}
	text, err := os.ReadFile(c.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("password_file: %w", err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

func (t TLS) client() (*tls.Config, error) {
	config := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls.ca_file: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca_file: no certificate in %s", t.CAFile)
		}
	}
	if t.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("tls.cert_file: %w", err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	return config, nil
}
