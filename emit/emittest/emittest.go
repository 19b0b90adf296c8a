// Package emittest lets tests of workers see what they tell the auditor.
package emittest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"auditor/emit"
	"auditor/event"
)

// Collector takes events in an auditor's place, over HTTP, and decodes them as ingest does.
type Collector struct {
	Client *emit.Client // to give to what is tested

	t      testing.TB
	mu     sync.Mutex
	events []event.Event
}

// New starts a collector, which ends with the test.
func New(t testing.TB) *Collector {
	c := &Collector{t: t}
	server := httptest.NewServer(c)
	client, err := emit.New(emit.Config{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	c.Client = client
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // that of the test has ended
		defer cancel()
		if err := client.Close(ctx); err != nil {
			t.Error(err)
		}
		server.Close()
	})
	return c
}

// Events gives what has been told so far, in order.
func (c *Collector) Events() []event.Event {
	c.t.Helper()
	if err := c.Client.Flush(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]event.Event{}, c.events...)
}

// ServeHTTP takes events. What cannot be decoded fails the test.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := gzip.NewReader(r.Body)
	if err != nil {
		c.t.Error(err)
		return
	}
	text, err := io.ReadAll(body)
	if err != nil {
		c.t.Error(err)
	}
	decoder, err := event.NewDecoder(event.DecoderConfig{})
	if err != nil {
		c.t.Error(err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, len(text)+1)
	for lines.Scan() {
		events, rejects := decoder.Decode(event.Record{Time: time.Now(), Value: lines.Bytes()})
		for _, reject := range rejects {
			c.t.Errorf("%s: %s: %s", lines.Bytes(), reject.Reason, reject.Detail)
		}
		c.events = append(c.events, events...)
	}
	_, _ = w.Write([]byte(`{"accepted":1}`)) // the client is gone, if nobody reads it
}
