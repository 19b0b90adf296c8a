// Package emit is the client that a worker written in Go imports to tell the auditor what its tasks do.
//
// # Contract
//
// Emit puts an event into a bounded buffer and returns; one goroutine of the client sends the buffer's events to Kafka, in
// order, and waits for all in-sync replicas. What cannot be sent is sent again until it is acknowledged, so an event may
// arrive twice, under the same event id, and is then counted once. Events with one business key stay in order.
//
// When Kafka is away for longer than the buffer holds out, Emit waits for room until its context ends; then the event is
// not taken and the caller is told. Nothing else is ever dropped, Close aside: it sends what is buffered for as long as
// its context allows, and tells how many events it had to leave.
//
// A Client is safe for concurrent use.
package emit

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"

	"auditor/event"
)

// ErrClosed is the answer of a client that has been closed.
var ErrClosed = errors.New("emit: client is closed")

// Config says where events go. Brokers is required; every other field has a default.
type Config struct {
	Brokers []string       // host:port
	Topic   string         // task-events when empty
	Buffer  int            // events held while Kafka is slow or away; 10,000 when 0
	TLS     *tls.Config    // nil: none
	SASL    sasl.Mechanism // nil: none
	Logger  *slog.Logger   // where trouble is told; nil: nowhere
}

const (
	maxBatch = 1000
	linger   = 5 * time.Millisecond // how long a batch may wait for company
	backOff  = 500 * time.Millisecond
)

// sender is what the client needs of Kafka.
type sender interface {
	WriteMessages(ctx context.Context, messages ...kafka.Message) error
	Close() error
}

// Client sends events.
type Client struct {
	sender sender
	log    *slog.Logger
	queue  chan kafka.Message
	flush  chan chan struct{}
	ctx    context.Context // ends when sending has to stop
	stop   context.CancelFunc
	done   chan struct{} // closed when the sending goroutine has ended

	mu     sync.RWMutex // held for writing by Close, so that no Emit is half-way
	closed bool
	left   int // events that Close could not send; set before done is closed
}

// New starts a client. It does not wait for Kafka. The caller closes it.
func New(c Config) (*Client, error) {
	if len(c.Brokers) == 0 {
		return nil, errors.New("emit: brokers: must name at least one host:port")
	}
	if c.Topic == "" {
		c.Topic = "task-events"
	}
	ctx, stop := context.WithCancel(context.Background())
	transport := &kafka.Transport{TLS: c.TLS, SASL: c.SASL, ClientID: "auditor-emit", Context: ctx}
	return newClient(&writer{stop: stop, transport: transport, Writer: kafka.Writer{
		Addr:                   kafka.TCP(c.Brokers...),
		Topic:                  c.Topic,
		Balancer:               &kafka.Hash{},
		RequiredAcks:           kafka.RequireAll,
		BatchSize:              maxBatch,
		BatchTimeout:           linger,
		MaxAttempts:            1, // the client itself sends again, for as long as it takes
		AllowAutoTopicCreation: true,
		Compression:            kafka.Lz4,
		Transport:              transport,
	}}, c), nil
}

// writer frees its connections too when it is closed.
type writer struct {
	kafka.Writer
	transport *kafka.Transport
	stop      context.CancelFunc
}

func (w *writer) Close() error {
	err := w.Writer.Close()
	w.transport.CloseIdleConnections()
	w.stop()
	return err
}

func newClient(s sender, c Config) *Client {
	if c.Buffer <= 0 {
		c.Buffer = 10_000
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, stop := context.WithCancel(context.Background())
	client := &Client{
		sender: s,
		log:    c.Logger,
		queue:  make(chan kafka.Message, c.Buffer),
		flush:  make(chan chan struct{}),
		ctx:    ctx,
		stop:   stop,
		done:   make(chan struct{}),
	}
	go client.run()
	return client
}

// Emit takes e for sending. It waits only while the buffer is full, until ctx ends.
func (c *Client) Emit(ctx context.Context, e event.Event) error {
	if e.Attributes != "" && !json.Valid([]byte(e.Attributes)) {
		return errors.New("emit: attributes must be a JSON object")
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return ErrClosed
	}
	select {
	case c.queue <- kafka.Message{Key: key(e), Value: e.AppendJSON(nil)}:
		return nil
	case <-c.ctx.Done():
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("emit: buffer is full: %w", ctx.Err())
	}
}

// key keeps the events of one piece of work together.
func key(e event.Event) []byte {
	switch {
	case e.BusinessKey != "":
		return []byte(e.BusinessKey)
	case e.TaskID != "":
		return []byte(e.TaskID)
	}
	return []byte(e.Worker)
}

// Flush waits until every event taken before the call is acknowledged.
func (c *Client) Flush(ctx context.Context) error {
	reached := make(chan struct{})
	select {
	case c.flush <- reached:
	case <-c.done:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("emit: flush: %w", ctx.Err())
	}
	select {
	case <-reached:
		return nil
	case <-c.done:
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("emit: flush: %w", ctx.Err())
	}
}

// Close takes no more events, sends those that are buffered until ctx ends, and frees what the client holds. A second
// call does nothing.
func (c *Client) Close(ctx context.Context) error {
	c.stopOnEnd(ctx)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	close(c.queue)
	c.mu.Unlock()
	<-c.done
	c.stop()
	err := c.sender.Close()
	if c.left > 0 {
		return errors.Join(fmt.Errorf("emit: closed with %d events unsent", c.left), err)
	}
	return err
}

// stopOnEnd ends the sending, and any Emit that waits for room, when ctx ends.
func (c *Client) stopOnEnd(ctx context.Context) {
	context.AfterFunc(ctx, c.stop)
}

// run sends what is queued until the queue is closed and empty, or sending has to stop.
func (c *Client) run() {
	defer close(c.done)
	for {
		select {
		case m, open := <-c.queue:
			if !open {
				return
			}
			c.send(c.gather(m))
		case reached := <-c.flush:
			c.drain()
			close(reached)
		}
	}
}

// gather adds to first what waits behind it.
func (c *Client) gather(first kafka.Message) []kafka.Message {
	batch := []kafka.Message{first}
	for len(batch) < maxBatch {
		select {
		case m, open := <-c.queue:
			if !open {
				return batch
			}
			batch = append(batch, m)
		default:
			return batch
		}
	}
	return batch
}

// drain sends what is queued at the moment of the call.
func (c *Client) drain() {
	for n := len(c.queue); n > 0; {
		m, open := <-c.queue
		if !open {
			return
		}
		batch := c.gather(m)
		n -= len(batch)
		c.send(batch)
	}
}

// send sends batch until all of it is acknowledged, or sending has to stop.
func (c *Client) send(batch []kafka.Message) {
	for failures := 0; ; failures++ {
		if c.ctx.Err() != nil {
			c.left += len(batch)
			return
		}
		err := c.sender.WriteMessages(c.ctx, batch...)
		if err == nil {
			return
		}
		batch = unsent(batch, err)
		if len(batch) == 0 {
			return
		}
		if failures == 0 {
			c.log.Warn("Kafka did not take events, trying again", "events", len(batch), "error", err)
		}
		select {
		case <-c.ctx.Done():
		case <-time.After(backOff):
		}
	}
}

// unsent is the part of batch that err says was not acknowledged.
func unsent(batch []kafka.Message, err error) []kafka.Message {
	var each kafka.WriteErrors
	if !errors.As(err, &each) || len(each) != len(batch) {
		return batch
	}
	var left []kafka.Message
	for i, e := range each {
		if e != nil {
			left = append(left, batch[i])
		}
	}
	return left
}
