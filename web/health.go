package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"
)

// Check is one thing that readiness rests on.
type Check struct {
	Name string                          // kafka, clickhouse, schema
	Func func(ctx context.Context) error // nil when all is well; must heed ctx
	Note func() string                   // what a person should know although the process is ready, empty for nothing; nil: never
}

// checkTimeout is how long one check may take: less than the probes of the common orchestrators wait.
const checkTimeout = 2 * time.Second

type checkAnswer struct {
	Status string                 `json:"status"` // ok or unavailable
	Checks map[string]checkResult `json:"checks"`
}

type checkResult struct {
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"`
	Note   string `json:"note,omitempty"`
}

// livez answers as long as the process serves at all: what it depends on is the concern of readyz.
func (s *Server) livez(c echo.Context) error {
	return c.JSON(http.StatusOK, map[string]string{"status": "ok"})
}

func (s *Server) readyz(c echo.Context) error {
	answer := s.check(c.Request().Context())
	status := http.StatusOK
	if answer.Status != "ok" {
		status = http.StatusServiceUnavailable
	}
	return c.JSON(status, answer)
}

func (s *Server) check(ctx context.Context) checkAnswer {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	results := make([]checkResult, len(s.options.Checks))
	var group sync.WaitGroup
	for i, check := range s.options.Checks {
		group.Go(func() {
			if err := check.Func(ctx); err != nil {
				results[i].Reason = err.Error()
				return
			}
			results[i].OK = true
			if check.Note != nil {
				results[i].Note = check.Note()
			}
		})
	}
	group.Wait()
	answer := checkAnswer{Status: "ok", Checks: map[string]checkResult{}}
	for i, check := range s.options.Checks {
		answer.Checks[check.Name] = results[i]
		if !results[i].OK {
			answer.Status = "unavailable"
		}
	}
	return answer
}
