package ingest

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"auditor/internal/access"
)

// Kafka is how to reach the brokers, and what to read there.
type Kafka struct {
	Brokers  []string   `yaml:"brokers"` // host:port; any of them leads to the others
	Topics   []string   `yaml:"topics"`
	Group    string     `yaml:"group"` // consumer group; one store takes the partitions of one group only
	ClientID string     `yaml:"client_id"`
	TLS      access.TLS `yaml:"tls"`
	SASL     SASL       `yaml:"sasl"`
}

// SASL is who to tell the brokers that this is.
type SASL struct {
	Mechanism    string        `yaml:"mechanism"` // empty: no authentication; PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
	Username     string        `yaml:"username"`
	Password     access.Secret `yaml:"password"`
	PasswordFile string        `yaml:"password_file"` // read once, at the start; not beside password
}

// Config is how to read. Kafka has no key of its own below ingest: whoever wires the program sets it.
type Config struct {
	Kafka            Kafka         `yaml:"-"`
	MaxRows          int           `yaml:"max_rows"`  // events and rejects in one batch; a record's array is never split
	MaxBytes         int           `yaml:"max_bytes"` // of one fetch
	MaxWait          time.Duration `yaml:"max_wait"`  // how long the brokers gather records before they answer with few
	Memory           int           `yaml:"memory"`    // bytes that all batches in flight may take together
	SessionTimeout   time.Duration `yaml:"session_timeout"`
	RebalanceTimeout time.Duration `yaml:"rebalance_timeout"`
	InsertTimeout    time.Duration `yaml:"insert_timeout"` // of one attempt to insert a batch, and so of the end
	VerifyEvery      time.Duration `yaml:"verify_every"`   // how often what is new is compared with Kafka and the ledger; 0: never
	VerifyAgain      time.Duration `yaml:"verify_again"`   // in which time all that is older is compared once more; 0: never
}

// DefaultConfig reads the topic task-events. It names no broker.
func DefaultConfig() Config {
	return Config{
		Kafka:            DefaultKafka(),
		MaxRows:          100_000,
		MaxBytes:         20 << 20,
		MaxWait:          time.Second,
		Memory:           192 << 20,
		SessionTimeout:   30 * time.Second,
		RebalanceTimeout: 60 * time.Second,
		InsertTimeout:    20 * time.Second,
		VerifyEvery:      time.Minute,
		VerifyAgain:      24 * time.Hour,
	}
}

// DefaultKafka reads the topic task-events. It names no broker.
func DefaultKafka() Kafka {
	return Kafka{Topics: []string{"task-events"}, Group: "auditor", ClientID: "auditor"}
}

// MemoryLimit is what the program's memory is to be held to, in bytes, where it does nothing but ingest: see
// debug.SetMemoryLimit. The collector lets garbage grow to as much as is in use, and works harder near the limit.
func (c Config) MemoryLimit() int64 { return 2*int64(c.Memory) + 48<<20 }

// problems collects what is wrong with a configuration.
type problems []error

func (p *problems) bad(field, format string, args ...any) {
	*p = append(*p, fmt.Errorf(field+": "+format, args...))
}

