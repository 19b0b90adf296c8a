package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"auditor/bridge"
	"auditor/emit"
	"auditor/internal/access"
)

// bridgeCommand is for queues whose workers tell of themselves already.
type bridgeCommand struct {
	Celery bridgeCelery `cmd:"" help:"Carry Celery's events, from Redis or RabbitMQ."`
}

type bridgeCelery struct {
	destination
	Broker       string `placeholder:"URL" help:"Celery's broker, redis:// or amqp://, as in broker_url; AUDITOR_CELERY_BROKER, if not given. Whoever sees the processes of this machine sees it."`
	BrokerFile   string `placeholder:"FILE" help:"File that holds the broker's URL; AUDITOR_CELERY_BROKER_FILE, if not given."`
	Exchange     string `default:"celeryev" placeholder:"NAME" help:"The application's event_exchange (${default})."`
	FanoutPrefix string `default:"/{db}." placeholder:"TEXT" help:"Of Redis: the application's fanout_prefix, empty if that is False (${default})."`
	KeyPrefix    string `placeholder:"TEXT" help:"Of Redis: the application's global_keyprefix."`
	Name         string `placeholder:"NAME" help:"What the bridge is called in the events that it numbers (celery-bridge and this host)."`
	Buffer       int    `default:"100000" placeholder:"N" help:"Events held while Kafka does not take them (${default}); more are dropped, and counted."`
	BufferMiB    int    `name:"buffer-mib" default:"64" placeholder:"N" help:"And how many MiB of them (${default})."`
	SilentTasks  bool   `help:"Tasks are set to send no events (send_events=False): do not take their starts, which heartbeats count, for lost events."`
	Metrics      string `placeholder:"HOST:PORT" help:"Serve /metrics, /livez and /readyz there."`
}

// Run carries events until it is told to stop.
func (b bridgeCelery) Run(env *environment) error {
	if b.Buffer < 1 || b.BufferMiB < 1 {
		return usageError{errors.New("--buffer and --buffer-mib: must be at least 1")}
	}
	address, err := b.broker(env)
	if err != nil {
		return err
	}
	source, err := bridge.Open(address, bridge.Celery{Exchange: b.Exchange, FanoutPrefix: b.FanoutPrefix, KeyPrefix: b.KeyPrefix})
	if err != nil {
		return usageError{err}
	}
	to, c, err := b.open(env)
	if err != nil {
		return err
	}
	log := env.logger(c.Log)
	publisher, err := emit.NewPublisher(to)
	if err != nil {
		return err
	}
	defer publisher.Close()
	registry := newRegistry()
	carrier, err := bridge.New(bridge.Config{Name: cmp.Or(b.Name, "celery-bridge/"+hostname()), Buffer: b.Buffer, BufferBytes: int64(b.BufferMiB) << 20,
		SilentTasks: b.SilentTasks}, source, publishing{publisher}, log, registry)
	if err != nil {
		return err
	}
	if b.Metrics != "" {
		stop, err := serveBridge(b.Metrics, carrier, registry, log)
		if err != nil {
			return err
		}
		defer stop()
	}
	return carrier.Run(env.ctx)
}

// broker is the address of Celery's broker.
func (b bridgeCelery) broker(env *environment) (string, error) {
	address := b.Broker
	if file := b.BrokerFile; address == "" || file != "" {
		if address != "" {
			return "", usageError{errors.New("--broker-file: must not be given beside --broker")}
		}
		if file == "" && env.getenv("AUDITOR_CELERY_BROKER") == "" {
			file = env.getenv("AUDITOR_CELERY_BROKER_FILE")
		}
		var err error
		if address, err = access.Secret(env.getenv("AUDITOR_CELERY_BROKER")).Or(file); err != nil {
			return "", fmt.Errorf("--broker-file: %w", errors.Unwrap(err))
		}
	}
	if address == "" {
		return "", usageError{errors.New("--broker: must be the URL of Celery's broker, such as redis://localhost:6379/0")}
	}
	return address, nil
}

// serveBridge serves what monitoring asks of a bridge.
func serveBridge(address string, b *bridge.Bridge, registry *prometheus.Registry, log *slog.Logger) (stop func(), err error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !b.Connected() {
			http.Error(w, "the broker's events do not arrive", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are no longer served", "error", err)
		}
	}()
	log.Info("metrics are served", "address", listener.Addr().String())
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			_ = server.Close() // it is the end of the program anyway
		}
	}, nil
}
