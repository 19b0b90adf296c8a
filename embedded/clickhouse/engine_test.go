package clickhouse_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"auditor/embedded/clickhouse"
	"auditor/embedded/clickhouse/chtest"
)

// start runs an engine of the test's own.
func start(t *testing.T, config clickhouse.Config) *clickhouse.Engine {
	t.Helper()
	config.Library = chtest.Library(t)
	engine, err := clickhouse.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, engine) })
	return engine
}

func stop(t *testing.T, engine *clickhouse.Engine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := engine.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// journal is a log that can be read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

func TestKilledChildComesBackWithItsData(t *testing.T) {
	var log journal
	engine := start(t, clickhouse.Config{Data: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	conn := openEngine(t, engine, "default")
	execute(t, conn, createNumbers)
	if err := insertNumbers(t.Context(), conn, 1, 1000); err != nil {
		t.Fatal(err)
	}
	killed := engine.PID()
	if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var count uint64
	within(t, "the engine answers again", func() bool {
		return conn.QueryRow(t.Context(), "SELECT count() FROM numbers").Scan(&count) == nil
	})
	if count != 1000 {
		t.Errorf("%d rows after kill -9, want 1000", count)
	}
	if pid := engine.PID(); pid == killed || pid == 0 {
		t.Errorf("process %d after %d was killed", pid, killed)
	}
	if lines := strings.Split(strings.TrimSpace(log.String()), "\n"); len(lines) != 1 || !strings.Contains(lines[0], "killed") {
		t.Errorf("log, want one line that says how the child ended:\n%s", log.String())
	}
}

func TestDataSurvivesAStop(t *testing.T) {
	data := t.TempDir()
	engine := start(t, clickhouse.Config{Data: data})
	conn := openEngine(t, engine, "default")
	execute(t, conn, createNumbers)
	if err := insertNumbers(t.Context(), conn, 1, 10); err != nil {
		t.Fatal(err)
	}
	stop(t, engine)
	stop(t, engine)
	if _, err := engine.Dial(t.Context()); !errors.Is(err, clickhouse.ErrStopped) {
		t.Errorf("dial after stop: %v", err)
	}
	if pid := engine.PID(); pid != 0 {
		t.Errorf("process %d after stop", pid)
	}
	conn = openEngine(t, start(t, clickhouse.Config{Data: data}), "default")
	if got := value[uint64](t, t.Context(), conn, "SELECT count() FROM numbers"); got != 10 {
		t.Errorf("%d rows after a stop, want 10", got)
	}
}

func TestStartWaitsForAnEngineThatIsEnding(t *testing.T) {
	data := t.TempDir()
	lock, err := os.Create(filepath.Join(data, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Second, func() { _ = lock.Close() })
	start(t, clickhouse.Config{Data: data})
}

func TestSecondEngineOnTheSameDataIsRefused(t *testing.T) {
	data := t.TempDir()
	engine := start(t, clickhouse.Config{Data: data})
	second, err := clickhouse.Start(t.Context(), clickhouse.Config{Data: data, Library: chtest.Library(t)})
	if err == nil {
		stop(t, second)
		t.Fatal("a second engine started")
	}
	if !strings.Contains(err.Error(), data) || !errors.Is(err, clickhouse.ErrInUse) {
		t.Errorf("error %v does not say what is in use", err)
	}
	conn := openEngine(t, engine, "default")
	if err := conn.Ping(t.Context()); err != nil {
		t.Errorf("the first engine after that: %v", err)
	}
}

// Another process asks the engine that runs already, and nothing where none does.
func TestAttach(t *testing.T) {
	data := t.TempDir()
	if _, ok := clickhouse.Attach(t.Context(), data); ok {
		t.Error("an engine answers where none was started")
	}
	engine := start(t, clickhouse.Config{Data: data})
	dial, ok := clickhouse.Attach(t.Context(), data)
	if !ok {
		t.Fatal("the engine that runs does not answer")
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}}
	response, err := client.Post("http://engine/", "text/plain", strings.NewReader("SELECT 42"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil || string(text) != "42\n" {
		t.Errorf("it answers %q, %v", text, err)
	}
	stop(t, engine)
	if _, ok := clickhouse.Attach(t.Context(), data); ok {
		t.Error("an engine that was stopped answers")
	}
}

func TestChildEndsWithItsParent(t *testing.T) {
	library := chtest.Library(t)
	for _, test := range []struct {
		name string
		end  func(*exec.Cmd) error
	}{
		{"killed", func(parent *exec.Cmd) error { return parent.Process.Kill() }},
		{"ended", func(parent *exec.Cmd) error { return parent.Process.Signal(syscall.SIGTERM) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			data := t.TempDir()
			parent := exec.Command(os.Args[0], parentArgument, data)
			parent.Env = append(os.Environ(), "AUDITOR_LIBCHDB="+library)
			if _, err := parent.StdinPipe(); err != nil {
				t.Fatal(err)
			}
			output, err := parent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(output).ReadString('\n')
			if err != nil || strings.Trim(line, "0123456789\n") != "" {
				t.Fatalf("parent says %q, %v", line, err)
			}
			if err := test.end(parent); err != nil {
				t.Fatal(err)
			}
			_ = parent.Wait()
			// The lock on the data directory goes with the process that holds it.
			within(t, "the child of a dead parent has ended", func() bool { return free(t, data) })
			start(t, clickhouse.Config{Data: data})
		})
	}
}

func free(t *testing.T, data string) bool {
	t.Helper()
	file, err := os.Open(filepath.Join(data, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

func TestRunningQueryEndsWithTheEngine(t *testing.T) {
	engine := start(t, clickhouse.Config{Data: t.TempDir()})
	conn := openEngine(t, engine, "default")
	ended := make(chan error, 1)
	go func() { ended <- conn.Exec(t.Context(), "SELECT sum(sipHash64(number)) FROM numbers(1000000000000)") }()
	within(t, "the query runs", func() bool {
		return value[uint64](t, t.Context(), conn, "SELECT count() FROM system.processes WHERE query LIKE '%sum(sipHash64%' AND query NOT LIKE '%system.processes%'") == 1
	})
	stop(t, engine)
	wantCode(t, <-ended, 394)
}

func TestLoopbackPortAsksForThePassword(t *testing.T) {
	const password = "correct horse"
	address := freeAddress(t)
	var log journal
	start(t, clickhouse.Config{Data: t.TempDir(), Listen: address, Password: password,
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	for _, test := range []struct {
		name, parameters string
		prepare          func(*http.Request)
		status           int
	}{
		{"none", "", func(*http.Request) {}, 401},
		{"wrong", "", func(r *http.Request) { r.SetBasicAuth("default", "wrong") }, 401},
		{"basic", "", func(r *http.Request) { r.SetBasicAuth("default", password) }, 200},
		{"header", "", func(r *http.Request) { r.Header.Set("X-ClickHouse-Key", password) }, 200},
		{"parameter", "&user=default&password=correct%20horse", func(*http.Request) {}, 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/?query=SELECT+1"+test.parameters, nil)
			if err != nil {
				t.Fatal(err)
			}
			test.prepare(request)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != test.status {
				t.Errorf("status %d, want %d", response.StatusCode, test.status)
			}
		})
	}
	http.DefaultClient.CloseIdleConnections()
	if strings.Contains(log.String(), password) {
		t.Error("the password is in the log")
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func TestStartsThatFailSayWhy(t *testing.T) {
	library := chtest.Library(t)
	garbage := filepath.Join(t.TempDir(), "libchdb.so")
	if err := os.WriteFile(garbage, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	occupied := t.TempDir()
	if err := os.WriteFile(filepath.Join(occupied, "engine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for _, test := range []struct {
		name   string
		config clickhouse.Config
		want   string
	}{
		{"no library", clickhouse.Config{Library: garbage + ".missing"}, "no such file"},
		{"another library", clickhouse.Config{Library: garbage}, "load " + garbage},
		{"no password", clickhouse.Config{Listen: "127.0.0.1:0"}, "a password is needed"},
		{"outside address", clickhouse.Config{Listen: "0.0.0.0:0", Password: "x"}, "only a loopback address"},
		{"port in use", clickhouse.Config{Listen: taken.Addr().String(), Password: "x"}, "address already in use"},
		{"broken data", clickhouse.Config{Data: occupied}, "filesystem error: in create_directories"},
		{"no program", clickhouse.Config{Command: []string{filepath.Join(t.TempDir(), "nothing")}}, "no such file"},
		{"program that ends", clickhouse.Config{Command: []string{"false"}}, "exit status 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.config.Data == "" {
				test.config.Data = t.TempDir()
			}
			if test.config.Library == "" {
				test.config.Library = library
			}
			engine, err := clickhouse.Start(t.Context(), test.config)
			if err == nil {
				stop(t, engine)
				t.Fatal("the engine started")
			}
			if !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line with %q", err, test.want)
			}
		})
	}
}

func TestTemporaryDataGoes(t *testing.T) {
	data := filepath.Join(t.TempDir(), "engine")
	engine := start(t, clickhouse.Config{Data: data, Temporary: true})
	if err := openEngine(t, engine, "default").Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	stop(t, engine)
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("temporary data are still there: %v", err)
	}
}

func TestLongPathsAndPrivateFiles(t *testing.T) {
	data := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	engine := start(t, clickhouse.Config{Data: data})
	execute(t, openEngine(t, engine, "default"), createNumbers)
	for _, path := range []string{data, engine.Socket(), filepath.Join(data, "engine.xml"), filepath.Join(data, "engine", "metadata")} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is open to others: %v", path, info.Mode())
		}
	}
	info, err := os.Stat(engine.Socket())
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(info.Mode()); got != "Srw-------" {
		t.Errorf("mode of the socket: %s", got)
	}
}
