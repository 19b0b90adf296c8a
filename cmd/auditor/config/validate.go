package config

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"auditor/event"
	"auditor/queries"
)

// checker collects what is wrong.
type checker struct {
	origins map[string]string
	errs    []error
}

func (c *checker) bad(field, reason string) {
	c.errs = append(c.errs, &Error{c.origins[field], field, reason})
}

// section takes over what a package says of its own part, whose errors begin with the field's name.
func (c *checker) section(prefix string, err error) {
	for _, e := range flatten(err) {
		name, reason, found := strings.Cut(e.Error(), ": ")
		switch {
		case !found:
			name, reason = prefix, e.Error()
		case !strings.HasPrefix(name, prefix+".") && !strings.HasPrefix(name, "tasks."):
			name = prefix + "." + name
		}
		c.bad(name, reason)
	}
}

// flatten undoes errors.Join.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, flatten(e)...)
	}
	return out
}

func (c Config) validate(origins map[string]string) error {
	check := &checker{origins: origins}
	check.address("listen", c.Listen)
	if c.Data == "" {
		check.bad("data", "must be a directory")
	}
	check.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	check.oneOf("log.format", c.Log.Format, "text", "json")
	c.checkServers(check)
	c.checkTasks(check)
	check.section("rules", c.RuleConfig().Validate())
	c.checkUserRules(check)
	check.section("web", c.Web.Validate())
	check.section("intake", c.Intake.Validate())
	c.checkEmbedded(check)
	return errors.Join(check.errs...)
}

func (c Config) checkServers(check *checker) {
	kafka := c.Kafka
	if len(kafka.Brokers) == 0 { // allowed here: the broker may be embedded
		kafka.Brokers = []string{"embedded:0"}
	}
	check.section("kafka", kafka.Validate())
	check.section("ingest", c.Ingest.Validate())
	clickhouse := c.ClickHouse
	if len(clickhouse.Addresses) == 0 { // allowed here: the engine may be embedded
		clickhouse.Addresses = []string{"embedded:0"}
	}
	check.section("clickhouse", clickhouse.Validate())
	c.checkTimeouts(check)
}

// checkTimeouts sees to it that an insert is over, on the server too, before Kafka may give the partition to another
// process. What arrives later does no harm, as far as ClickHouse still knows its token, and so must not be the rule.
func (c Config) checkTimeouts(check *checker) {
	limit := c.Ingest.SessionTimeout - queries.Grace
	for _, t := range []struct {
		field string
		value time.Duration
	}{{"ingest.insert_timeout", c.Ingest.InsertTimeout}, {"clickhouse.insert_timeout", c.ClickHouse.InsertTimeout}} {
		if t.value > limit && (t.field != "ingest.insert_timeout" || t.value < c.Ingest.SessionTimeout) { // else it was told
			check.bad(t.field, fmt.Sprintf("%s must be at least %s below ingest.session_timeout (%s), and so below ingest.rebalance_timeout (%s): "+
				"ClickHouse may go on so long with an insert that was given up, and another process may have the partition by then",
				formatDuration(t.value), formatDuration(queries.Grace), formatDuration(c.Ingest.SessionTimeout), formatDuration(c.Ingest.RebalanceTimeout)))
		}
	}
}

func (c Config) checkTasks(check *checker) {
	if c.Events.MaxBytes < 1<<10 || c.Events.MaxBytes > 64<<20 {
		check.bad("events.max_bytes", "must be from 1024 to 67108864")
	}
	if c.Events.MaxSkew <= 0 {
		check.bad("events.max_skew", "must be longer than 0")
	}
	for name, t := range c.Tasks {
		if t.BusinessKey == "" {
			continue
		}
		if _, err := event.ParseKeyTemplate(t.BusinessKey); err != nil {
			check.bad("tasks."+name+".business_key", err.Error())
		}
	}
}

// checkUserRules reads the files of rules, whose errors say where they stand.
func (c Config) checkUserRules(check *checker) {
	_, err := c.UserRules()
	for _, e := range flatten(err) {
		if wrong := new(Error); errors.As(e, &wrong) && wrong.Origin == "" {
			check.bad(wrong.Field, wrong.Reason)
			continue
		}
		check.errs = append(check.errs, e)
	}
}

func (c Config) checkEmbedded(check *checker) {
	e := c.Embedded
	check.address("embedded.kafka_listen", e.KafkaListen)
	if e.KafkaPartitions < 1 || e.KafkaPartitions > 1024 {
		check.bad("embedded.kafka_partitions", "must be from 1 to 1024")
	}
	if e.ClickHouseListen != "" {
		check.address("embedded.clickhouse_listen", e.ClickHouseListen)
		if e.ClickHousePasswordFile == "" {
			check.bad("embedded.clickhouse_password_file", "must name a file beside embedded.clickhouse_listen: the port is never open without a password")
		}
	}
}

func (c *checker) address(field, value string) {
	host, port, err := net.SplitHostPort(value)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil || strings.ContainsAny(host, " /") {
		c.bad(field, fmt.Sprintf("must be host:port, such as 127.0.0.1:8080, not %q", value))
	}
}

func (c *checker) oneOf(field, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		c.bad(field, fmt.Sprintf("must be one of %s, not %q", strings.Join(allowed, ", "), value))
	}
}
