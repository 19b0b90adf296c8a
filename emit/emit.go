// Package emit is the client that a worker written in Go imports to tell the auditor what its tasks do.
//
// # Contract
//
// Emit and Offer put an event into a bounded buffer and return; one goroutine of the client sends the buffer's events, in order, to
// Kafka or to an auditor's HTTP intake, and waits for all in-sync replicas. What cannot be sent is sent again until it is
// acknowledged, so an event may arrive twice, under the same event id, and is then counted once. Events with one business key
// stay in order.
//
// While the buffer is full, Emit waits for room until its context ends, and then tells the caller that the event was not taken; Offer
// never waits, and counts what it drops. Beside that nothing is ever dropped but an event that is too large for Kafka, or that an
// auditor does not take for one, which is logged and counted; and what Close leaves: it sends what is buffered for as long as
// its context allows, and tells how many events it had to leave.
//
// Events are numbered (emitter, seq) as they leave the buffer, and what was dropped leaves a hole in the numbers, so that the
// auditor knows what it was not told. An event without an id gets one, an event without a time the time of the call.
//
// A Client is safe for concurrent use. The packages below this one connect it to the queues' own libraries.
package emit

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"auditor/event"
)

// ErrClosed is the answer of a client that has been closed.
var ErrClosed = errors.New("emit: client is closed")

// ErrFull is the answer of Offer when the buffer is full.
var ErrFull = errors.New("emit: buffer is full")

var errAttributes = errors.New("emit: attributes must be a JSON object")

// Client sends events.
type Client struct {
	sender  sender
	log     *slog.Logger
	emitter string // empty: events are not numbered
	queue   chan *event.Event
	flush   chan chan struct{}
	ctx     context.Context // ends when sending has to stop
	stop    context.CancelFunc
	done    chan struct{} // closed when the sending goroutine has ended

	mu     sync.RWMutex // held for writing by Close, so that no Emit is half-way
	closed bool

	numbers numbers
	stats   counters
	left    int   // events that Close could not send; set before done is closed
	trouble error // why the last that were not taken were not; as left
}

// counters are the parts of Stats that count.
type counters struct{ taken, sent, dropped, refused atomic.Int64 }

// Stats is what became of the events so far.
type Stats struct {
	Taken    int64 // by Emit and Offer
	Sent     int64 // acknowledged
	Dropped  int64 // not taken, for the buffer was full
	Refused  int64 // taken, and then too large for Kafka, or no event to the auditor
	Buffered int   // waiting
}

// LogValue writes the numbers as a group.
func (s Stats) LogValue() slog.Value {
	return slog.GroupValue(slog.Int64("taken", s.Taken), slog.Int64("sent", s.Sent), slog.Int64("dropped", s.Dropped),
		slog.Int64("refused", s.Refused), slog.Int("buffered", s.Buffered))
}

// New starts a client. It does not wait for Kafka. The caller closes it.
func New(c Config) (*Client, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	return newClient(c.open(), c), nil
}

func newClient(s sender, c Config) *Client {
	c = c.withDefaults()
	ctx, stop := context.WithCancel(context.Background())
	client := &Client{
		sender:  s,
		log:     c.Logger,
		emitter: startName(c.Emitter),
		queue:   make(chan *event.Event, c.Buffer),
		flush:   make(chan chan struct{}),
		ctx:     ctx,
		stop:    stop,
		done:    make(chan struct{}),
	}
	if c.Unnumbered {
		client.emitter = ""
	}
	go client.run()
	return client
}

// Stats tells what became of the events so far.
func (c *Client) Stats() Stats {
	return Stats{Taken: c.stats.taken.Load(), Sent: c.stats.sent.Load(), Dropped: c.stats.dropped.Load(),
		Refused: c.stats.refused.Load(), Buffered: len(c.queue)}
}

// Emit takes e for sending. It waits only while the buffer is full, until ctx ends. What e points to must not be changed
// afterwards.
func (c *Client) Emit(ctx context.Context, e event.Event) error {
	if err := prepare(&e); err != nil {
		return err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return ErrClosed
	}
	select {
	case c.queue <- &e:
		c.stats.taken.Add(1)
		return nil
	case <-c.ctx.Done():
		return ErrClosed
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrFull, ctx.Err())
	}
}

