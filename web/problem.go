package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"auditor/event/view"

	"github.com/labstack/echo/v4"
)

// problem is an error that its reader can act on: it becomes a page, or the JSON error of the API.
type problem struct {
	Status  int
	Title   string
	Message string
	cause   error // for the log

	// The rest is of requests that send events.
	why   string        // for the metric
	retry time.Duration // after which the same may succeed
	bad   []badEvent    // what none was taken for
}

func (p *problem) Error() string { return p.Message }
func (p *problem) Unwrap() error { return p.cause }

func badRequest(message string) error {
	return &problem{Status: http.StatusBadRequest, Title: "Not understood", Message: message}
}

func notFound(message string) error {
	return &problem{Status: http.StatusNotFound, Title: "Not found", Message: message}
}

// problemOf says what an error is for the one who asked. What the store says stays in the log: it may name tables and
// addresses.
func problemOf(err error) *problem {
	var p *problem
	var tooLarge *http.MaxBytesError
	status, ours := statusOf(err)
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &tooLarge):
		return &problem{Status: http.StatusRequestEntityTooLarge, Title: "Too large", Message: fmt.Sprintf("The request is larger than %d KiB.", tooLarge.Limit>>10)}
	case errors.Is(err, view.ErrNotFound):
		return &problem{Status: http.StatusNotFound, Title: "Not found", Message: "The store holds nothing of that name."}
	case errors.Is(err, view.ErrCursor):
		return &problem{Status: http.StatusBadRequest, Title: "Not understood", Message: "cursor: not one that was given out for this list"}
	case ours && status == http.StatusNotFound:
		return &problem{Status: status, Title: "Not found", Message: "There is no such page."}
	case ours && status == http.StatusMethodNotAllowed:
		return &problem{Status: status, Title: "Not that way", Message: "This address does not take that method."}
	case errors.Is(err, context.DeadlineExceeded):
		return &problem{Status: http.StatusServiceUnavailable, Title: "The store did not answer in time",
			Message: "The question took longer than web.query_timeout. The events are safe; ask again.", cause: err}
	}
	return &problem{Status: http.StatusServiceUnavailable, Title: "The store cannot be reached",
		Message: "ClickHouse does not answer. Events wait in Kafka and nothing is lost; this page comes back by itself when the store does.", cause: err}
}

// statusOf is the status that an error of echo's own stands for.
func statusOf(err error) (int, bool) {
	var e *echo.HTTPError
	if errors.As(err, &e) {
		return e.Code, true
	}
	return 0, false
}

// answerError is the one place where errors become answers and, when they are the server's, log lines.
func (s *Server) answerError(err error, c echo.Context) {
	if c.Response().Committed || errors.Is(err, context.Canceled) && c.Request().Context().Err() != nil {
		return
	}
	p := problemOf(err)
	if p.cause != nil {
		s.log.Error("request failed", "path", c.Path(), "status", p.Status, "error", p.cause)
	}
	if p.Status == http.StatusServiceUnavailable {
		c.Response().Header().Set("Retry-After", "2")
	}
	if isIntake(c) {
		if err := answerSender(c, p); err != nil {
			s.log.Error("answer not written", "path", c.Path(), "error", err)
		}
		return
	}
	if strings.HasPrefix(c.Request().URL.Path, "/api/") {
		err = c.JSON(p.Status, map[string]string{"error": p.Message})
	} else {
		err = s.writeProblem(c, p)
	}
	if err != nil {
		s.log.Error("answer not written", "path", c.Path(), "error", err)
	}
}

// answerSender tells one who sends events what is wrong, in the form of RFC 9457.
func answerSender(c echo.Context, p *problem) error {
	header := c.Response().Header()
	if p.retry > 0 {
		header.Set("Retry-After", retryAfter(p.retry))
	}
	if p.Status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", "Bearer")
	}
	answer := map[string]any{"type": "about:blank", "title": p.Title, "status": p.Status, "detail": p.Message}
	if p.bad != nil {
		answer["errors"], answer["accepted"], answer["rejected"] = p.bad, 0, len(p.bad)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	return c.Blob(p.Status, "application/problem+json", append(text, '\n'))
}
