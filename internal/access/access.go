// Package access is what the clients of Kafka and of ClickHouse have in common: how a connection is encrypted, and how a
// secret stays one.
package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
)

// Secret is text that must not be shown. It prints as ***.
type Secret string

// String hides the secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "***"
}

// GoString hides the secret from %#v.
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// LogValue hides the secret from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the secret from JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Or gives the secret itself or, where a file is named, what that holds, a line break at its end aside.
func (s Secret) Or(file string) (string, error) {
	if file == "" {
		return string(s), nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("password_file: %w", err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// TLS is how to encrypt the connections to a server.
type TLS struct {
	Enabled    bool   `yaml:"enabled"`
	CAFile     string `yaml:"ca_file"`   // empty: the system's
	CertFile   string `yaml:"cert_file"` // with key_file: the client's own certificate
	KeyFile    string `yaml:"key_file"`
	ServerName string `yaml:"server_name"` // empty: the host that is dialled
}

// Validate names each field that is wrong, below tls, and says what is allowed. All errors are joined.
func (t TLS) Validate() error {
	var errs []error
	if !t.Enabled && t != (TLS{}) {
		errs = append(errs, errors.New("tls.enabled: must be true where another key of tls is set"))
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		errs = append(errs, errors.New("tls.cert_file: must be set together with tls.key_file"))
	}
	return errors.Join(errs...)
}

// Load reads the files. It gives nil where TLS is off.
func (t TLS) Load() (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls.ca_file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls.ca_file: no certificate in %s", t.CAFile)
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("tls.cert_file: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
