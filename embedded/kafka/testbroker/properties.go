package testbroker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	propertiesFile = "server.properties"
	logDir         = "log"
	controller     = "CONTROLLER" // name of the controller's listener
	clusterID      = "dGVzdGJyb2tlci0wMDAwMQ"
)

func (c Config) encrypts() bool {
	return slices.Contains(c.Listeners, TLS) || slices.Contains(c.Listeners, SASLTLS)
}

func (c Config) authenticates() bool {
	return slices.Contains(c.Listeners, SASL) || slices.Contains(c.Listeners, SASLTLS)
}

var word = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func (c Config) check() error {
	for i, l := range c.Listeners {
		if !slices.Contains([]Security{Plaintext, TLS, SASL, SASLTLS}, l) || slices.Contains(c.Listeners[:i], l) {
			return fmt.Errorf("listener %q: must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, each once", l)
		}
	}
	if c.authenticates() && len(c.Users) == 0 {
		return errors.New("a listener with SASL needs users")
	}
	for name, password := range c.Users {
		if !word.MatchString(name) || !word.MatchString(password) {
			return fmt.Errorf("user %q: name and password must be letters, digits, hyphens and underscores", name)
		}
	}
	return nil
}

// configure writes the broker's configuration.
func (b *Broker) configure() error {
	var text strings.Builder
	properties := b.properties()
	for _, key := range slices.Sorted(maps.Keys(properties)) {
		fmt.Fprintf(&text, "%s=%s\n", key, strings.ReplaceAll(properties[key], `\`, `\\`))
	}
	return os.WriteFile(filepath.Join(b.config.Data, propertiesFile), []byte(text.String()), 0o600)
}

func (b *Broker) properties() map[string]string {
	control := fmt.Sprintf("127.0.0.1:%d", b.control)
	listeners, protocols := []string{controller + "://" + control}, []string{controller + ":PLAINTEXT"}
	var advertised []string
	for _, l := range b.config.Listeners {
		at := string(l) + "://" + b.AddrOf(l)
		listeners, advertised = append(listeners, at), append(advertised, at)
		protocols = append(protocols, string(l)+":"+string(l))
	}
	p := map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        "1",
		"controller.quorum.voters":       "1@" + control,
		"controller.listener.names":      controller,
		"listeners":                      strings.Join(listeners, ","),
		"advertised.listeners":           strings.Join(advertised, ","),
		"listener.security.protocol.map": strings.Join(protocols, ","),
		"inter.broker.listener.name":     string(Plaintext),
		"log.dirs":                       filepath.Join(b.config.Data, logDir),
		"auto.create.topics.enable":      "false",

		// One node holds everything.
		"offsets.topic.replication.factor":                 "1",
		"offsets.topic.num.partitions":                     "1",
		"transaction.state.log.replication.factor":         "1",
		"transaction.state.log.min.isr":                    "1",
		"transaction.state.log.num.partitions":             "1",
		"share.coordinator.state.topic.replication.factor": "1",
		"share.coordinator.state.topic.min.isr":            "1",
		"share.coordinator.state.topic.num.partitions":     "1",

		// A quick start, also after a kill: the broker that was killed keeps its name until its session ends.
		"group.initial.rebalance.delay.ms":  "0",
		"group.min.session.timeout.ms":      "100",
		"broker.heartbeat.interval.ms":      "200",
		"broker.session.timeout.ms":         "2000",
		"num.network.threads":               "2",
		"num.io.threads":                    "4",
		"num.recovery.threads.per.data.dir": "2",

		// Little memory and disk.
		"log.cleaner.dedupe.buffer.size":      "4194304",
		"log.segment.bytes":                   "67108864",
		"log.index.size.max.bytes":            "1048576",
		"log.retention.check.interval.ms":     "500",
		"log.initial.task.delay.ms":           "500",
		"log.segment.delete.delay.ms":         "100",
		"offsets.topic.segment.bytes":         "8388608",
		"transaction.state.log.segment.bytes": "8388608",
	}
	if b.config.encrypts() {
		p["ssl.keystore.type"] = "PEM"
		p["ssl.keystore.location"] = filepath.Join(b.config.Data, keyFile)
		p["ssl.truststore.type"] = "PEM"
		p["ssl.truststore.location"] = b.CA()
	}
	if b.config.authenticates() {
		b.authentication(p)
	}
	maps.Copy(p, b.config.Properties)
	return p
}

// authentication adds what the listeners with SASL need.
func (b *Broker) authentication(p map[string]string) {
	var plain strings.Builder
	plain.WriteString("org.apache.kafka.common.security.plain.PlainLoginModule required")
	for _, name := range slices.Sorted(maps.Keys(b.config.Users)) {
		fmt.Fprintf(&plain, ` user_%s="%s"`, name, b.config.Users[name])
	}
	plain.WriteString(";")
	p["sasl.enabled.mechanisms"] = "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
	for _, l := range []Security{SASL, SASLTLS} {
		prefix := "listener.name." + strings.ToLower(string(l)) + "."
		p[prefix+"plain.sasl.jaas.config"] = plain.String()
		for _, mechanism := range []string{"scram-sha-256", "scram-sha-512"} {
			p[prefix+mechanism+".sasl.jaas.config"] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
		}
	}
}

// format makes the data directory a broker's. One that is already is left as it is.
func (b *Broker) format(ctx context.Context) error {
	if _, err := os.Stat(filepath.Join(b.config.Data, logDir, "meta.properties")); err == nil {
		return nil
	}
	arguments := append(b.jvm(), "kafka.tools.StorageTool", "format", "--cluster-id", clusterID, "--config", filepath.Join(b.config.Data, propertiesFile))
	for _, name := range slices.Sorted(maps.Keys(b.config.Users)) {
		for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
			arguments = append(arguments, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, name, b.config.Users[name]))
		}
	}
	if out, err := exec.CommandContext(ctx, b.java, arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("format the data directory: %w: %s", err, tail(out))
	}
	return nil
}