// Validate names each field that is wrong and says what is allowed. All errors are joined. It leaves Kafka to
// Kafka.Validate.
func (c Config) Validate() error {
	var p problems
	if c.MaxRows < 1 || c.MaxRows > 1_000_000 {
		p.bad("max_rows", "must be from 1 to 1000000")
	}
	if c.MaxBytes < 64<<10 || c.MaxBytes > 256<<20 {
		p.bad("max_bytes", "must be from 65536 to 268435456")
	}
	if c.MaxWait < time.Millisecond || c.MaxWait > time.Minute {
		p.bad("max_wait", "must be from 1ms to 1m")
	}
	if c.Memory/costOfFetch < c.MaxBytes {
		p.bad("memory", "must be at least %d times max_bytes", costOfFetch)
	}
	if c.SessionTimeout < 6*time.Second || c.SessionTimeout > 30*time.Minute {
		p.bad("session_timeout", "must be from 6s to 30m")
	}
	if c.RebalanceTimeout < c.SessionTimeout || c.RebalanceTimeout > time.Hour {
		p.bad("rebalance_timeout", "must be from session_timeout to 1h")
	}
	if c.InsertTimeout < time.Second || c.InsertTimeout >= c.SessionTimeout {
		p.bad("insert_timeout", "must be at least 1s and below session_timeout and rebalance_timeout, so that an insert ends before another process takes the partition")
	}
	if c.VerifyEvery != 0 && (c.VerifyEvery < time.Second || c.VerifyEvery > 24*time.Hour) {
		p.bad("verify_every", "must be from 1s to 24h, or 0 for never")
	}
	if c.VerifyAgain != 0 && (c.VerifyAgain < time.Minute || c.VerifyAgain > 366*24*time.Hour) {
		p.bad("verify_again", "must be from 1m to 8784h, or 0 for never")
	}
	return errors.Join(p...)
}

// Validate names each field that is wrong and says what is allowed. All errors are joined.
func (k Kafka) Validate() error {
	var p problems
	if len(k.Brokers) == 0 {
		p.bad("brokers", "must name at least one host:port")
	}
	for _, b := range k.Brokers {
		if host, port, err := net.SplitHostPort(b); err != nil || host == "" || port == "" {
			p.bad("brokers", "must be host:port, such as kafka:9092, not %q", b)
		}
	}
	if len(k.Topics) == 0 {
		p.bad("topics", "must name at least one topic")
	}
	for i, t := range k.Topics {
		if !isTopic(t) {
			p.bad("topics", "must be 1 to 249 letters, digits, dots, underscores or hyphens, not %q", t)
		}
		if slices.Contains(k.Topics[:i], t) {
			p.bad("topics", "must name %q once", t)
		}
	}
	if k.Group == "" {
		p.bad("group", "must name a consumer group")
	}
	k.SASL.validate(&p)
	return errors.Join(append(p, k.TLS.Validate())...)
}

func isTopic(name string) bool {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
	}
	return name != "" && len(name) <= 249 && name != "." && name != ".." &&
		strings.IndexFunc(name, func(r rune) bool { return !plain(r) }) < 0
}

func (s SASL) validate(p *problems) {
	switch s.Mechanism {
	case "":
		if s != (SASL{}) {
			p.bad("sasl.mechanism", "must be PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512 where another key of sasl is set")
		}
		return
	case "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512":
	default:
		p.bad("sasl.mechanism", "must be PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512, not %q", s.Mechanism)
	}
	if s.Username == "" {
		p.bad("sasl.username", "must be set beside sasl.mechanism")
	}
	if (s.Password == "") == (s.PasswordFile == "") {
		p.bad("sasl.password", "must be set, or sasl.password_file, and not both")
	}
}

// Security is how to reach the brokers, for another client than this package's. It reads the files that k names; what is off is
// nil.
func (k Kafka) Security() (*tls.Config, sasl.Mechanism, error) {
	encryption, err := k.TLS.Load()
	if err != nil {
		return nil, nil, fmt.Errorf("kafka.%w", err)
	}
	mechanism, err := k.SASL.load()
	if err != nil {
		return nil, nil, fmt.Errorf("kafka.%w", err)
	}
	return encryption, mechanism, nil
}

// load reads the password's file. It gives nil where there is no authentication.
func (s SASL) load() (sasl.Mechanism, error) {
	password, err := s.Password.Or(s.PasswordFile)
	if err != nil {
		return nil, fmt.Errorf("sasl.%w", err)
	}
	switch s.Mechanism {
	case "PLAIN":
		return plain.Mechanism{Username: s.Username, Password: password}, nil
	case "SCRAM-SHA-256":
		return scram.Mechanism(scram.SHA256, s.Username, password)
	case "SCRAM-SHA-512":
		return scram.Mechanism(scram.SHA512, s.Username, password)
	}
	return nil, nil
}
