package access_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"auditor/internal/access"
)

func TestSecretIsNeverShown(t *testing.T) {
	type config struct {
		Password access.Secret `yaml:"password"`
	}
	c := config{"hunter2"}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("open", "config", c, "password", c.Password)
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	shown := fmt.Sprintf("%v %+v %#v %s %q %x", c, c, c, c.Password, c.Password, c.Password)
	for _, text := range []string{shown, log.String(), string(asJSON), string(asYAML)} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, fmt.Sprintf("%x", "hunter2")) {
			t.Errorf("shown in %s", text)
		}
	}
	if access.Secret("").String() != "" {
		t.Error("an empty secret must be recognisable")
	}
}

func TestSecretOrFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("pass word\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		secret     access.Secret
		file, want string
	}{{"given", "", "given"}, {"", file, "pass word"}, {"", "", ""}} {
		if got, err := c.secret.Or(c.file); got != c.want || err != nil {
			t.Errorf("%q, %v, want %q", got, err, c.want)
		}
	}
	if _, err := access.Secret("").Or(file + "x"); err == nil || !strings.HasPrefix(err.Error(), "password_file: ") {
		t.Errorf("a missing file: %v", err)
	}
}

func TestTLS(t *testing.T) {
	if c, err := (access.TLS{}).Load(); c != nil || err != nil {
		t.Errorf("off: %v, %v", c, err)
	}
	for field, wrong := range map[string]access.TLS{
		"tls.enabled":   {CAFile: "ca.pem"},
		"tls.cert_file": {Enabled: true, CertFile: "cert.pem"},
	} {
		if err := wrong.Validate(); err == nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for field, missing := range map[string]access.TLS{
		"tls.ca_file":   {Enabled: true, CAFile: empty},
		"tls.cert_file": {Enabled: true, CertFile: empty, KeyFile: empty},
	} {
		if _, err := missing.Load(); err == nil || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}
