package web

import (
	"context"
	"sync"
	"time"
)

const (
	shared     = time.Second // how long an answer is shared between those who ask the same
	cacheLimit = 512         // answers kept at most
)

// cache lets those who ask the same at about the same time share one answer: one query runs for however many tabs are
// open, and its answer serves for a moment. Errors are not kept.
type cache struct {
	timeout time.Duration
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	entries map[string]*entry
}

type entry struct {
	done    chan struct{} // closed when value and err are set
	value   any
	err     error
	expires time.Time // zero while it is being loaded
	again   bool      // it is being found anew, and serves meanwhile
}

func newCache(timeout time.Duration) *cache {
	ctx, cancel := context.WithCancel(context.Background())
	return &cache{timeout: timeout, ctx: ctx, cancel: cancel, entries: map[string]*entry{}}
}

// ask gives the shared answer under key, or has load find it. The query outlives the request that caused it, for others
// may wait for it too; it has its own time-out, and ends with the cache.
func ask[T any](ctx context.Context, c *cache, key string, keep time.Duration, load func(context.Context) (T, error)) (T, error) {
	return askLongest(ctx, c, key, keep, 0, load)
}

// askLongest is ask for what takes long to find. An answer that is older than keep, though not by more than longer, is
// given all the same, and found anew behind the back of the one who asked.
func askLongest[T any](ctx context.Context, c *cache, key string, keep, longer time.Duration, load func(context.Context) (T, error)) (T, error) {
	e, err := c.join(key, keep, longer, func(ctx context.Context) (any, error) { return load(ctx) })
	if err != nil {
		var none T
		return none, err
	}
	select {
	case <-e.done:
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
	value, _ := e.value.(T)
	return value, e.err
}

func (c *cache) join(key string, keep, longer time.Duration, load func(context.Context) (any, error)) (*entry, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, context.Canceled
	}
	now := time.Now()
	old, ok := c.entries[key]
	switch {
	case ok && (old.expires.IsZero() || now.Before(old.expires)):
		return old, nil
	case ok && now.Before(old.expires.Add(longer)):
		if !old.again {
			old.again = true
			c.find(key, old, keep, load)
		}
		return old, nil
	}
	c.evict(now)
	e := c.find(key, nil, keep, load)
	c.entries[key] = e
	return e, nil
}

// find has load find what key stands for. It takes the place of old, if there is one, once it is found. The cache is
// locked.
func (c *cache) find(key string, old *entry, keep time.Duration, load func(context.Context) (any, error)) *entry {
	e := &entry{done: make(chan struct{})}
	c.running.Go(func() {
		ctx, cancel := context.WithTimeout(c.ctx, c.timeout)
		defer cancel()
		e.value, e.err = load(ctx)
		c.settle(key, e, old, keep)
		close(e.done)
	})
	return e
}

func (c *cache) settle(key string, e, old *entry, keep time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.expires = time.Now().Add(keep)
	switch {
	case old != nil && e.err != nil:
		old.again = false // it is tried again by whoever asks next
	case old != nil && c.entries[key] == old:
		c.entries[key] = e
	case e.err != nil && c.entries[key] == e:
		delete(c.entries, key)
	}
}

func (c *cache) evict(now time.Time) {
	if len(c.entries) < cacheLimit {
		return
	}
	for key, e := range c.entries {
		if len(c.entries) >= cacheLimit || (!e.expires.IsZero() && now.After(e.expires)) {
			delete(c.entries, key)
		}
	}
}

// forget drops every answer, so that whoever changed something sees it.
func (c *cache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.entries)
}

func (c *cache) close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	stopped := make(chan struct{})
	go func() { c.running.Wait(); close(stopped) }()
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
