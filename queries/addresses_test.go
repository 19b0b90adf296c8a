package queries

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	gocmp "github.com/google/go-cmp/cmp"

	"auditor/embedded/clickhouse/testserver"
	"auditor/event"
	"auditor/internal/access"
)

func TestAddressesAreTriedInTheirOrder(t *testing.T) {
	all := []string{"a:1", "b:1", "c:1"}
	now := noon
	a := newAddresses(InOrder)
	a.now = func() time.Time { return now }
	want := func(line ...string) {
		t.Helper()
		if diff := gocmp.Diff(line, a.line(all)); diff != "" {
			t.Errorf("want (-), got (+):\n%s", diff)
		}
	}
	want("a:1", "b:1", "c:1")
	a.tell("a:1", errors.New("away"))
	want("b:1", "c:1", "a:1")
	now = now.Add(shunTime)
	want("a:1", "b:1", "c:1")
	a.tell("b:1", errors.New("away"))
	a.tell("b:1", nil)
	want("a:1", "b:1", "c:1")
	a.order = RoundRobin
	want("a:1", "b:1", "c:1")
	want("b:1", "c:1", "a:1")
	a.tell("c:1", errors.New("away"))
	want("a:1", "b:1", "c:1")
	want("a:1", "b:1", "c:1")
	a.order = Random
	first := map[string]bool{}
	for range 200 {
		first[a.line(all)[0]] = true
	}
	if !first["a:1"] || !first["b:1"] || first["c:1"] {
		t.Errorf("began with %v, and c is away", first)
	}
}