// Offer takes e for sending if there is room, and never waits. Otherwise e is dropped and counted, its number is left out, and
// the error is ErrFull. What e points to must not be changed afterwards.
func (c *Client) Offer(e event.Event) error {
	if err := prepare(&e); err != nil {
		return err
	}
	if !c.mu.TryRLock() { // Close waits for those that wait for room
		return ErrClosed
	}
	defer c.mu.RUnlock()
	if c.closed {
		return ErrClosed
	}
	select {
	case c.queue <- &e:
		c.stats.taken.Add(1)
		return nil
	default:
		c.numbers.take(e.Namespace) // which is left out
		if c.stats.dropped.Add(1) == 1 {
			c.log.Warn("the buffer is full: events are dropped", "buffer", cap(c.queue))
		}
		return ErrFull
	}
}

// prepare completes an event by what only the caller's time can tell.
func prepare(e *event.Event) error {
	if e.Attributes != "" && !json.Valid([]byte(e.Attributes)) {
		return errAttributes
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	return nil
}

// Flush waits until every event taken before the call is acknowledged or refused.
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
	context.AfterFunc(ctx, c.stop)
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
	err := c.sender.close()
	if c.left > 0 {
		return errors.Join(fmt.Errorf("emit: closed with %d events unsent: %w", c.left, c.trouble), err)
	}
	return err
}

// run sends what is queued until the queue is closed and empty, or sending has to stop.
func (c *Client) run() {
	defer close(c.done)
	for {
		select {
		case e, open := <-c.queue:
			if !open {
				return
			}
			c.send(c.gather(e))
		case reached := <-c.flush:
			c.drain()
			close(reached)
		}
	}
}

// gather adds to first what waits behind it.
func (c *Client) gather(first *event.Event) []event.Record {
	batch := []event.Record{c.record(first)}
	for len(batch) < maxBatch {
		select {
		case e, open := <-c.queue:
			if !open {
				return batch
			}
			batch = append(batch, c.record(e))
		default:
			return batch
		}
	}
	return batch
}

// record numbers an event that carries no number, and names one that has no id.
func (c *Client) record(e *event.Event) event.Record {
	if e.Emitter == "" && c.emitter != "" {
		e.Emitter, e.Seq = c.emitter, c.numbers.take(e.Namespace)
	}
	switch {
	case e.ID != "": // it has one
	case e.Emitter == c.emitter && c.emitter != "":
		e.ID = e.Emitter + "/" + strconv.FormatInt(e.Seq, 10)
		if e.Namespace != "" {
			e.ID = e.Namespace + "/" + e.ID
		}
	default:
		e.ID = strings.ToLower(rand.Text())
	}
	return event.RecordOf(e)
}

// drain sends what is queued at the moment of the call.
func (c *Client) drain() {
	for n := len(c.queue); n > 0; {
		e, open := <-c.queue
		if !open {
			return
		}
		batch := c.gather(e)
		n -= len(batch)
		c.send(batch)
	}
}

// send sends batch until all of it is acknowledged or refused, or sending has to stop.
func (c *Client) send(batch []event.Record) {
	if err := c.ctx.Err(); err != nil {
		c.left += len(batch)
		c.trouble = cmp.Or(c.trouble, err)
		return
	}
	told := false
	errs := deliver(c.ctx, c.sender, batch, func(left int, err error) bool {
		if !told {
			c.log.Warn("events were not taken, trying again", "events", left, "error", err)
		}
		told, c.trouble = true, err
		return true
	})
	sent := int64(len(batch))
	for _, err := range errs {
		switch {
		case err == nil:
			continue
		case isRefused(err):
			c.log.Error("an event is not taken, and was dropped", "error", err)
			c.trouble = err
			c.stats.refused.Add(1)
		default:
			c.left++
			if c.trouble == nil {
				c.trouble = err
			}
		}
		sent--
	}
	c.stats.sent.Add(sent)
}
