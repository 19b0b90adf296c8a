package bridge

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"
)

// Celery is how an application is set up. Of FanoutPrefix the default of Celery is "/{db}.", of the others the zero value.
type Celery struct {
	Exchange     string // event_exchange; celeryev
	FanoutPrefix string // of Redis: broker_transport_options.fanout_prefix, in which {db} is the database; empty for fanout_prefix False
	KeyPrefix    string // of Redis: broker_transport_options.global_keyprefix
}

// dialLimit is how long one connection may take to be made.
const dialLimit = 10 * time.Second

// Open makes the source that a broker's address names, as an application writes it in broker_url. It connects to nothing, and no
// error of it shows the address, which may hold a password.
func Open(address string, c Celery) (Source, error) {
	if c.Exchange == "" {
		c.Exchange = "celeryev"
	}
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil {
		return nil, errors.New("broker: is no URL (which is not shown, for it may hold a password); letters such as @, / and # in a password must be written as %40, %2F and %23")
	}
	switch u.Scheme {
	case "redis", "rediss", "redis+socket", "unix":
		return openRedis(u, c)
	case "amqp", "amqps", "pyamqp":
		return openRabbit(u, c)
	}
	return nil, fmt.Errorf("broker: must be a URL of redis://, rediss://, redis+socket://, amqp:// or amqps://, not of %.32q", u.Scheme)
}

// hostPort is where to connect to.
func hostPort(u *url.URL, port string) string {
	host := u.Hostname()
	if host == "" {
		host = "localhost"
	}
	if p := u.Port(); p != "" {
		port = p
	}
	return net.JoinHostPort(host, port)
}

// parameters reads the part of a URL behind the question mark. Each name must be one that the caller knows.
func parameters(u *url.URL, known ...string) (map[string]string, error) {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("broker: the part behind the question mark cannot be read")
	}
	given := make(map[string]string)
	for name, values := range query {
		ok := false
		for _, k := range known {
			ok = ok || k == name
		}
		if !ok {
			return nil, fmt.Errorf("broker: %.64q is no parameter that the bridge knows; it knows %s", name, strings.Join(known, ", "))
		}
		given[name] = values[0]
	}
	return given, nil
}

// security are the parameters of both brokers' URLs by which a connection is encrypted, named as kombu does.
var security = []string{"ssl_cert_reqs", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile"}

// encryption makes what these parameters ask for.
func encryption(host string, given map[string]string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	switch strings.TrimPrefix(strings.ToLower(given["ssl_cert_reqs"]), "cert_") {
	case "", "required", "optional":
	case "none":
		c.InsecureSkipVerify = true // as the application's own URL asks for
	default:
		return nil, errors.New("broker: ssl_cert_reqs must be required, optional or none")
	}
	if name := given["ssl_ca_certs"]; name != "" {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("broker: ssl_ca_certs: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("broker: ssl_ca_certs: %s holds no certificate", name)
		}
	}
	if name := given["ssl_certfile"]; name != "" {
		pair, err := tls.LoadX509KeyPair(name, given["ssl_keyfile"])
		if err != nil {
			return nil, fmt.Errorf("broker: ssl_certfile: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
