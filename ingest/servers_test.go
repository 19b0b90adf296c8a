package ingest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"auditor/embedded/kafka"
	"auditor/embedded/kafka/testbroker"
	"auditor/internal/require"
)

// server is a Kafka that the contract is held against.
type server interface {
	Addr() string
	Kill()                             // as kill -9 does
	Restart(ctx context.Context) error // on the same address, with the same data
	Stop() error
}

// kinds are the servers that the contract is held against.
var kinds = []struct {
	name  string
	start func(testing.TB) (server, error)
}{
	{"embedded", startEmbedded},
	{"apache", startApache},
}

// servers are those that the tests of this package share: one of each kind, started by the first that needs it.
var servers struct {
	sync.Mutex
	running map[string]server
}

func serverOf(t testing.TB, kind string) server {
	t.Helper()
	servers.Lock()
	defer servers.Unlock()
	if s := servers.running[kind]; s != nil {
		return s
	}
	for _, k := range kinds {
		if k.name != kind {
			continue
		}
		s, err := k.start(t)
		if err != nil {
			t.Fatal(err)
		}
		if servers.running == nil {
			servers.running = make(map[string]server)
		}
		servers.running[kind] = s
	}
	return servers.running[kind]
}

func stopServers() error {
	servers.Lock()
	defer servers.Unlock()
	var errs []error
	for _, s := range servers.running {
		errs = append(errs, s.Stop())
	}
	return errors.Join(errs...)
}

// The users of Apache Kafka. Who says nothing of himself may do everything.
const (
	user, password = "auditor", "s3cret"
	stranger       = "stranger"
)

// startApache starts Apache Kafka with every kind of listener and with access control.
func startApache(t testing.TB) (server, error) {
	t.Helper()
	needApache(t)
	return testbroker.Start(context.Background(), testbroker.Config{
		Listeners: []testbroker.Security{testbroker.Plaintext, testbroker.TLS, testbroker.SASL, testbroker.SASLTLS},
		Users:     map[string]string{user: password, stranger: password},
		Properties: map[string]string{
			"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
			"super.users":           "User:ANONYMOUS",
			// A transaction whose producer is gone is rolled back within a second of its time-out.
			"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
		},
		Log: brokerLog,
	})
}

func needApache(t testing.TB) {
	t.Helper()
	if _, err := testbroker.Java(); err != nil {
		require.Missing(t, "java", "apt-get install openjdk-17-jdk-headless")
	}
	if _, err := testbroker.Jars(); err != nil {
		require.Missing(t, "the jars of Apache Kafka", "make testbroker")
	}
}

// apache gives the Apache Kafka that the tests share.
func apache(t testing.TB) *testbroker.Broker {
	t.Helper()
	s := serverOf(t, "apache")
	follow(t)
	return s.(*testbroker.Broker)
}

// brokerLog is where the shared brokers' warnings go: to the test that runs.
var brokerLog = &output{}

type output struct {
	sync.Mutex
	to io.Writer
}

func (o *output) Write(text []byte) (int, error) {
	o.Lock()
	defer o.Unlock()
	if o.to != nil {
		_, _ = o.to.Write(text)
	}
	return len(text), nil
}

// follow has the brokers' warnings go to t until it ends.
func follow(t testing.TB) {
	brokerLog.Lock()
	defer brokerLog.Unlock()
	before := brokerLog.to
	brokerLog.to = t.Output()
	t.Cleanup(func() {
		brokerLog.Lock()
		defer brokerLog.Unlock()
		brokerLog.to = before
	})
}

// brokerEnv makes the test binary a process that runs the embedded broker; it holds an embeddedOrder in JSON.
const brokerEnv = "AUDITOR_BROKER_CHILD"

type embeddedOrder struct{ Data, Listen string }

// runBroker runs the embedded broker until standard input ends. It tells its address once it serves.
func runBroker(text string) int {
	err := func() error {
		var o embeddedOrder
		if err := json.Unmarshal([]byte(text), &o); err != nil {
			return err
		}
		b, err := kafka.Start(kafka.Config{Data: o.Data, Listen: o.Listen, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
		if err != nil {
			return err
		}
		fmt.Println(b.Addr())
		_, _ = io.Copy(io.Discard, os.Stdin)
		return b.Stop()
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// embeddedServer is the broker that auditor embeds, in a process of its own, so that it can be killed.
type embeddedServer struct {
	data string
	addr string

	mu    sync.Mutex
	cmd   *exec.Cmd // nil while none runs
	stdin io.Closer
}

func startEmbedded(testing.TB) (server, error) {
	data, err := os.MkdirTemp("", "embedded-kafka-")
	if err != nil {
		return nil, err
	}
	s := &embeddedServer{data: data, addr: "127.0.0.1:0"}
	return s, s.Restart(context.Background())
}

func (s *embeddedServer) Addr() string { return s.addr }

func (s *embeddedServer) Restart(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, err := json.Marshal(embeddedOrder{s.data, s.addr})
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), brokerEnv+"="+string(text))
	cmd.Stderr = brokerLog
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return errors.Join(fmt.Errorf("start the embedded broker: %w", err), cmd.Wait())
	}
	s.addr, s.cmd, s.stdin = strings.TrimSpace(line), cmd, stdin
	return nil
}

func (s *embeddedServer) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

func (s *embeddedServer) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.cmd != nil {
		s.stdin.Close()
		err = s.cmd.Wait()
		s.cmd = nil
	}
	return errors.Join(err, os.RemoveAll(s.data))
}
