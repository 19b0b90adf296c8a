package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"auditor/embedded/clickhouse/chdb"
	"auditor/internal/access"
)

// ServeConfig says what one engine process serves, and where.
type ServeConfig struct {
	Data      string        // the directory that holds everything, made if missing; one process at a time has it
	Temporary bool          // remove Data at the end
	Library   string        // the path of libchdb
	Socket    string        // the path of the unix socket, readable by its owner alone
	Listen    string        // a loopback address for others, such as "127.0.0.1:8123"; none if empty
	Password  access.Secret // what Listen asks for; must not be empty where Listen is set
	Memory    int64         // what the engine may take, in bytes; DefaultMemory if 0
	Logger    *slog.Logger
	Ready     func() // called once requests are answered
}

const (
	// DefaultMemory is what the engine may take unless told otherwise, in bytes.
	DefaultMemory = 640 << 20
	// drainTime is how long running statements may go on once the process is told to end.
	drainTime = 2 * time.Second
	// lockWait is how long another engine may take to leave the data directory: one whose parent was killed, and which
	// drains twice and closes, while the parent has been started again already.
	lockWait = 2*drainTime + 2*time.Second
	// maxHeader bounds the URL and the headers of a request, in bytes. Parameters come in the URL, lists of thousands
	// of keys among them.
	maxHeader = 16 << 20
)

// ErrInUse is the answer to a second engine on one data directory.
var ErrInUse = errors.New("the data directory is in use by another process")

// Serve runs the engine in this process and serves the ClickHouse HTTP interface until the context ends. A process can
// do this once.
func Serve(ctx context.Context, config ServeConfig) (err error) {
	unlock, err := lock(ctx, config.Data)
	if err != nil {
		return err
	}
	defer unlock()
	if config.Temporary {
		defer func() { err = errors.Join(err, os.RemoveAll(config.Data)) }()
	}
	listeners, err := listen(config)
	if err != nil {
		return err
	}
	defer func() {
		for _, listener := range listeners {
			_ = listener.Close()
		}
	}()
	library, err := chdb.Open(config.Library)
	if err != nil {
		return err
	}
	options, err := engineOptions(config)
	if err != nil {
		return err
	}
	engine, err := library.Start(options...)
	if err != nil {
		return err
	}
	defer engine.Close()
	handler, err := newHandler(library, engine, config.Logger)
	if err != nil {
		return err
	}
	return serveHTTP(ctx, config, handler, listeners)
}

// lock makes the data directory and takes it for this process, once an engine that is about to end has left it.
func lock(ctx context.Context, data string) (unlock func(), err error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(data, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	err = flock(file)
	for limit := time.Now().Add(lockWait); errors.Is(err, syscall.EWOULDBLOCK) && time.Now().Before(limit) && ctx.Err() == nil; err = flock(file) {
		time.Sleep(20 * time.Millisecond)
	}
	if err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w", data, ErrInUse)
		}
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	return func() { _ = file.Close() }, nil
}

func flock(file *os.File) error {
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// listen opens the socket, and the port where one is asked for.
func listen(config ServeConfig) (listeners []net.Listener, err error) {
	// What a killed process left. The lock says that nobody listens there.
	if err := os.Remove(config.Socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the old socket: %w", err)
	}
	mask := syscall.Umask(0o177)
	socket, err := net.Listen("unix", config.Socket)
	syscall.Umask(mask)
	if err != nil {
		return nil, fmt.Errorf("listen on the socket: %w", err)
	}
	if config.Listen == "" {
		return []net.Listener{socket}, nil
	}
	port, err := listenLoopback(config.Listen, config.Password)
	if err != nil {
		_ = socket.Close()
		return nil, err
	}
	return []net.Listener{socket, port}, nil
}

func listenLoopback(address string, password access.Secret) (net.Listener, error) {
	if password == "" {
		return nil, fmt.Errorf("listen on %s: a password is needed", address)
	}
	resolved, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	if !resolved.IP.IsLoopback() {
		return nil, fmt.Errorf("listen on %s: only a loopback address is allowed", address)
	}
	listener, err := net.ListenTCP("tcp", resolved)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return listener, nil
}

// engineOptions writes the engine's configuration and names it. A file of ours keeps the engine from reading whatever
// config.xml lies in the working directory.
func engineOptions(config ServeConfig) ([]string, error) {
	memory := config.Memory
	if memory == 0 {
		memory = DefaultMemory
	}
	file := filepath.Join(config.Data, "engine.xml")
	text := fmt.Sprintf(engineConfig, memory)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write the engine's configuration: %w", err)
	}
	return []string{"--path=" + filepath.Join(config.Data, "engine"), "--config-file=" + file}, nil
}

// The memory worker is told to look at the process's own memory, to believe it, and to give freed pages back soon:
// else a burst of big queries takes three times the limit. The caches are small, for so are the data of one machine.
const engineConfig = `<clickhouse>
    <log-level>error</log-level>
    <logger><console>1</console></logger>
    <max_server_memory_usage>%d</max_server_memory_usage>
    <memory_worker_use_cgroup>0</memory_worker_use_cgroup>
    <memory_worker_correct_memory_tracker>1</memory_worker_correct_memory_tracker>
    <memory_worker_purge_dirty_pages_threshold_ratio>0.05</memory_worker_purge_dirty_pages_threshold_ratio>
    <mark_cache_size>67108864</mark_cache_size>
    <uncompressed_cache_size>0</uncompressed_cache_size>
    <index_mark_cache_size>16777216</index_mark_cache_size>
    <index_uncompressed_cache_size>0</index_uncompressed_cache_size>
    <query_condition_cache_size>8388608</query_condition_cache_size>
    <compiled_expression_cache_size>8388608</compiled_expression_cache_size>
</clickhouse>
`

// serveHTTP answers until the context ends, lets what runs go on for a while, then kills it.
func serveHTTP(ctx context.Context, config ServeConfig, handler *handler, listeners []net.Listener) error {
	requests, kill := context.WithCancel(context.Background())
	defer kill()
	server := &http.Server{
		Handler:           guard(config.Password, handler),
		BaseContext:       func(net.Listener) context.Context { return requests },
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       5 * time.Minute,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(config.Logger.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, len(listeners))
	for _, listener := range listeners {
		go func() { failed <- server.Serve(listener) }()
	}
	if config.Ready != nil {
		config.Ready()
	}
	var failure error
	select {
	case <-ctx.Done():
	case failure = <-failed:
	}
	err := shutdown(server, drainTime)
	if errors.Is(err, context.DeadlineExceeded) {
		kill()
		err = shutdown(server, drainTime)
	}
	return errors.Join(failure, err)
}

func shutdown(server *http.Server, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return server.Shutdown(ctx)
}
