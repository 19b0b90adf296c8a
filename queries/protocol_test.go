package queries

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"auditor/embedded/clickhouse"
	"auditor/embedded/clickhouse/chtest"
	"auditor/event"
)

const portPassword = "correct horse"

// enginePort starts an engine with a port, and gives its address.
func enginePort(t *testing.T) string {
	t.Helper()
	library := chtest.Library(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	engine, err := clickhouse.Start(t.Context(), clickhouse.Config{Data: t.TempDir(), Library: library, Listen: address, Password: portPassword})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return address
}

// tlsBefore puts a gateway with a certificate in front of an address, and gives its address and the file of its authority.
func tlsBefore(t *testing.T, address string) (gateway, authority string) {
	t.Helper()
	server := httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address}))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	t.Cleanup(server.Close)
	authority = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(authority, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return server.Listener.Addr().String(), authority
}

func TestHTTPProtocol(t *testing.T) {
	address := enginePort(t)
	gateway, authority := tlsBefore(t, address)
	base := DefaultConfig()
	base.Protocol, base.Password, base.RetentionDays, base.DialTimeout = HTTP, portPassword, 0, time.Second
	open := func(t *testing.T, change func(*Config)) (*Store, *bytes.Buffer) {
		t.Helper()
		config, log := base, new(bytes.Buffer)
		change(&config)
		s, err := Open(config, Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s, log
	}
	plain := func(c *Config) { c.Addresses = []string{address} }
	encrypted := func(c *Config) {
		c.Addresses, c.TLS.Enabled, c.TLS.CAFile = []string{gateway}, true, authority
	}
	for i, change := range []func(*Config){plain, encrypted} {
		t.Run([]string{"plain", "encrypted"}[i], func(t *testing.T) {
			s, _ := open(t, func(c *Config) { change(c); c.Database = fmt.Sprint("protocol_", i) })
			if err := s.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.Check(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.Check(t.Context()); err != nil {
				t.Error(err)
			}
			b := event.Batch{Topic: "t", First: 0, Last: 0, Records: 1, Time: time.Now(),
				Events: []event.Event{{ID: "a", TaskID: "1", Type: event.Started, Time: time.Now(), Position: event.Position{Topic: "t"}}}}
			if err := s.InsertBatch(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			stored, err := s.Present(t.Context(), "t", 0, 0, 0)
			if err != nil || !stored.Complete || len(stored.Events) != 1 {
				t.Errorf("stored is %+v, %v", stored, err)
			}
		})
	}
	t.Run("wrong password", func(t *testing.T) {
		for _, change := range []func(*Config){plain, encrypted} {
			s, log := open(t, func(c *Config) { change(c); c.Password = "battery staple" })
			err := s.Wait(t.Context())
			var e *Error
			if !errors.As(err, &e) || e.Code != 516 || !e.Permanent() {
				t.Errorf("got %v", err)
			}
			if text := fmt.Sprint(err, log.String()); strings.Contains(text, "staple") {
				t.Errorf("the password is told: %s", text)
			}
		}
	})
}
