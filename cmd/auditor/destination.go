package main

import (
	"cmp"
	"errors"
	"path/filepath"
	"strings"

	"auditor/cmd/auditor/config"
	"auditor/embedded/kafka"
	"auditor/emit"
	"auditor/internal/access"
)

// destination is where a command sends events: to an auditor's address, or else to Kafka.
type destination struct {
	URL       string   `name:"url" placeholder:"URL" help:"Auditor to send to, such as https://auditor.example.com; AUDITOR_URL, if not given. Without either, events go to Kafka."`
	TokenFile string   `placeholder:"FILE" help:"File that holds that auditor's token; AUDITOR_TOKEN_FILE, if not given, or the token itself in AUDITOR_TOKEN."`
	Brokers   []string `placeholder:"HOST:PORT,..." help:"Kafka brokers; those of the configuration, if not given, or the embedded one of the auditor that runs on --data."`
	Topic     string   `help:"Topic; the first of the configuration, if not given."`
	Data      string   `placeholder:"DIR" help:"Directory of what the embedded servers keep (data)."`
}

// open finds out where events go, and reads the configuration, by which they are decoded. It names no brokers where they go to the
// embedded one.
func (d destination) open(env *environment) (emit.Config, config.Config, error) {
	c, err := env.load(nil, map[string]string{"kafka.brokers": strings.Join(d.Brokers, ","), "kafka.topics": d.Topic, "data": d.Data})
	if err != nil {
		return emit.Config{}, c, err
	}
	if url := cmp.Or(d.URL, env.getenv("AUDITOR_URL")); url != "" && (d.URL != "" || len(d.Brokers) == 0) {
		if len(d.Brokers) > 0 {
			return emit.Config{}, c, usageError{errors.New("--url: must not be given beside --brokers")}
		}
		token, err := d.token(env)
		return emit.Config{URL: url, Token: token}, c, err
	}
	if len(c.Kafka.Brokers) == 0 {
		addr, running := kafka.Attach(filepath.Join(c.Data, "kafka"))
		if !running {
			return emit.Config{}, c, &config.Error{Field: "kafka.brokers", Reason: "must name at least one host:port, or --url an auditor; " +
				"no auditor with an embedded broker runs on " + c.Data}
		}
		there := c
		there.Kafka.Brokers = []string{addr}
		to, err := emitConfig(there)
		return to, c, err
	}
	to, err := emitConfig(c)
	return to, c, err
}

// token is the one to show to an auditor, empty where none is given.
func (d destination) token(env *environment) (string, error) {
	return access.Secret(env.getenv("AUDITOR_TOKEN")).Or(cmp.Or(d.TokenFile, env.getenv("AUDITOR_TOKEN_FILE")))
}
