package emit

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
)

// Config says where events go: to Brokers, or to the auditor at URL, which must be one of the two. Every other field has a
// default.
type Config struct {
	Brokers []string       // host:port
	Topic   string         // task-events when empty; an auditor chooses its own
	SASL    sasl.Mechanism // nil: none

	URL   string // where an auditor answers, such as https://auditor.example.com
	Token string // one of that auditor's with the scope emit; empty: none

	TLS        *tls.Config  // of either; nil: none for brokers, the system's authorities for a URL of https
	Emitter    string       // how this process is called in the events that it numbers; host/pid when empty. What differs by start is added
	Unnumbered bool         // whether events carry no numbers: for a process that tells of few, of which a hole says nothing
	Buffer     int          // events held while they cannot be sent; 10,000 when 0
	Logger     *slog.Logger // where trouble is told; nil: nowhere
}

// DefaultTopic is where events go when nothing else is said.
const DefaultTopic = "task-events"

// validate says what is wrong.
func (c Config) validate() error {
	switch {
	case len(c.Brokers) == 0 && c.URL == "":
		return errors.New("emit: brokers: must name at least one host:port, or url the address of an auditor")
	case len(c.Brokers) > 0 && c.URL != "":
		return errors.New("emit: url: must not be set beside brokers")
	case c.URL == "":
		return nil
	}
	u, err := url.Parse(c.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return fmt.Errorf("emit: url: must be http:// or https:// and a host, such as https://auditor.example.com, not %q", c.URL)
	}
	if strings.ContainsAny(c.Token, " \t\r\n") {
		return errors.New("emit: token: must hold no white space")
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Topic == "" {
		c.Topic = DefaultTopic
	}
	if c.Buffer <= 0 {
		c.Buffer = 10_000
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Emitter == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown"
		}
		c.Emitter = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	return c
}

// open makes the way to where events go. It connects to nothing.
func (c Config) open() sender {
	if c.URL != "" {
		return newAuditor(c)
	}
	return newBrokers(c)
}

// startName tells one start of an emitter from every other: numbers begin anew with each.
func startName(emitter string) string { return emitter + "/" + strings.ToLower(rand.Text()[:10]) }
