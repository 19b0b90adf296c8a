// Package config is the auditor's configuration: defaults, then a strict YAML file, then the environment, then the
// command line, then validation, which names every field that is wrong and says what is allowed.
//
// Keys of the file, environment variables and the text of errors all come from the yaml tags of one struct, so they
// cannot drift apart. A configuration is a value: nothing here is kept between calls or shared.
package config

import (
	"slices"
	"time"

	"auditor/embedded/kafka"
	"auditor/event"
	"auditor/event/review"
	"auditor/ingest"
	"auditor/queries"
	"auditor/rules"
	"auditor/web"
)

// Config is everything that can be set.
type Config struct {
	Listen     string           `yaml:"listen"`    // address of the pages and the API
	Profiling  bool             `yaml:"profiling"` // whether the program's profiles are served there too
	Data       string           `yaml:"data"`      // directory of what the embedded servers keep
	Log        Log              `yaml:"log"`
	Kafka      ingest.Kafka     `yaml:"kafka"`
	ClickHouse queries.Config   `yaml:"clickhouse"`
	Events     Events           `yaml:"events"`
	Ingest     ingest.Config    `yaml:"ingest"`
	Rules      rules.Config     `yaml:"rules"`
	Tasks      map[string]Task  `yaml:"tasks"` // by task name, or a pattern that names fit
	Web        web.Config       `yaml:"web"`
	Intake     web.IntakeConfig `yaml:"intake"`
	Embedded   Embedded         `yaml:"embedded"`
}

// Log is how the auditor reports on itself, on standard error.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn or error
	Format string `yaml:"format"` // text or json
}

// Events is how records are read as events.
type Events struct {
	Namespace string        `yaml:"namespace"` // of events that name none
	MaxBytes  int           `yaml:"max_bytes"` // of one event
	MaxSkew   time.Duration `yaml:"max_skew"`  // how far an event's time may be from its Kafka timestamp
}

// Task is what is particular about one task, or about all whose names fit a pattern.
type Task struct {
	BusinessKey string     `yaml:"business_key"` // template for events that carry none; empty: they are kept by task id
	Rules       rules.Task `yaml:",inline"`      // what the rules go by
}

// Embedded is how the stand-ins for the two servers are reached from outside.
type Embedded struct {
	KafkaListen            string `yaml:"kafka_listen"`             // address of the embedded broker
	KafkaPartitions        int    `yaml:"kafka_partitions"`         // of each topic
	ClickHouseListen       string `yaml:"clickhouse_listen"`        // address of the engine's HTTP interface; empty: none
	ClickHousePasswordFile string `yaml:"clickhouse_password_file"` // holds the password asked for there
}

// Default is the configuration where nothing is set. It names no server: those have to be told, or embedded.
func Default() Config {
	c := Config{
		Listen:     "127.0.0.1:8080",
		Data:       "data",
		Log:        Log{Level: "info", Format: "text"},
		Kafka:      ingest.DefaultKafka(),
		ClickHouse: queries.DefaultConfig(),
		Events:     Events{MaxBytes: event.DefaultMaxBytes, MaxSkew: event.DefaultMaxSkew},
		Ingest:     ingest.DefaultConfig(),
		Rules:      rules.DefaultConfig(),
		Web:        web.DefaultConfig(),
		Intake:     web.DefaultIntakeConfig(),
		Embedded:   Embedded{KafkaListen: "127.0.0.1:9092", KafkaPartitions: kafka.DefaultPartitions},
	}
	c.ClickHouse.Addresses = nil
	return c
}

// Decoder is the part of the configuration that decoding rests on.
func (c Config) Decoder() event.DecoderConfig {
	d := event.DecoderConfig{
		Namespace: c.Events.Namespace,
		MaxBytes:  c.Events.MaxBytes,
		MaxSkew:   c.Events.MaxSkew,
		Keys:      make(map[string]string),
	}
	for name, t := range c.Tasks {
		if t.BusinessKey != "" {
			d.Keys[name] = t.BusinessKey
		}
	}
	return d
}

// IngestConfig is the part of the configuration that ingest reads by.
func (c Config) IngestConfig() ingest.Config {
	i := c.Ingest
	i.Kafka = c.Kafka
	return i
}

// RuleConfig is the part of the configuration that the rules go by.
func (c Config) RuleConfig() rules.Config {
	r := c.Rules
	r.Tasks = make(map[string]rules.Task, len(c.Tasks))
	for name, t := range c.Tasks {
		r.Tasks[name] = t.Rules
	}
	own, _ := c.UserRules() // what is wrong with them is told where they are checked
	for _, one := range own {
		r.Written = append(r.Written, one.Name)
	}
	return r
}

// Review is the part of the configuration that reviews of tasks go by.
func (c Config) Review() review.Settings {
	r := c.RuleConfig()
	s := review.Settings{Timeouts: timeoutsOf(r.Timeouts), Of: func(task string) review.OfTask {
		t := r.Of(task)
		return review.OfTask{LookBack: t.LookBack, Timeouts: slices.Concat(timeoutsOf(t.Timeouts), timeoutsOf(r.Timeouts))}
	}}
	for _, t := range r.Tasks {
		s.Timeouts = append(s.Timeouts, timeoutsOf(t.Timeouts)...)
	}
	return s
}

func timeoutsOf(all []rules.Timeout) []review.Timeout {
	out := make([]review.Timeout, 0, len(all))
	for _, t := range all {
		out = append(out, review.Timeout{Name: t.Name, After: t.After})
	}
	return out
}