// silent is an address that takes connections and never says a word.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// Two servers that do not know of one another: what is asked for is whether the store finds the one that answers.
func TestStoreGoesOnAtTheNextAddress(t *testing.T) {
	at, err := testserver.Addresses(4)
	if err != nil {
		t.Fatal(err)
	}
	var servers []*testserver.Server
	for i := range 2 {
		servers = append(servers, startServer(t, testserver.Config{Data: t.TempDir(), Native: at[i], HTTP: at[2+i]}))
		config := DefaultConfig()
		config.Addresses, config.RetentionDays = at[i:i+1], 0
		if _, err := opened(t, config).Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	batch := func(offset int64) event.Batch { return aBatch(anEvent(offset)) }
	for _, protocol := range []struct {
		name      string
		addresses []string
	}{{Native, at[:2]}, {HTTP, at[2:]}} {
		t.Run(protocol.name, func(t *testing.T) {
			config := DefaultConfig()
			config.Protocol, config.DialTimeout, config.InsertTimeout = protocol.name, time.Second, 5*time.Second
			config.Addresses = append([]string{silent(t)}, protocol.addresses...)
			s := opened(t, config)
			if err := s.Wait(t.Context()); err != nil {
				t.Fatalf("the first address is silent: %v", err)
			}
			if err := s.InsertBatch(t.Context(), batch(1)); err != nil {
				t.Fatal(err)
			}
			servers[0].Stop()
			var failed error
			for range 3 { // a request that was under way may fail
				if failed = s.InsertBatch(t.Context(), batch(2)); failed == nil {
					break
				}
				if isPermanent(failed) {
					t.Fatalf("%v is not to be tried again", failed)
				}
			}
			if failed != nil {
				t.Fatalf("the first server is gone: %v", failed)
			}
			servers[1].Stop()
			_ = s.Ping(t.Context()) // by the connection that there was
			err := s.Ping(t.Context())
			if err == nil || isPermanent(err) {
				t.Fatalf("no server is left: %v", err)
			}
			for _, address := range config.Addresses {
				if !strings.Contains(err.Error(), address+": ") {
					t.Errorf("%v does not say what became of %s", err, address)
				}
			}
		})
		for i := range servers {
			servers[i].Stop()
			servers[i] = startServer(t, testserver.Config{Data: t.TempDir(), Native: at[i], HTTP: at[2+i]})
			config := DefaultConfig()
			config.Addresses, config.RetentionDays = at[i:i+1], 0
			if _, err := opened(t, config).Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// issue writes a certificate and its key, signed by a parent or by itself, and gives it.
func issue(t *testing.T, dir, name string, parent *tls.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, IsCA: parent == nil,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	signer, signed := any(key), template
	if parent != nil {
		signer, signed = parent.PrivateKey, parent.Leaf
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signed, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{".pem": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name+file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// encrypted puts a listener with TLS in front of an address.
func encrypted(t *testing.T, config *tls.Config, to string) string {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if conn.(*tls.Conn).Handshake() != nil {
					return // the server behind never hears of it
				}
				server, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer server.Close()
				go func() {
					_, _ = io.Copy(server, conn)
					_ = server.(*net.TCPConn).CloseWrite()
				}()
				_, _ = io.Copy(conn, server)
			}()
		}
	}()
	return l.Addr().String()
}

func TestTLSOfTheNativeProtocol(t *testing.T) {
	at, err := testserver.Addresses(1)
	if err != nil {
		t.Fatal(err)
	}
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("auditor\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	base := DefaultConfig()
	base.Database, base.Username, base.PasswordFile, base.DialTimeout = "auditor", "auditor", password, 2*time.Second
	startServer(t, testserver.Config{Data: t.TempDir(), Native: at[0], Users: withGrants(base)})
	base.Addresses = at
	if _, err := opened(t, base).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	authority := issue(t, dir, "authority", nil)
	issue(t, dir, "stranger", nil)
	server := issue(t, dir, "clickhouse.example", &authority)
	issue(t, dir, "client", &authority)
	pool := x509.NewCertPool()
	pool.AddCert(authority.Leaf)
	open := encrypted(t, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{server}}, at[0])
	mutual := encrypted(t, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{server},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}, at[0])
	file := func(name string) string { return filepath.Join(dir, name) }
	good := access.TLS{Enabled: true, CAFile: file("authority.pem"), ServerName: "clickhouse.example"}
	ours := good
	ours.CertFile, ours.KeyFile = file("client.pem"), file("client.key")
	stranger := good
	stranger.CertFile, stranger.KeyFile = file("stranger.pem"), file("stranger.key")
	for _, c := range []struct {
		name, address string
		tls           access.TLS
		want          string // empty: it works
	}{
		{"own authority and server name", open, good, ""},
		{"client certificate", mutual, ours, ""},
		{"no client certificate", mutual, good, "certificate required"},
		{"a stranger's client certificate", mutual, stranger, "tls"},
		{"the host's own name", open, access.TLS{Enabled: true, CAFile: file("authority.pem")}, "127.0.0.1"},
		{"another authority", open, access.TLS{Enabled: true, CAFile: file("stranger.pem"), ServerName: "clickhouse.example"}, "unknown authority"},
		{"the system's authorities", open, access.TLS{Enabled: true, ServerName: "clickhouse.example"}, "unknown authority"},
		{"no TLS", open, access.TLS{}, open},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := base
			config.Addresses, config.TLS = []string{c.address}, c.tls
			s := opened(t, config)
			err := s.Ping(t.Context())
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want an error with %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := s.InsertBatch(t.Context(), aBatch(anEvent(1))); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPortHint(t *testing.T) {
	encrypted := &tls.Config{MinVersion: tls.VersionTLS12}
	for _, c := range []struct {
		address string
		options clickhouse.Options
		want    string
	}{
		{"a:9000", clickhouse.Options{}, ""},
		{"a:9440", clickhouse.Options{TLS: encrypted}, ""},
		{"a:8443", clickhouse.Options{Protocol: clickhouse.HTTP, TLS: encrypted}, ""},
		{"a:19000", clickhouse.Options{TLS: encrypted}, ""},
		{"a:9000", clickhouse.Options{TLS: encrypted}, " (9000 is usually the port of the protocol native, without TLS)"},
		{"a:9440", clickhouse.Options{}, " (9440 is usually the port of the protocol native, with TLS)"},
		{"a:8123", clickhouse.Options{}, " (8123 is usually the port of the protocol http, without TLS)"},
		{"a:8443", clickhouse.Options{Protocol: clickhouse.HTTP}, " (8443 is usually the port of the protocol http, with TLS)"},
	} {
		if got := portHint(c.address, &c.options); got != c.want {
			t.Errorf("%s: %q, want %q", c.address, got, c.want)
		}
	}
}

// What the server is told with an insert: the driver makes max_execution_time of the deadline, whatever else is set.
func TestSettingsThatAnInsertIsSentWith(t *testing.T) {
	at, err := testserver.Addresses(2)
	if err != nil {
		t.Fatal(err)
	}
	startServer(t, testserver.Config{Data: t.TempDir(), Native: at[0], HTTP: at[1]})
	for i, protocol := range []string{Native, HTTP} {
		t.Run(protocol, func(t *testing.T) {
			config := DefaultConfig()
			config.Database, config.Protocol, config.Addresses = "default", protocol, at[i:i+1]
			config.InsertTimeout, config.Cluster, config.InsertQuorum = 7*time.Second, "main", "2"
			s := opened(t, config)
			if err := s.conn.Exec(t.Context(), `CREATE OR REPLACE TABLE seen (
				a Int32,
				names Array(String) DEFAULT ['max_execution_time', 'insert_deduplication_token', 'async_insert', 'insert_quorum', 'insert_quorum_timeout', 'distributed_foreground_insert'],
				values Array(String) DEFAULT [toString(getSetting('max_execution_time')), getSetting('insert_deduplication_token'), toString(getSetting('async_insert')),
					toString(getSetting('insert_quorum')), toString(getSetting('insert_quorum_timeout')), toString(getSetting('distributed_foreground_insert'))]
				) ENGINE = MergeTree ORDER BY a`); err != nil {
				t.Fatal(err)
			}
			if err := s.insert(t.Context(), "seen", "t:0:1-2", []values{{"a", []int32{1}}}); err != nil {
				t.Fatal(err)
			}
			var got []string
			if err := s.conn.QueryRow(t.Context(), "SELECT values FROM seen").Scan(&got); err != nil {
				t.Fatal(err)
			}
			want := []string{"11", "t:0:1-2", "false", "2", "7000", "true"} // 7 s less a moment, and the driver's 5
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("want (-), got (+):\n%s", diff)
			}
		})
	}
}
