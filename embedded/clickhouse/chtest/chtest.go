// Package chtest gives tests a real ClickHouse: one embedded engine for all tests of a package.
//
// The engine is a child process that runs the test binary itself: importing this package is what makes a test binary
// able to be that child. A package whose tests use it has
//
//	func TestMain(m *testing.M) { chtest.Main(m) }
//
// which stops the engine and removes its data at the end. Without it the engine ends with the test binary.
package chtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"auditor/embedded/clickhouse"
	"auditor/internal/require"
)

func init() {
	if len(os.Args) > 1 && os.Args[1] == clickhouse.Subcommand {
		if err := clickhouse.Child(os.Args[2:]); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
}

var shared struct {
	sync.Mutex
	engine *clickhouse.Engine
	err    error
}

// Main runs the tests of a package, stops the engine if one was started, and exits.
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is Main for a package that has more to do before it exits with the code.
func Run(m *testing.M) (code int) {
	code = m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

func stop() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.engine == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return shared.engine.Stop(ctx)
}

// Library gives the path of the engine's library, and ends the test if the machine has none.
func Library(t testing.TB) string {
	t.Helper()
	path, err := clickhouse.Locate("")
	if err != nil {
		require.Missing(t, "libchdb", "npm ci --prefix embedded/clickhouse")
	}
	return path
}

// Start gives the engine that the tests of this package share, on an empty temporary directory. It ends the test if
// the machine lacks the library.
func Start(t testing.TB) *clickhouse.Engine {
	t.Helper()
	library := Library(t)
	shared.Lock()
	defer shared.Unlock()
	if shared.engine == nil && shared.err == nil {
		shared.engine, shared.err = start(library)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.engine
}

func start(library string) (*clickhouse.Engine, error) {
	data, err := os.MkdirTemp("", "chtest-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	engine, err := clickhouse.Start(ctx, clickhouse.Config{Data: data, Library: library, Temporary: true})
	if err != nil {
		_ = os.RemoveAll(data)
	}
	return engine, err
}

var databases atomic.Int64

// Database makes an empty database in the shared engine, which is dropped with the test, and gives its name.
func Database(t testing.TB) string {
	t.Helper()
	engine := Start(t)
	name := fmt.Sprintf("%.40s_%d", strings.Map(identifier, strings.ToLower(t.Name())), databases.Add(1))
	exec(t, engine, "CREATE DATABASE "+name)
	t.Cleanup(func() { exec(t, engine, "DROP DATABASE IF EXISTS "+name) })
	return name
}

func identifier(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
		return r
	}
	return '_'
}

func exec(t testing.TB, engine *clickhouse.Engine, sql string) {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return engine.Dial(ctx) }}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, Timeout: 30 * time.Second}
	response, err := client.Post("http://engine/", "text/plain", strings.NewReader(sql))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if text, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", sql, text)
	}
}
