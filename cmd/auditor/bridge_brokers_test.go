package main

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"auditor/internal/require"
)

// secret is the password of the brokers, which must not show up anywhere.
const secret = "geheim"

// startRedis starts a Redis server of the test's own.
func startRedis(t *testing.T) (address string) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		require.Missing(t, "redis-server", "apt-get install redis-server")
	}
	address = freeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	background(t, exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--requirepass", secret, "--dir", t.TempDir()))
	awaitPort(t, address)
	return address
}

// startRabbit starts a RabbitMQ server of the test's own, with a daemon of its own for the names of Erlang's nodes.
func startRabbit(t *testing.T) (address string) {
	t.Helper()
	const server = "/usr/lib/rabbitmq/bin/rabbitmq-server" // the one in the path runs as another user, in the system's directories
	if _, err := os.Stat(server); err != nil {
		require.Missing(t, "rabbitmq-server", "apt-get install rabbitmq-server")
	}
	dir := t.TempDir()
	address = freeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	_, distribution, _ := net.SplitHostPort(freeAddress(t))
	_, names, _ := net.SplitHostPort(freeAddress(t))
	config := filepath.Join(dir, "rabbitmq.conf")
	definitions := filepath.Join(dir, "definitions.json")
	for name, text := range map[string]string{
		config:      fmt.Sprintf("listeners.tcp.1 = 127.0.0.1:%s\nload_definitions = %s\n", port, definitions),
		definitions: rabbitUsers(t),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	environment := append(os.Environ(), "HOME="+dir, "ERL_EPMD_PORT="+names, "ERL_EPMD_ADDRESS=127.0.0.1", "RABBITMQ_DIST_PORT="+distribution,
		"RABBITMQ_NODENAME=bridge@localhost", "RABBITMQ_BASE="+dir, "RABBITMQ_MNESIA_BASE="+dir+"/mnesia", "RABBITMQ_LOG_BASE="+dir+"/log",
		"RABBITMQ_CONFIG_FILE="+config, "RABBITMQ_ENABLED_PLUGINS_FILE="+dir+"/plugins", "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 1:1",
		"RABBITMQ_CONF_ENV_FILE="+dir+"/none", "RABBITMQ_PID_FILE="+dir+"/pid", "RABBITMQ_GENERATED_CONFIG_DIR="+dir+"/generated",
		"RABBITMQ_FEATURE_FLAGS_FILE="+dir+"/flags")
	t.Cleanup(func() {
		stop := exec.Command("epmd", "-port", names, "-kill")
		stop.Env = environment
		if out, err := stop.CombinedOutput(); err != nil {
			t.Logf("epmd: %v %s", err, out)
		}
	})
	cmd := exec.Command(server)
	cmd.Env = environment
	background(t, cmd)
	awaitPort(t, address)
	return address
}

// rabbitUsers is a user for the workers, who may do anything, and one for the bridge, who has the rights that docs/bridge.md names.
func rabbitUsers(t *testing.T) string {
	t.Helper()
	salt := []byte("salt")
	sum := sha256.Sum256(append(salt, secret...))
	hash := base64.StdEncoding.EncodeToString(append(salt, sum[:]...))
	type object = map[string]any
	user := func(name string) object {
		return object{"name": name, "password_hash": hash, "hashing_algorithm": "rabbit_password_hashing_sha256", "tags": ""}
	}
	const own, both = `^auditor\.bridge\..*$`, `^(auditor\.bridge\..*|celeryev)$`
	text, err := json.Marshal(object{
		"users":  []object{user("shop"), user("bridge")},
		"vhosts": []object{{"name": "/"}},
		"permissions": []object{
			{"user": "shop", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"},
			{"user": "bridge", "vhost": "/", "configure": both, "write": own, "read": both},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// background runs a program until the test has ended.
func background(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that its children end with it
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		kill := time.AfterFunc(20*time.Second, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		defer kill.Stop()
		_ = cmd.Wait() // what it has to say is in its log
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if text, _ := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(cmd.Path), text)
		}
	})
}

func awaitPort(t *testing.T, address string) {
	t.Helper()
	eventually(t, address+" answers", func() bool {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return false
		}
		return c.Close() == nil
	})
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// way is an encrypted way to a server that can be cut.
type way struct {
	listener net.Listener
	ca       string // file of the certificate that it shows
	to       string
	mu       sync.Mutex
	open     []net.Conn
}

func newWay(t *testing.T, to string) *way {
	t.Helper()
	certified := httptest.NewTLSServer(nil)
	certified.Close() // only its certificate is needed
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certified.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	w := &way{listener: l, to: to, ca: filepath.Join(t.TempDir(), "ca.pem")}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certified.Certificate().Raw})
	if err := os.WriteFile(w.ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	go w.serve()
	t.Cleanup(func() {
		_ = l.Close() // the test is over
		w.cut()
	})
	return w
}

func (l *way) serve() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", l.to)
		if err != nil {
			_ = near.Close() // the other side sees it
			continue
		}
		l.mu.Lock()
		l.open = append(l.open, near, far)
		l.mu.Unlock()
		go func() { _, _ = io.Copy(near, far); _ = near.Close() }() // until it is cut
		go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
	}
}

// cut closes what is open. Who comes again is let in.
func (l *way) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.open {
		_ = c.Close() // may be closed
	}
	l.open = nil
}

func (l *way) address() string { return l.listener.Addr().String() }

// noise is what a program wrote, readable while it goes on.
type noise struct {
	mu   sync.Mutex
	text strings.Builder
}

func (n *noise) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *noise) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}
