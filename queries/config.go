package queries

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"auditor/internal/access"
)

// Config is how to reach ClickHouse, and how long to keep what is in it.
type Config struct {
	Addresses      []string      `yaml:"addresses"`     // host:port
	AddressOrder   string        `yaml:"address_order"` // in which they are tried: InOrder, RoundRobin or Random
	Protocol       string        `yaml:"protocol"`      // Native or HTTP, which Addresses speak
	Database       string        `yaml:"database"`      // made when it does not exist
	Username       string        `yaml:"username"`
	Password       access.Secret `yaml:"password"`
	PasswordFile   string        `yaml:"password_file"` // read when the store is opened; not beside password
	TLS            access.TLS    `yaml:"tls"`
	DialTimeout    time.Duration `yaml:"dial_timeout"`
	QueryTimeout   time.Duration `yaml:"query_timeout"`
	InsertTimeout  time.Duration `yaml:"insert_timeout"` // must stay below the consumer group's rebalance time-out
	MaxConnections int           `yaml:"max_connections"`
	RetentionDays  int           `yaml:"retention_days"` // by Kafka timestamp; 0 keeps everything for ever
	Cluster        string        `yaml:"cluster"`        // a name of remote_servers; empty: one server
	KeeperPath     string        `yaml:"keeper_path"`    // of each Replicated table, with macros
	Replica        string        `yaml:"replica"`        // how a server is called within its shard, with macros
	InsertQuorum   string        `yaml:"insert_quorum"`  // replicas that must have an insert: auto (most of them) or a number
}

// Grace is how long after a request was given up the server may go on with it: the driver adds as much to the deadline of a
// request, and sends the sum as max_execution_time.
const Grace = 5 * time.Second

// The protocols. HTTP is for servers of which only that interface can be reached, and is spoken uncompressed.
const (
	Native = "native"
	HTTP   = "http"
)

// DefaultConfig is a server on this machine.
func DefaultConfig() Config {
	return Config{
		Addresses:      []string{"127.0.0.1:9000"},
		AddressOrder:   InOrder,
		Protocol:       Native,
		Database:       "auditor",
		Username:       "default",
		DialTimeout:    5 * time.Second,
		QueryTimeout:   30 * time.Second,
		InsertTimeout:  20 * time.Second,
		MaxConnections: 16,
		RetentionDays:  90,
		KeeperPath:     "/clickhouse/tables/{shard}/{database}/{table}",
		Replica:        "{replica}",
		InsertQuorum:   "auto",
	}
}

// What goes into DDL as it is holds nothing that would have to be escaped.
var (
	clusterName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$`)
	keeperPath  = regexp.MustCompile(`^(/[A-Za-z0-9_.{}-]+)+$`)
	replicaName = regexp.MustCompile(`^[A-Za-z0-9_.{}-]+$`)
)

func (c Config) validateCluster(bad func(field, format string, args ...any)) {
	if c.Cluster != "" && !clusterName.MatchString(c.Cluster) {
		bad("cluster", "%q must be letters, digits, _, . and -, at most 64", c.Cluster)
	}
	has := func(macro string) bool { return strings.Contains(c.KeeperPath, macro) }
	switch {
	case !keeperPath.MatchString(c.KeeperPath):
		bad("keeper_path", "%q must be a path of letters, digits, _, ., - and macros, such as %s", c.KeeperPath, DefaultConfig().KeeperPath)
	case has("{uuid}"):
		bad("keeper_path", "%q must not hold {uuid}: a server that is added later would make tables of other ids, and replicate nothing", c.KeeperPath)
	case !has("{shard}") || !has("{database}") || !has("{table}"):
		bad("keeper_path", "%q must hold {shard}, {database} and {table}, or tables would share what they replicate", c.KeeperPath)
	}
	if !replicaName.MatchString(c.Replica) || !strings.Contains(c.Replica, "{") {
		bad("replica", "%q must hold a macro that differs between the servers of a shard, such as {replica}", c.Replica)
	}
	if n, err := strconv.Atoi(c.InsertQuorum); c.InsertQuorum != "auto" && (err != nil || n < 1 || n > 100) {
		bad("insert_quorum", "%q must be auto, or a number of replicas from 1 to 100", c.InsertQuorum)
	}
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// mostRetention is 30 years. The end of a row's retention must be before 2106, where ClickHouse's DateTime begins anew: rows that
// end beyond are deleted at once. Ingest takes no Kafka timestamp for later than 2075.
const mostRetention = 30 * 365

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
	if !slices.Contains([]string{InOrder, RoundRobin, Random}, c.AddressOrder) {
		bad("address_order", "%q must be %s, %s or %s", c.AddressOrder, InOrder, RoundRobin, Random)
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
	if c.RetentionDays < 0 || c.RetentionDays > mostRetention {
		bad("retention_days", "%d must be from 0 (for ever) to %d", c.RetentionDays, mostRetention)
	}
	c.validateCluster(bad)
	return errors.Join(append(errs, c.TLS.Validate())...)
}
