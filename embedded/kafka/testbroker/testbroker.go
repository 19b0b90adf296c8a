// Package testbroker runs Apache Kafka itself, for tests, for benchmarks and for trials with crashes: a broker in KRaft
// mode, on loopback, as a process of its own that can be killed, paused and started again.
//
// It needs Java 17 or later, and the jars that `make testbroker` brings (Jars). What it is asked for at the start, such
// as listeners with access control, users and certificates, it makes itself.
//
// The methods of a Broker may be called from any goroutine; those that end, start or pause the process wait for one
// another. On Linux no broker outlives the process that started it, however that ends.
package testbroker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Security is how a listener is guarded, by Kafka's name for it.
type Security string

const (
	Plaintext Security = "PLAINTEXT"
	TLS       Security = "SSL"
	SASL      Security = "SASL_PLAINTEXT"
	SASLTLS   Security = "SASL_SSL"
)

// DefaultHeap is enough for tests, in MiB.
const DefaultHeap = 512

// Config is how a broker is to run. The zero value is a broker with one unguarded listener, whose data goes with it.
type Config struct {
	Data      string     // directory that holds everything; empty: a temporary one, which Stop removes
	Listeners []Security // each with a port of its own, which the broker chooses and keeps; Plaintext is always one

	// Users and their passwords, for the listeners with SASL. The mechanisms PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 know
	// them all. Names and passwords are letters, digits, hyphens and underscores.
	Users map[string]string

	// Properties are added to the broker's, or replace them: see Kafka's documentation of broker configs. Those that this
	// package sets are for a quick start and small logs.
	Properties map[string]string

	Heap int       // MiB; 0: DefaultHeap
	JVM  []string  // options added to the virtual machine's, such as -XX:TieredStopAtLevel=4 for a benchmark
	Log  io.Writer // what the broker warns of; nil: nowhere. Errors of this package quote the end of it
}

// Broker is an Apache Kafka.
type Broker struct {
	config    Config
	java      string
	jars      string
	temporary bool
	ports     map[Security]int
	control   int // port of the controller, which is in the same process

	mu      sync.Mutex
	process *process // nil while none runs
}

// Start starts a broker, and waits until it serves. Its data directory may hold what an earlier one with the same
// listeners and users left. Ending ctx gives up the start, and has no effect later.
func Start(ctx context.Context, config Config) (*Broker, error) {
	b := &Broker{config: config.withDefaults(), temporary: config.Data == "", ports: make(map[Security]int)}
	if err := b.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start Apache Kafka: %w", err), b.clean())
	}
	if err := b.Restart(ctx); err != nil {
		return nil, errors.Join(err, b.clean())
	}
	return b, nil
}

func (c Config) withDefaults() Config {
	if !slices.Contains(c.Listeners, Plaintext) { // the broker speaks to itself there
		c.Listeners = append(slices.Clip(c.Listeners), Plaintext)
	}
	c.Heap = cmp.Or(c.Heap, DefaultHeap)
	if c.Log == nil {
		c.Log = io.Discard
	}
	return c
}

// prepare makes all that the process reads.
func (b *Broker) prepare(ctx context.Context) (err error) {
	if b.jars, err = Jars(); err != nil {
		return err
	}
	if b.java, err = Java(); err != nil {
		return err
	}
	if err := b.config.check(); err != nil {
		return err
	}
	if b.temporary {
		b.config.Data, err = os.MkdirTemp("", "testbroker-")
	} else if b.config.Data, err = filepath.Abs(b.config.Data); err == nil {
		err = os.MkdirAll(b.config.Data, 0o700)
	}
	if err != nil {
		return err
	}
	ports, err := freePorts(len(b.config.Listeners) + 1)
	if err != nil {
		return err
	}
	b.control = ports[0]
	for i, l := range b.config.Listeners {
		b.ports[l] = ports[i+1]
	}
	if err := b.certify(); err != nil {
		return err
	}
	if err := b.configure(); err != nil {
		return err
	}
	return b.format(ctx)
}

// Addr is the host:port of the first listener.
func (b *Broker) Addr() string { return b.AddrOf(b.config.Listeners[0]) }

// AddrOf is the host:port of a listener, empty where there is none of the kind.
func (b *Broker) AddrOf(l Security) string {
	if port, ok := b.ports[l]; ok {
		return "127.0.0.1:" + strconv.Itoa(port)
	}
	return ""
}

// CA is the file with the certificate, in PEM, that clients of the listeners with TLS must trust.
func (b *Broker) CA() string { return filepath.Join(b.config.Data, caFile) }

// JarsDir is where the broker's jars are. The Java client is among them: java -cp 'dir/*' runs a producer.
func (b *Broker) JarsDir() string { return b.jars }

// PID is the broker's process, 0 while none runs.
func (b *Broker) PID() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.process == nil || b.process.ended() {
		return 0
	}
	return b.process.pid
}

// Restart starts the process again after Kill, Stop or an end of its own, with the same ports and data, and waits until it
// serves. One that runs is left alone.
func (b *Broker) Restart(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.process != nil && !b.process.ended() {
		return nil
	}
	p, err := b.launch(ctx)
	if err != nil {
		return fmt.Errorf("start Apache Kafka: %w", err)
	}
	b.process = p
	return nil
}

// Kill ends the process as kill -9 does, and waits until it is gone.
func (b *Broker) Kill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.process != nil {
		b.process.kill()
	}
}

// Pause stops the process, with all its connections open, until Resume.
func (b *Broker) Pause() error { return b.signal(stopSignal) }

// Resume lets a paused process go on.
func (b *Broker) Resume() error { return b.signal(continueSignal) }

func (b *Broker) signal(s os.Signal) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.process == nil || b.process.ended() {
		return errors.New("Apache Kafka does not run")
	}
	return b.process.signal(s)
}

// stopLimit bounds how long a broker may take to end by itself.
const stopLimit = 20 * time.Second

// Shutdown ends the process in order, or after a while by force, and keeps the data: Restart goes on with it.
func (b *Broker) Shutdown() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.process != nil {
		b.process.end(stopLimit)
	}
}

// Stop is Shutdown, and removes the data where that is temporary; then nothing needs an end in order, and the process is
// killed. A second call does nothing.
func (b *Broker) Stop() error {
	if b.temporary {
		b.Kill()
	} else {
		b.Shutdown()
	}
	return b.clean()
}

func (b *Broker) clean() error {
	if !b.temporary || b.config.Data == "" {
		return nil
	}
	return os.RemoveAll(b.config.Data)
}
