package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"auditor/internal/access"
)

// Config says how an engine runs.
type Config struct {
	Data      string        // the directory that holds everything, made if missing
	Library   string        // the path of libchdb; Locate finds it if empty
	Listen    string        // a loopback address for Grafana, curl and others, such as "127.0.0.1:8123"; none if empty
	Password  access.Secret // what Listen asks for
	Memory    int64         // what the engine may take, in bytes; DefaultMemory if 0
	Temporary bool          // remove Data at the end, however that comes
	Logger    *slog.Logger  // nothing is logged if nil
	Command   []string      // how the child is run, its flags aside; this executable and Subcommand if empty
}

const (
	startLimit   = 60 * time.Second       // for the child to be ready
	stopLimit    = 20 * time.Second       // for the child to end once it was told to
	dialLimit    = 10 * time.Second       // for a dial to wait for a child that is being started again
	dialInterval = 20 * time.Millisecond  // between two dials
	firstBackoff = 100 * time.Millisecond // before the child is started again; doubled each time
	lastBackoff  = 10 * time.Second
	calmTime     = time.Minute // after which a child that ends is restarted without delay again
)

// ErrStopped is the answer of an engine that has been stopped.
var ErrStopped = errors.New("the embedded ClickHouse has been stopped")

// Engine is a ClickHouse engine in a child process, started again when it ends. All methods may be called at any time,
// by any goroutine.
type Engine struct {
	config  Config
	socket  string
	scratch string // a directory to remove with the engine, or empty
	cancel  context.CancelFunc
	ended   chan struct{}

	mu    sync.Mutex
	pid   int
	ready chan struct{} // closed while the child answers
}

// Start runs an engine and gives it once it answers. Stop must be called. The context bounds the start alone.
func Start(ctx context.Context, config Config) (*Engine, error) {
	engine, err := prepare(config)
	if err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(context.Background())
	engine.cancel = cancel
	first := make(chan error, 1)
	go engine.supervise(life, first)
	select {
	case err = <-first:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		<-engine.ended
		return nil, fmt.Errorf("start the embedded ClickHouse: %w", err)
	}
	return engine, nil
}

func prepare(config Config) (*Engine, error) {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	var err error
	if config.Library, err = Locate(config.Library); err != nil {
		return nil, err
	}
	if config.Data, err = filepath.Abs(config.Data); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if len(config.Command) == 0 {
		executable, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this executable: %w", err)
		}
		config.Command = []string{executable, Subcommand}
	}
	engine := &Engine{config: config, ended: make(chan struct{}), ready: make(chan struct{})}
	var fits bool
	if engine.socket, fits = socketIn(config.Data); !fits {
		if engine.scratch, err = os.MkdirTemp("", "auditor-"); err != nil {
			return nil, fmt.Errorf("make a directory for the socket: %w", err)
		}
		engine.socket = filepath.Join(engine.scratch, "http.sock")
	}
	return engine, nil
}

// Socket is the path of the unix socket.
func (e *Engine) Socket() string { return e.socket }

// PID is the process id of the child, 0 while there is none.
func (e *Engine) PID() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pid
}

// Dial connects to the engine. While the child is being started again it waits for it, a few seconds at most.
func (e *Engine) Dial(ctx context.Context) (net.Conn, error) {
	limit, cancel := context.WithTimeout(ctx, dialLimit)
	defer cancel()
	var dialer net.Dialer
	failure := errors.New("it is being started")
	for {
		e.mu.Lock()
		ready := e.ready
		e.mu.Unlock()
		select {
		case <-ready:
			conn, err := dialer.DialContext(limit, "unix", e.socket)
			if err == nil {
				return conn, nil
			}
			failure = err
		case <-e.ended:
			return nil, ErrStopped
		case <-limit.Done():
		}
		// A child that was killed is missed a moment later.
		select {
		case <-time.After(dialInterval):
		case <-limit.Done():
			return nil, fmt.Errorf("the embedded ClickHouse does not answer: %w (%w)", failure, limit.Err())
		}
	}
}

// Stop ends the child, after what it still does, and waits until it has gone. It may be called more than once. When
// the context ends first the child is killed.
func (e *Engine) Stop(ctx context.Context) error {
	e.cancel()
	select {
	case <-e.ended:
		return nil
	case <-ctx.Done():
	}
	if pid := e.PID(); pid > 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-e.ended
	return fmt.Errorf("stop the embedded ClickHouse: %w", ctx.Err())
}

// supervise runs children, one after another, until the context ends. It keeps its thread: the kernel ends a child
// with the thread that started it. The first child's start is reported, and is not tried again.
func (e *Engine) supervise(ctx context.Context, first chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(e.ended)
	started := false
	defer func() { e.clean(started) }()
	var reported sync.Once
	for backoff := firstBackoff; ; backoff = min(2*backoff, lastBackoff) {
		begun := time.Now()
		err := e.runChild(ctx, func() {
			reported.Do(func() { first <- nil })
			started = true
		})
		reported.Do(func() { first <- err })
		if !started || ctx.Err() != nil {
			return
		}
		if time.Since(begun) > calmTime {
			backoff = firstBackoff
		}
		e.config.Logger.Warn("embedded ClickHouse ended, starting it again", "error", err, "delay", backoff)
		select {
		case <-ctx.Done():
			return
		case <-time.After(backoff):
		}
	}
}

// clean removes what is left. Where no child has ever answered, the data may be another engine's.
func (e *Engine) clean(started bool) {
	if e.scratch != "" {
		_ = os.RemoveAll(e.scratch)
	}
	if e.config.Temporary && started {
		_ = os.RemoveAll(e.config.Data)
	}
}
