package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"auditor/cmd/auditor/config"
	"auditor/embedded/clickhouse"
	"auditor/embedded/kafka"
	"auditor/event"
	"auditor/event/view"
	"auditor/ingest"
	"auditor/internal/access"
	"auditor/queries"
	"auditor/rules"
	"auditor/web"
)

// The roles of a process.
const (
	roleIngest = "ingest"
	roleRules  = "rules"
	roleWeb    = "web"
)

var allRoles = []string{roleIngest, roleRules, roleWeb}

// stopLimit is how long everything together may take to stop. A batch that is being inserted comes first.
const stopLimit = 30 * time.Second

// app is the running auditor: what the configuration asks for, wired together.
//
// Whatever is started registers how it is stopped, and is stopped in reverse. The pages are served before the store
// answers, so that a person sees what the auditor waits for.
type app struct {
	config   config.Config // stand-ins take the place of the servers that it does not name
	roles    []string
	log      *slog.Logger
	registry *prometheus.Registry

	listener net.Listener
	engine   *clickhouse.Engine // nil when the server is real
	broker   *kafka.Broker      // nil when the servers are real
	attached bool               // the embedded servers are those of another process
	store    *queries.Store
	ingester *ingest.Ingester // nil without the role

	userRules *rules.UserRules // nil without the role rules, or without any

	stops    []stopper
	prepared chan struct{} // closed once the store has its schema
	fatal    chan error    // what ends the app; the first counts
}

type stopper struct {
	name string
	stop func(context.Context) error
}

func newApp(c config.Config, roles []string, log *slog.Logger, registry *prometheus.Registry) *app {
	return &app{config: c, roles: roles, log: log, registry: registry, prepared: make(chan struct{}), fatal: make(chan error, 1)}
}

// newRegistry holds the metrics of the process itself, to begin with.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

func (a *app) has(role string) bool { return slices.Contains(a.roles, role) }

// run starts everything, goes on until ctx ends or something fails for good, and stops everything.
func (a *app) run(ctx context.Context) error {
	err := a.start(ctx)
	if err == nil {
		err = a.wait(ctx)
	}
	return errors.Join(err, a.stop())
}

func (a *app) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		a.log.Info("stopping")
		return nil
	case err := <-a.fatal:
		return err
	}
}

func (a *app) start(ctx context.Context) error {
	for _, step := range []func(context.Context) error{a.listen, a.openStore, a.startBroker, a.startWork} {
		if err := step(ctx); err != nil {
			if ctx.Err() != nil {
				return nil // told to stop while starting
			}
			return err
		}
	}
	a.log.Info("auditor is up", "url", a.url(), "roles", strings.Join(a.roles, ","))
	return nil
}

// stop stops what was started, in reverse, in the time there is.
func (a *app) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	var errs []error
	for _, s := range slices.Backward(a.stops) {
		if err := s.stop(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", s.name, err))
		}
	}
	a.stops = nil
	return errors.Join(errs...)
}

func (a *app) onStop(name string, stop func(context.Context) error) {
	a.stops = append(a.stops, stopper{name, stop})
}

// fail ends the app. Only the first failure counts: the others follow from it.
func (a *app) fail(err error) {
	select {
	case a.fatal <- err:
	default:
	}
}

// spawn runs f until the app stops. An error from it ends the app.
func (a *app) spawn(name string, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := f(ctx); err != nil && ctx.Err() == nil {
			a.fail(err)
		}
	}()
	a.onStop(name, func(limit context.Context) error {
		cancel()
		select {
		case <-done:
			return nil
		case <-limit.Done():
			return limit.Err()
		}
	})
}

