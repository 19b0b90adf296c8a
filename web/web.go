// Package web serves the dashboard, the JSON API, the metrics and the health checks over HTTP.
//
// Pages are rendered on the server and complete without scripts; a small module in the browser asks for the same page
// again every few seconds and mends what changed. What is read from the store is shared for a second between all who
// ask for the same, so that many open tabs cost the store no more than one. Nothing here writes but what people do with
// findings, silences and rejects, and the events that workers send, which go to Kafka.
//
// A Server is safe for concurrent use. It listens on nothing itself: the caller serves Handler, and calls Close after
// its HTTP server has stopped.
package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"auditor/event/finding"
	"auditor/event/review"
	"auditor/event/view"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Options are what a Server needs from the program around it. The zero value serves.
type Options struct {
	Log *slog.Logger // nil: discard

	// IngestStatus says where ingest stands in each partition that this process reads. nil: ingest runs elsewhere. Of the
	// partitions that other processes read the pages know what those told through the store.
	IngestStatus func() []view.Partition

	// Prepared is closed when the store can be asked. Until then every page and call says that the auditor is starting.
	// nil: it can.
	Prepared <-chan struct{}

	// Replayer sends rejects through again. nil: this process has no Kafka to send to.
	Replayer Replayer

	// Intake takes events. nil: this process has no Kafka to send to.
	Intake *Intake

	Review     review.Settings       // what reviews of tasks go by
	Checks     []Check               // what readiness rests on
	Registerer prometheus.Registerer // nil: the server's own metrics are not registered
	Gatherer   prometheus.Gatherer   // nil: no /metrics
	Profiling  bool                  // serve /debug/pprof
	Version    string                // shown at the foot of the rail
	Now        func() time.Time      // nil: time.Now
}

// Server is the dashboard and the API.
type Server struct {
	config   Config
	store    Store
	options  Options
	log      *slog.Logger
	now      func() time.Time
	zone     *time.Location
	hosts    hostGuard
	origins  *http.CrossOriginProtection
	renderer *renderer
	cache    *cache
	reviewed *cache        // reviews of tasks, which take longer
	reviews  chan struct{} // holds one for each review under way
	metrics  *metrics
	intake   *intake // nil where there is no Kafka to send to
	echo     *echo.Echo
}

// New wires a server. It reads nothing and starts nothing.
func New(config Config, store Store, options Options) (*Server, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if store == nil {
		return nil, errors.New("web: no store")
	}
	zone, err := time.LoadLocation(config.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("time zone: %w", err)
	}
	renderer, err := newRenderer()
	if err != nil {
		return nil, err
	}
	s := &Server{
		config: config, store: store, options: options, log: options.Log, now: options.Now, zone: zone,
		hosts: newHostGuard(config), origins: http.NewCrossOriginProtection(), renderer: renderer,
		cache: newCache(config.QueryTimeout), reviewed: newCache(max(config.QueryTimeout, reviewTimeout)), reviews: make(chan struct{}, mostReviews),
		metrics: newMetrics(options.Registerer),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.intake = newIntake(options.Intake, newIntakeMetrics(options.Registerer), s.log, s.now)
	if config.BaseURL != "" {
		if err := s.origins.AddTrustedOrigin(config.origin()); err != nil {
			return nil, fmt.Errorf("base_url: %w", err)
		}
	}
	s.echo = s.routes()
	return s, nil
}

// Handler answers every request.
func (s *Server) Handler() http.Handler { return s.echo }

// Close stops the queries that still run for requests which have gone away, and waits for them or for ctx.
func (s *Server) Close(ctx context.Context) error {
	return errors.Join(s.cache.close(ctx), s.reviewed.close(ctx))
}

func (s *Server) routes() *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.Logger.SetOutput(discard{})
	e.HTTPErrorHandler = s.answerError
	e.Use(s.observe, s.guard)
	read := []string{http.MethodGet, http.MethodHead} // monitors ask with HEAD

	e.Match(read, "/", s.page(s.nowPage))
	e.Match(read, "/findings", s.page(s.findingsPage))
	e.Match(read, "/findings/:id", s.page(s.findingPage))
	e.POST("/findings/:id/state", s.postState)
	e.POST("/findings/:id/comment", s.postComment)
	e.POST("/findings/:id/assign", s.postAssign)
	e.Match(read, "/silences", s.page(s.silencesPage))
	e.POST("/silences", s.postSilence)
	e.Match(read, "/silences/new", s.page(s.newSilencePage))
	e.POST("/silences/:id/end", s.postEndSilence)
	e.Match(read, "/keys", s.page(s.keyPage))
	e.Match(read, "/tasks", s.page(s.tasksPage))
	e.Match(read, "/tasks/", s.page(s.taskPage))
	e.Match(read, "/tasks/:task", s.page(s.taskPage))
	e.Match(read, "/tasks/id", s.page(s.taskIDPage))
	e.Match(read, "/workers", s.page(s.workersPage))
	e.Match(read, "/evidence", s.page(s.evidencePage))
	e.Match(read, "/rejects", s.page(s.rejectsPage))
	e.Match(read, "/rejects/:id", s.page(s.rejectPage))
	e.Match(read, "/rejects/:id/raw", s.rawReject)
	e.POST("/rejects/:id/replay", s.postReplay)
	e.POST("/rejects/:id/purge", s.postPurge)
	e.Match(read, "/search", s.searchPage)
	e.POST("/theme", s.postTheme)
	e.Match(read, "/static/:file", s.staticFile)

	api := e.Group("/api/v1")
	api.Match(read, "/findings", s.apiFindings)
	api.Match(read, "/findings/:id", s.apiFinding)
	api.Match(read, "/findings/:id/log", s.apiLog)
	api.POST("/findings/:id/state", s.apiState)
	for _, action := range finding.Actions {
		api.POST("/findings/:id/"+string(action), s.apiAct(action))
	}
	api.Match(read, "/silences", s.apiSilences)
	api.POST("/silences", s.apiAddSilence)
	api.Match(read, "/silences/:id", s.apiSilence)
	api.POST("/silences/:id/end", s.apiEndSilence)
	api.Match(read, "/keys", s.apiKey)
	api.Match(read, "/events", s.apiEvents)
	api.POST("/events", s.apiTakeEvents)
	api.Match(read, "/reviews", s.apiReviews)
	api.Match(read, "/tasks/:task/review", s.apiReview)
	api.Match(read, "/rejects", s.apiRejects)
	api.Match(read, "/rejects/counts", s.apiRejectCounts)
	api.Match(read, "/rejects/:id", s.apiReject)
	api.POST("/rejects/:id/replay", s.apiReplay)
	api.POST("/rejects/:id/purge", s.apiPurge)
	api.Match(read, "/config/log", s.apiConfigLog)
	api.Match(read, "/status", s.apiStatus)
	api.Any("/*", func(echo.Context) error { return notFound("there is no such call; docs/api.md lists them") })

	e.Match(read, "/livez", s.livez)
	e.Match(read, "/readyz", s.readyz)
	if s.options.Gatherer != nil {
		e.Match(read, "/metrics", echo.WrapHandler(promhttp.HandlerFor(s.options.Gatherer, promhttp.HandlerOpts{})))
	}
	if s.options.Profiling {
		e.Match(read, "/debug/pprof/*", echo.WrapHandler(profiles()))
	}
	return e
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
