package queries

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"auditor/internal/access"
)

func TestDefaultConfigIsValid(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
}

func TestValidateNamesTheField(t *testing.T) {
	for _, c := range []struct {
		field string
		spoil func(*Config)
	}{
		{"addresses", func(c *Config) { c.Addresses = nil }},
		{"addresses", func(c *Config) { c.Addresses = []string{"host"} }},
		{"addresses", func(c *Config) { c.Addresses = []string{":9000"} }},
		{"address_order", func(c *Config) { c.AddressOrder = "" }},
		{"address_order", func(c *Config) { c.AddressOrder = "nearest" }},
		{"cluster", func(c *Config) { c.Cluster = "a'b" }},
		{"cluster", func(c *Config) { c.Cluster = "{cluster}" }},
		{"keeper_path", func(c *Config) { c.KeeperPath = "" }},
		{"keeper_path", func(c *Config) { c.KeeperPath = "tables/{shard}/{database}/{table}" }},
		{"keeper_path", func(c *Config) { c.KeeperPath = "/tables/{shard}/{table}" }},
		{"keeper_path", func(c *Config) { c.KeeperPath = "/tables/{shard}/{uuid}" }},
		{"keeper_path", func(c *Config) { c.KeeperPath = "/it's/{shard}/{database}/{table}" }},
		{"replica", func(c *Config) { c.Replica = "r1" }},
		{"replica", func(c *Config) { c.Replica = "'{replica}'" }},
		{"insert_quorum", func(c *Config) { c.InsertQuorum = "0" }},
		{"insert_quorum", func(c *Config) { c.InsertQuorum = "most" }},
		{"protocol", func(c *Config) { c.Protocol = "" }},
		{"protocol", func(c *Config) { c.Protocol = "https" }},
		{"database", func(c *Config) { c.Database = "a; DROP" }},
		{"database", func(c *Config) { c.Database = "" }},
		{"password_file", func(c *Config) { c.Password, c.PasswordFile = "a", "b" }},
		{"dial_timeout", func(c *Config) { c.DialTimeout = 0 }},
		{"query_timeout", func(c *Config) { c.QueryTimeout = 2 * time.Hour }},
		{"insert_timeout", func(c *Config) { c.InsertTimeout = -time.Second }},
		{"max_connections", func(c *Config) { c.MaxConnections = 0 }},
		{"retention_days", func(c *Config) { c.RetentionDays = -1 }},
		{"retention_days", func(c *Config) { c.RetentionDays = mostRetention + 1 }},
		{"tls.enabled", func(c *Config) { c.TLS.CAFile = "ca.pem" }},
		{"tls.cert_file", func(c *Config) { c.TLS = access.TLS{Enabled: true, CertFile: "a"} }},
	} {
		config := DefaultConfig()
		c.spoil(&config)
		if err := config.Validate(); err == nil || !strings.HasPrefix(err.Error(), c.field+": ") {
			t.Errorf("%s: got %v", c.field, err)
		}
	}
	config := DefaultConfig()
	config.Database, config.MaxConnections = "", 0
	if err := config.Validate(); strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two faults give %v", err)
	}
}

func TestOpenSaysWhichFileIsMissing(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for field, spoil := range map[string]func(*Config){
		"password_file": func(c *Config) { c.PasswordFile = missing },
		"tls.ca_file":   func(c *Config) { c.TLS = access.TLS{Enabled: true, CAFile: missing} },
		"tls.cert_file": func(c *Config) { c.TLS = access.TLS{Enabled: true, CertFile: missing, KeyFile: missing} },
	} {
		config := DefaultConfig()
		spoil(&config)
		if _, err := Open(config, Options{}); err == nil || !strings.HasPrefix(err.Error(), "clickhouse."+field+": ") {
			t.Errorf("%s: got %v", field, err)
		}
	}
}

func TestClassify(t *testing.T) {
	if classify("x", nil) != nil {
		t.Error("no error became one")
	}
	for _, c := range []struct {
		err       error
		permanent bool
		code      int32
	}{
		{&clickhouse.Exception{Code: 60}, true, 60},
		{&clickhouse.HTTPError{StatusCode: 404, Err: &clickhouse.Exception{Code: 81}}, true, 81},
		{&clickhouse.Exception{Code: 516}, true, 516},
		{&clickhouse.Exception{Code: 252}, false, 252}, // too many parts
		{&clickhouse.Exception{Code: 241}, false, 241}, // memory
		{&clickhouse.Exception{Code: 9999}, false, 9999},
		{fmt.Errorf("%w: column", clickhouse.ErrBatchInvalid), true, 0},
		{errors.New("connection reset"), false, 0},
	} {
		var e *Error
		err := fmt.Errorf("outer: %w", classify("insert", c.err))
		if !errors.As(err, &e) || e.Permanent() != c.permanent || e.Code != c.code || !errors.Is(err, c.err) {
			t.Errorf("%v: %+v", c.err, e)
		}
	}
}