// listen takes the port first: that it is in use is the likeliest thing to go wrong.
func (a *app) listen(ctx context.Context) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", a.config.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is in use by another program: stop it, or choose another address with --listen", a.config.Listen)
	}
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	a.listener = l
	a.onStop("listener", func(context.Context) error {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
	return nil
}

// url is where the pages are, as a browser on this machine reaches them.
func (a *app) url() string {
	host, port, _ := net.SplitHostPort(a.listener.Addr().String())
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// openStore opens ClickHouse, or an engine in its place.
func (a *app) openStore(ctx context.Context) error {
	c, options := a.config.ClickHouse, queries.Options{Logger: a.log}
	if len(c.Addresses) == 0 {
		engine, err := a.startEngine(ctx)
		if err != nil {
			return err
		}
		c.Addresses = []string{"embedded:0"} // never dialled: Dial is
		options.DialContext = func(ctx context.Context, _ string) (net.Conn, error) { return engine.Dial(ctx) }
	}
	store, err := queries.Open(c, options)
	if err != nil {
		return err
	}
	a.store = store
	a.onStop("store", func(context.Context) error { return store.Close() })
	return nil
}

func (a *app) startEngine(ctx context.Context) (*clickhouse.Engine, error) {
	c := clickhouse.Config{
		Data:   filepath.Join(a.config.Data, "clickhouse"),
		Listen: a.config.Embedded.ClickHouseListen,
		Logger: a.log,
	}
	if file := a.config.Embedded.ClickHousePasswordFile; c.Listen != "" {
		password, err := access.Secret("").Or(file)
		if err != nil {
			return nil, fmt.Errorf("embedded.clickhouse_%w", err)
		}
		c.Password = access.Secret(password)
	}
	engine, err := clickhouse.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	a.engine = engine
	a.onStop("embedded ClickHouse", engine.Stop)
	return engine, nil
}

// startBroker runs a broker in place of Kafka, where ingest needs one and none is configured.
func (a *app) startBroker(context.Context) error {
	if !a.has(roleIngest) || len(a.config.Kafka.Brokers) > 0 {
		return nil
	}
	broker, err := kafka.Start(kafka.Config{
		Data:       filepath.Join(a.config.Data, "kafka"),
		Listen:     a.config.Embedded.KafkaListen,
		Topics:     a.config.Kafka.Topics,
		Partitions: a.config.Embedded.KafkaPartitions,
		Logger:     a.log,
	})
	if err != nil {
		return err
	}
	a.broker = broker
	a.config.Kafka.Brokers = []string{broker.Addr()}
	a.onStop("embedded Kafka", func(context.Context) error { return broker.Stop() })
	return nil
}

// startWork wires the roles, serves the pages at once, and lets the other roles begin when the store is ready.
func (a *app) startWork(context.Context) error {
	a.limitMemory()
	var work []func(context.Context) error
	if a.has(roleIngest) {
		decoder, err := event.NewDecoder(a.config.Decoder())
		if err != nil {
			return err
		}
		a.ingester, err = ingest.New(a.config.IngestConfig(), a.store, decoder, a.log, a.registry)
		if err != nil {
			return err
		}
		a.ingester.Tell(a.store)
		a.ingester.Prove(a.store)
		work = append(work, a.ingester.Run)
	}
	if a.has(roleRules) {
		judge, err := rules.New(a.config.RuleConfig(), a.store, a.log, a.registry)
		if err != nil {
			return err
		}
		complete := &completeness{told: a.store.Progress, settle: a.store.SettleTime(), log: a.log}
		if a.ingester != nil {
			complete.status = a.ingester.Status
		}
		judge.CompleteTo(complete.at)
		effective, err := a.config.Effective()
		if err != nil {
			return err
		}
		recorder := &configRecorder{effective: effective, store: a.store, log: a.log}
		work = append(work, recorder.run, judge.Run)
		if err := a.addUserRules(); err != nil {
			return err
		}
		if a.userRules != nil {
			work = append(work, a.userRules.Run)
		}
	}
	if err := a.serve(); err != nil {
		return err
	}
	a.spawn("work", func(ctx context.Context) error {
		if err := a.prepareStore(ctx); err != nil {
			return err
		}
		close(a.prepared)
		group, ctx := errgroup.WithContext(ctx)
		for _, f := range work {
			group.Go(func() error { return f(ctx) })
		}
		return group.Wait()
	})
	return nil
}

// prepareStore waits for ClickHouse and brings its schema up to date. It returns only errors that no waiting mends.
func (a *app) prepareStore(ctx context.Context) error {
	for told := false; ; told = true {
		err := a.store.Wait(ctx)
		if err == nil && a.engine == nil {
			err = a.store.Check(ctx)
		}
		if err == nil {
			_, err = a.store.Migrate(ctx)
		}
		if err == nil && a.engine == nil {
			if lacking := a.store.CheckServers(ctx); lacking != nil {
				a.log.Warn("not every server of the cluster is ready", "error", lacking)
			}
		}
		var lasting interface{ Permanent() bool }
		if err == nil || ctx.Err() != nil || !errors.As(err, &lasting) || lasting.Permanent() {
			return err
		}
		if !told {
			a.log.Warn("can't make ClickHouse ready yet, trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Second):
		}
	}
}

// serve answers HTTP requests. A process without the role web answers probes and metrics only.
func (a *app) serve() error {
	options := web.Options{
		Prepared:   a.prepared,
		Log:        a.log,
		Checks:     a.checks(),
		Registerer: a.registry,
		Gatherer:   a.registry,
		Profiling:  a.config.Profiling,
		Version:    version,
		Review:     a.config.Review(),
	}
	var err error
	if options.Intake, err = a.intake(); err != nil {
		return err
	}
	if a.ingester != nil {
		options.IngestStatus = func() []view.Partition { return partitions(a.ingester.Status()) }
	}
	if len(a.config.Kafka.Brokers) > 0 {
		options.Replayer = &replaying{app: a}
	}
	pages, err := web.New(a.config.Web, a.store.Pages(), options)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           a.only(pages.Handler()),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      time.Minute,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
	}
	a.onStop("pages", pages.Close)
	a.onStop("HTTP server", func(ctx context.Context) error {
		if err := server.Shutdown(ctx); err != nil {
			return errors.Join(err, server.Close())
		}
		return nil
	})
	go func() {
		if err := server.Serve(a.listener); !errors.Is(err, http.ErrServerClosed) {
			a.fail(fmt.Errorf("serve HTTP: %w", err))
		}
	}()
	return nil
}

// only lets through what the roles serve.
func (a *app) only(pages http.Handler) http.Handler {
	if a.has(roleWeb) {
		return pages
	}
	mux := http.NewServeMux()
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/debug/pprof/"} {
		mux.Handle("GET "+path, pages)
	}
	return mux
}

// checks is what readiness rests on.
func (a *app) checks() []web.Check {
	checks := []web.Check{
		{Name: "clickhouse", Func: a.store.Ping},
		{Name: "schema", Func: a.checkSchema},
	}
	if a.ingester != nil {
		checks = append(checks, web.Check{Name: "kafka", Func: checkKafka(a.ingester.Status), Note: noteKafka(a.ingester.Status)})
	}
	if a.userRules != nil {
		checks = append(checks, web.Check{Name: "user_rules", Func: func(context.Context) error { return nil }, Note: a.userRules.Note})
	}
	return checks
}

// addUserRules prepares the rules that users wrote, where there are any.
func (a *app) addUserRules() error {
	all, err := a.config.UserRules()
	if err != nil || len(all) == 0 {
		return err
	}
	a.userRules, err = rules.NewUserRules(all, a.config.RuleConfig(), a.store, a.log, a.registry)
	return err
}

func (a *app) checkSchema(ctx context.Context) error {
	have, want, err := a.store.SchemaVersion(ctx)
	if err != nil {
		return err
	}
	if have != want {
		return fmt.Errorf("the schema has version %d, this program needs %d", have, want)
	}
	return nil
}
