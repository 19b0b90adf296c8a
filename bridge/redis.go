package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A connection to Redis is asked for a sign of life this often, and given up when none has come for three times as long.
const redisPing = 5 * time.Second

// redisSource reads from Redis. There kombu publishes events to a channel, prefix and exchange, with fanout_patterns followed by a
// slash and the kind of event; so both are subscribed to.
type redisSource struct {
	options *redis.Options
	name    string
	channel string
	ping    time.Duration
}

// quiet keeps the client from writing to standard error beside the log. What goes wrong, its calls tell.
var quiet = sync.OnceFunc(func() { redis.SetLogger(nobody{}) })

type nobody struct{}

func (nobody) Printf(context.Context, string, ...any) {}

func openRedis(u *url.URL, c Celery) (Source, error) {
	quiet()
	given, err := parameters(u, append(security, "virtual_host", "db")...)
	if err != nil {
		return nil, err
	}
	o := &redis.Options{Network: "tcp", Addr: hostPort(u, "6379"), Username: u.User.Username(), Protocol: 2,
		MaxRetries: -1, PoolSize: 2, DialTimeout: dialLimit, WriteTimeout: dialLimit, DisableIdentity: true}
	o.Password, _ = u.User.Password()
	path := strings.TrimPrefix(u.Path, "/")
	s := &redisSource{options: o, name: "redis://" + o.Addr + "/", ping: redisPing}
	if u.Scheme == "unix" || u.Scheme == "redis+socket" {
		o.Network, o.Addr, path = "unix", u.Path, ""
		s.name = "redis+socket://" + u.Path + "?virtual_host="
	}
	for _, name := range []string{"db", "virtual_host"} {
		if text := given[name]; text != "" {
			path = strings.TrimPrefix(text, "/")
		}
	}
	db := 0
	if path != "" {
		if db, err = strconv.Atoi(path); err != nil || db < 0 {
			return nil, errors.New("broker: the path of a Redis URL must be the number of a database, such as /0")
		}
	}
	if u.Scheme == "rediss" {
		s.name = "rediss://" + o.Addr + "/"
		if o.TLSConfig, err = encryption(u.Hostname(), given); err != nil {
			return nil, err
		}
	}
	s.name += strconv.Itoa(db)
	s.channel = c.KeyPrefix + strings.ReplaceAll(c.FanoutPrefix, "{db}", strconv.Itoa(db)) + c.Exchange
	return s, nil
}

// String names the server, without credentials.
func (s *redisSource) String() string { return s.name }

// Read subscribes. It does without the client's own reconnecting, which would hide that events were missed.
func (s *redisSource) Read(ctx context.Context, connected func(), take func(Message)) error {
	options := *s.options // which the client completes
	client := redis.NewClient(&options)
	defer client.Close()
	if err := client.Ping(ctx).Err(); err != nil {
		return refusedByRedis(err)
	}
	subscription := client.Subscribe(ctx, s.channel)
	defer subscription.Close()
	if err := subscription.PSubscribe(ctx, literal(s.channel)+"/*"); err != nil {
		return refusedByRedis(err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(ctx, func() { subscription.Close() })()
	var heard atomic.Int64 // when something arrived, in nanoseconds
	heard.Store(time.Now().UnixNano())
	silent := make(chan struct{})
	go s.watch(ctx, subscription, &heard, silent)

	for subscribed := 0; ; {
		got, err := subscription.ReceiveTimeout(ctx, 0)
		if err != nil {
			select {
			case <-silent:
				return fmt.Errorf("no sign of life for %s", 3*s.ping)
			default:
				return refusedByRedis(err)
			}
		}
		heard.Store(time.Now().UnixNano())
		switch got := got.(type) {
		case *redis.Subscription:
			if subscribed++; subscribed == 2 {
				connected()
			}
		case *redis.Message:
			take(unpack(got.Payload))
		}
	}
}

// watch pings, and closes the subscription when nothing comes.
func (s *redisSource) watch(ctx context.Context, subscription *redis.PubSub, heard *atomic.Int64, silent chan<- struct{}) {
	tick := time.NewTicker(s.ping)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if now.UnixNano()-heard.Load() > int64(3*s.ping) {
				close(silent)
				subscription.Close()
				return
			}
			_ = subscription.Ping(ctx) // where it fails, nothing is heard
		}
	}
}

// literal writes text so that a pattern of Redis means nothing else by it.
func literal(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(text)
}

// refusedByRedis tells the errors that credentials make.
func refusedByRedis(err error) error {
	text := err.Error()
	for _, code := range []string{"WRONGPASS", "NOAUTH", "NOPERM"} {
		if strings.HasPrefix(text, code) {
			return &RefusedError{errors.New(code + " (user, password, or a right to SUBSCRIBE, PSUBSCRIBE, PING or the channels)")}
		}
	}
	return err
}
