// Package bridge carries the events that Celery's workers send to their own broker on to Kafka, as they are: a fleet is under audit
// with `celery worker -E` and no change of code.
//
// # Contract
//
// Reading the broker never waits for Kafka: what cannot be published at once is held in a buffer that is bounded in events and in
// bytes, and what finds it full is dropped and counted. What is published is published until Kafka has it, so an event may arrive
// twice, and then counts once, for its id is made of its content.
//
// Every event gets the bridge's name and a number (emitter, seq). A number is left out for each event that was dropped or that
// Kafka will never take, for each that a worker's heartbeats prove lost, and one for each time that the broker was away, in which
// nobody knows what was told. So the auditor knows where its evidence has holes. What is no event that the auditor knows is counted
// by reason and left out, without a number.
//
// Events of one task stay in order: they have the task's id as their key.
package bridge

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"auditor/event"
)

// Source is a broker that passes Celery's events on.
type Source interface {
	// Read connects, calls connected once events will arrive, and then take with one message after another, until the connection
	// fails or ctx ends.
	Read(ctx context.Context, connected func(), take func(Message)) error
	// String names the broker, without credentials.
	String() string
}

// Publisher writes to Kafka.
type Publisher interface {
	// Publish returns once Kafka has the records; refused says by index which it will never take.
	Publish(ctx context.Context, records []event.Record) (refused map[int]error, err error)
}

// Config says how much a bridge holds, and for how long it tries. A zero takes its default.
type Config struct {
	Name        string        // of the bridge among others, for its emitter
	Buffer      int           // events held while Kafka does not take them; 100,000
	BufferBytes int64         // bytes of them; 64 MiB
	Flush       time.Duration // how long the end of a bridge may take to publish what is held; 15 s
	SilentTasks bool          // tasks are set to send no events: what only heartbeats tell of proves no loss
}

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = "celery-bridge"
	}
	if c.Buffer <= 0 {
		c.Buffer = 100_000
	}
	if c.BufferBytes <= 0 {
		c.BufferBytes = 64 << 20
	}
	if c.Flush <= 0 {
		c.Flush = 15 * time.Second
	}
	return c
}

// Bridge reads one broker and writes to Kafka.
type Bridge struct {
	config    Config
	source    Source
	publisher Publisher
	log       *slog.Logger
	metrics   *metrics
	decoder   *event.Decoder

	queue   *queue
	numbers numbers
	workers workers
	told    map[event.Reason]bool // reasons for which something was left out, once each in the log

	dropping int64 // how many in a row found the buffer full; the reading goroutine's own

	mu        sync.Mutex
	connected bool
}

// New wires a bridge. It connects to nothing.
func New(c Config, s Source, p Publisher, log *slog.Logger, r prometheus.Registerer) (*Bridge, error) {
	c = c.withDefaults()
	decoder, err := event.NewDecoder(event.DecoderConfig{})
	if err != nil {
		return nil, err
	}
	b := &Bridge{
		config: c, source: s, publisher: p, log: log, decoder: decoder,
		queue:   newQueue(c.Buffer, c.BufferBytes),
		numbers: numbers{emitter: c.Name + "/" + strings.ToLower(rand.Text()[:10])},
		told:    make(map[event.Reason]bool),
	}
	b.metrics = newMetrics(r, b.queue, b.Connected)
	return b, nil
}

// Connected reports whether the broker's events arrive.
func (b *Bridge) Connected() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.connected
}

// Run carries events until ctx ends, and then publishes what it holds for as long as the configuration allows. Its error tells of
// what had to be left, or that the broker refuses the credentials at the first attempt.
func (b *Bridge) Run(ctx context.Context) error {
	publishing, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan int, 1)
	go func() { done <- b.publish(publishing) }()
	err := b.read(ctx)
	b.queue.close()
	limit := time.AfterFunc(b.config.Flush, stop)
	defer limit.Stop()
	if left := <-done; left > 0 {
		err = errors.Join(err, fmt.Errorf("%d events could not be published within %s, and are lost", left, b.config.Flush))
	}
	return err
}

// read reads the broker until ctx ends, whatever becomes of the connection. It gives an error only where the first attempt says that no
// other will do better.
func (b *Bridge) read(ctx context.Context) error {
	var wait backoff
	var away time.Time // since when there is no connection; zero before the first
	for {
		err := b.source.Read(ctx, func() {
			b.arrived(away)
			wait.reset()
		}, b.take)
		was := b.set(false)
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case was:
			away = time.Now()
			b.metrics.outages.Inc()
			b.log.Warn("lost the connection to the broker: what workers tell meanwhile is lost", "broker", b.source, "error", err)
		case away.IsZero() && errors.As(err, new(*RefusedError)):
			return fmt.Errorf("%s: %w", b.source, err)
		default:
			b.log.Warn("can't reach the broker, trying again", "broker", b.source, "error", err)
		}
		if !pause(ctx, wait.next()) {
			return nil
		}
	}
}

// arrived notes that events arrive, and leaves a number out for what may have been told while they did not.
func (b *Bridge) arrived(away time.Time) {
	b.set(true)
	if away.IsZero() {
		b.log.Info("reading Celery's events", "broker", b.source, "emitter", b.numbers.emitter)
		return
	}
	out := time.Since(away)
	b.numbers.skip(1)
	b.workers.forget()
	b.metrics.away.Add(out.Seconds())
	b.log.Warn("the broker is back; how much was told meanwhile is not known", "broker", b.source, "away", out.Round(time.Millisecond))
}

func (b *Bridge) set(connected bool) (was bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was, b.connected = b.connected, connected
	return was
}

// RefusedError says that a broker knows the bridge and does not let it in.
type RefusedError struct{ Err error }

// Error says why.
func (e *RefusedError) Error() string { return "refused: " + e.Err.Error() }

// Unwrap gives the cause.
func (e *RefusedError) Unwrap() error { return e.Err }
