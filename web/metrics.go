package web

import (
	"strconv"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "auditor_http_requests_total", Help: "Requests answered, by route and status code.",
		}, []string{"route", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "auditor_http_request_seconds", Help: "Time to answer a request, by route.",
			Buckets: []float64{.005, .02, .1, .5, 2, 10},
		}, []string{"route"}),
	}
	if registerer != nil {
		registerer.MustRegister(m.requests, m.seconds)
	}
	return m
}

// observe counts and times each request. The label is the route's pattern, so that no request can make labels of its own.
func (s *Server) observe(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := time.Now()
		if err := next(c); err != nil {
			c.Error(err)
		}
		route := c.Path()
		if route == "" {
			route = "none"
		}
		s.metrics.requests.WithLabelValues(route, strconv.Itoa(c.Response().Status)).Inc()
		s.metrics.seconds.WithLabelValues(route).Observe(time.Since(start).Seconds())
		return nil
	}
}
