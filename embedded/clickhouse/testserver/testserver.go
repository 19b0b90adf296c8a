// Package testserver runs a ClickHouse server for tests: native protocol and HTTP interface, on ports of loopback.
//
// libchdb holds all of clickhouse-local, and that of 26.7 answers SYSTEM START LISTEN with ClickHouse's own handlers of both
// protocols. What a client meets there is the server itself, users, rights, settings and Distributed tables included: one
// that reads from another as they do in production. What clickhouse-local lacks, and so cannot be tried with it: listeners
// with TLS, the exchange of parts between replicas (a Replicated table can be made and stays read-only), and DDL that is
// ON CLUSTER. And it aborts where a connection of the native protocol ends in an error: when it has refused one, for a wrong
// password or a database that is not there, and when a client breaks one off.
//
// A server is a child process that runs the test binary itself: importing this package is what makes a test binary able to
// be that child. It ends when its parent does.
package testserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"auditor/embedded/clickhouse"
)

// Config says how a server runs.
type Config struct {
	Library string // the path of libchdb; clickhouse.Locate finds it if empty
	Data    string // the directory that holds everything, made if missing
	Native  string // where the native protocol is served, as one of Addresses
	HTTP    string // where the HTTP interface is; nowhere if empty
	XML     string // further elements of the server's configuration, such as <macros>...</macros>
	Users   string // <users>, <profiles> and <quotas>; without them, default has no password and may do everything
}

// Server is a running server.
type Server struct {
	config  Config
	command *exec.Cmd
	input   io.Closer
	output  *tail
	ended   chan struct{}
}

const startLimit = time.Minute

// Start runs a server and gives it once it answers. Stop must be called.
func Start(ctx context.Context, config Config) (*Server, error) {
	var err error
	if config.Library, err = clickhouse.Locate(config.Library); err != nil {
		return nil, err
	}
	file, err := writeConfig(&config)
	if err != nil {
		return nil, fmt.Errorf("configure a ClickHouse server: %w", err)
	}
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &Server{config: config, output: &tail{}, ended: make(chan struct{})}
	s.command = exec.Command(executable, subcommand, config.Library, "--path="+config.Data, "--config-file="+file, "--query="+script(config))
	s.command.Dir = config.Data
	s.command.Stdout, s.command.Stderr = s.output, s.output
	if s.input, err = s.command.StdinPipe(); err != nil { // held open: the child ends with it
		return nil, err
	}
	if err := s.command.Start(); err != nil {
		return nil, fmt.Errorf("start a ClickHouse server: %w", err)
	}
	go func() {
		_ = s.command.Wait()
		close(s.ended)
	}()
	if err := s.await(ctx); err != nil {
		s.Stop()
		return nil, fmt.Errorf("start a ClickHouse server: %w: %s", err, s.output.text())
	}
	return s, nil
}

// script starts the listeners and then does nothing for longer than any test takes: the server ends with its last query.
func script(config Config) string {
	text := "SYSTEM START LISTEN TCP;"
	if config.HTTP != "" {
		text += "SYSTEM START LISTEN HTTP;"
	}
	return text + "SELECT sleepEachRow(3) FROM numbers(1000000) FORMAT Null " +
		"SETTINGS max_block_size = 1, function_sleep_max_microseconds_per_block = 0"
}

func writeConfig(config *Config) (file string, err error) {
	if config.Data, err = filepath.Abs(config.Data); err != nil {
		return "", err
	}
	if err := os.MkdirAll(config.Data, 0o700); err != nil {
		return "", err
	}
	text := "<clickhouse><log-level>error</log-level><logger><console>1</console></logger><listen_host>127.0.0.1</listen_host>" +
		"<mark_cache_size>67108864</mark_cache_size>"
	for element, address := range map[string]string{"tcp_port": config.Native, "http_port": config.HTTP} {
		if address == "" {
			continue
		}
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return "", err
		}
		text += "<" + element + ">" + port + "</" + element + ">"
	}
	if config.Users != "" {
		users := filepath.Join(config.Data, "users.xml")
		if err := os.WriteFile(users, []byte("<clickhouse>"+config.Users+"</clickhouse>"), 0o600); err != nil {
			return "", err
		}
		text += "<users_config>" + users + "</users_config>"
	}
	file = filepath.Join(config.Data, "server.xml")
	return file, os.WriteFile(file, []byte(text+config.XML+"</clickhouse>"), 0o600)
}

// await waits until every port answers.
func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for _, address := range []string{s.config.Native, s.config.HTTP} {
		for address != "" {
			var dialer net.Dialer
			conn, err := dialer.DialContext(ctx, "tcp", address)
			if err == nil {
				_ = conn.Close()
				break
			}
			select {
			case <-s.ended:
				return errors.New("it ended")
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

// Native is the address of the native protocol.
func (s *Server) Native() string { return s.config.Native }

// HTTP is the address of the HTTP interface.
func (s *Server) HTTP() string { return s.config.HTTP }

// Output is the end of what the server has written: why it ended, if it did.
func (s *Server) Output() string { return s.output.text() }

// Pause stops the process, as a machine that hangs, until Continue.
func (s *Server) Pause() error { return s.command.Process.Signal(syscall.SIGSTOP) }

// Continue ends what Pause began.
func (s *Server) Continue() error { return s.command.Process.Signal(syscall.SIGCONT) }

// Stop kills the server. Its data stay, and another may be started on them.
func (s *Server) Stop() {
	_ = s.command.Process.Kill()
	_ = s.input.Close()
	<-s.ended
}

// Addresses are taken from below those that systems give to outgoing connections, or one of these could take a server's
// port while it is down.
const (
	lowestPort  = 20000
	highestPort = 32000
)

// Addresses finds n addresses on loopback that nobody listens on: the servers of a cluster must know each other's before
// they run.
func Addresses(n int) ([]string, error) {
	var all []string
	for range 1000 {
		if len(all) == n {
			return all, nil
		}
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(lowestPort+rand.IntN(highestPort-lowestPort)))
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		defer func() { _ = l.Close() }() // not before the last is found, so that no two are the same
		all = append(all, address)
	}
	return nil, fmt.Errorf("no %d free ports from %d to %d", n, lowestPort, highestPort)
}

// tail keeps the end of what a server writes.
type tail struct {
	mu   sync.Mutex
	last []byte
}

// Write never fails.
func (t *tail) Write(text []byte) (int, error) {
	const limit = 4 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, text...)
	t.last = t.last[max(len(t.last)-limit, 0):]
	return len(text), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.last))
}
