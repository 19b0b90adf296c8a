package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"auditor/event"

	"github.com/labstack/echo/v4"
)

// intakePath is where events are sent to.
const intakePath = "/api/v1/events"

// IntakeConfig is what an operator may set about events that come over HTTP.
type IntakeConfig struct {
	TokensFile  string        `yaml:"tokens_file"`  // who may send; empty: whoever is on this machine, and nobody else
	MaxBytes    int           `yaml:"max_bytes"`    // of one request, also unpacked
	MaxEvents   int           `yaml:"max_events"`   // in one request
	MaxRequests int           `yaml:"max_requests"` // under way at the same time
	Rate        int           `yaml:"rate"`         // events a second with one token; 0: unbounded
	Timeout     time.Duration `yaml:"timeout"`      // for Kafka to acknowledge
}

// DefaultIntakeConfig is what holds where nothing is set.
func DefaultIntakeConfig() IntakeConfig {
	return IntakeConfig{MaxBytes: 4 << 20, MaxEvents: 10_000, MaxRequests: 16, Rate: 20_000, Timeout: 10 * time.Second}
}

// Validate names every field that cannot be, and what it may be.
func (c IntakeConfig) Validate() error {
	var problems []error
	between := func(field string, value, least, most int) {
		if value < least || value > most {
			problems = append(problems, fmt.Errorf("%s: must be from %d to %d, got %d", field, least, most, value))
		}
	}
	between("max_bytes", c.MaxBytes, 1<<10, 64<<20)
	between("max_events", c.MaxEvents, 1, 100_000)
	between("max_requests", c.MaxRequests, 1, 1000)
	between("rate", c.Rate, 0, math.MaxInt32)
	if c.Timeout < 100*time.Millisecond || c.Timeout > 50*time.Second {
		problems = append(problems, fmt.Errorf("timeout: must be from 100ms to 50s, got %s", c.Timeout))
	}
	return errors.Join(problems...)
}

// Publisher writes records to Kafka.
type Publisher interface {
	// Publish returns once all in-sync replicas have the records. Those that Kafka will never take are refused, by their
	// place. After an error any of the others may be there, or not.
	Publish(ctx context.Context, records []event.Record) (refused map[int]error, err error)
}

// Intake is what taking events rests on.
type Intake struct {
	Config    IntakeConfig
	Tokens    func() Tokens  // who may send at the moment; nil: whoever is on this machine
	Loopback  bool           // only this machine reaches the server
	Decoder   *event.Decoder // that of ingest, so that what is taken here is taken there
	Publisher Publisher
}

// intake takes events. It is safe for concurrent use.
type intake struct {
	Intake
	metrics *intakeMetrics
	log     *slog.Logger
	now     func() time.Time
	away    atomic.Bool   // Kafka did not acknowledge the last time
	slots   chan struct{} // holds one for each request under way

	mu    sync.Mutex
	rates map[string]*rate // by the token's name
}

func newIntake(i *Intake, m *intakeMetrics, log *slog.Logger, now func() time.Time) *intake {
	if i == nil {
		return nil
	}
	return &intake{Intake: *i, metrics: m, log: log, now: now, rates: make(map[string]*rate), slots: make(chan struct{}, i.Config.MaxRequests)}
}

// rateOf gives the rate of a token, of which there are as many as somebody has written down.
func (in *intake) rateOf(name string) *rate {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.rates[name] == nil {
		in.rates[name] = newRate(in.Config.Rate)
	}
	return in.rates[name]
}

// isIntake reports whether a request is one that sends events.
func isIntake(c echo.Context) bool {
	return c.Path() == intakePath && c.Request().Method == http.MethodPost
}

// asksToken reports whether the request is one that nobody gets through without a token.
func (s *Server) asksToken(c echo.Context) bool {
	return isIntake(c) && s.intake != nil && s.intake.Tokens != nil
}

// apiTakeEvents answers once Kafka has the events.
func (s *Server) apiTakeEvents(c echo.Context) error {
	if s.intake == nil {
		return &problem{Status: http.StatusServiceUnavailable, Title: "No Kafka", Message: "This process has no Kafka to send events to."}
	}
	if err := known(c); err != nil {
		return err
	}
	done, err := s.intake.take(c.Request())
	if err != nil {
		if p := new(problem); errors.As(err, &p) && p.why != "" {
			s.intake.metrics.refused.WithLabelValues(p.why).Inc()
		}
		return err
	}
	status := http.StatusOK
	if done.Rejected > 0 {
		status = http.StatusMultiStatus
	}
	return c.JSON(status, done)
}

// taken is what became of the events of a request.
type taken struct {
	Accepted int        `json:"accepted"` // Kafka has them
	Rejected int        `json:"rejected"` // they were not sent
	Errors   []badEvent `json:"errors"`   // of those, in order
}

// badEvent is an event that was not sent.
type badEvent struct {
	Index  int          `json:"index"`          // among the request's events, from 0
	Line   int          `json:"line,omitempty"` // where events come one a line, from 1
	Reason event.Reason `json:"reason"`
	Detail string       `json:"detail"`
}

// take reads a request and sends its events.
func (in *intake) take(r *http.Request) (taken, error) {
	name, err := in.who(r)
	if err != nil {
		return taken{}, err
	}
	limit := in.rateOf(name)
	if wait := limit.wait(in.now()); wait > 0 {
		return taken{}, &problem{Status: http.StatusTooManyRequests, Title: "Too many events", why: "rate", retry: wait,
			Message: fmt.Sprintf("More than intake.rate, %d events a second. Nothing was taken; send it again later.", in.Config.Rate)}
	}
	select {
	case in.slots <- struct{}{}:
		defer func() { <-in.slots }()
	case <-time.After(in.Config.Timeout):
		return taken{}, &problem{Status: http.StatusServiceUnavailable, Title: "Too busy", why: "busy", retry: time.Second,
			Message: "Too many requests are under way. Nothing was taken; send it again."}
	case <-r.Context().Done():
		return taken{}, r.Context().Err()
	}
	parcel, err := in.read(r)
	limit.take(in.now(), max(1, parcel.elements))
	if err != nil {
		return taken{}, err
	}
	return in.send(r.Context(), parcel)
}

// who gives the name of the token that a request carries, which is empty where none is asked for.
func (in *intake) who(r *http.Request) (string, error) {
	if in.Tokens == nil {
		forwarded := func(name string) bool { return r.Header.Get(name) != "" }
		if in.Loopback && !slices.ContainsFunc([]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"}, forwarded) {
			return "", nil
		}
		return "", &problem{Status: http.StatusForbidden, Title: "No tokens", why: "closed",
			Message: "Events are taken from other machines only with a token: name a file of tokens in intake.tokens_file."}
	}
	kind, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") {
		return "", &problem{Status: http.StatusUnauthorized, Title: "No token", why: "token", Message: "Authorization: must be Bearer and a token"}
	}
	one, known := in.Tokens().find(strings.TrimSpace(secret))
	if !known {
		return "", &problem{Status: http.StatusUnauthorized, Title: "Unknown token", why: "token", Message: "Authorization: there is no such token"}
	}
	for _, scope := range one.scopes {
		if scope == ScopeEmit {
			return one.name, nil
		}
	}
	return "", &problem{Status: http.StatusForbidden, Title: "Not for this token", why: "scope", Message: "The token lacks the scope " + ScopeEmit + "."}
}

// send sends what could be read, and tells of what could not.
func (in *intake) send(ctx context.Context, p parcel) (taken, error) {
	for _, bad := range p.bad {
		in.metrics.rejects.WithLabelValues(string(bad.Reason)).Inc()
	}
	done := taken{Accepted: len(p.records), Errors: append([]badEvent{}, p.bad...)}
	if len(p.records) > 0 {
		ctx, cancel := context.WithTimeout(ctx, in.Config.Timeout)
		defer cancel()
		start := time.Now()
		refused, err := in.Publisher.Publish(ctx, p.records)
		in.metrics.seconds.Observe(time.Since(start).Seconds())
		if err != nil {
			in.metrics.events.WithLabelValues("unconfirmed").Add(float64(len(p.records)))
			if !in.away.Swap(true) { // once, and not for every sender
				in.log.Warn("Kafka does not acknowledge events that come over HTTP", "error", err)
			}
			return taken{}, &problem{Status: http.StatusServiceUnavailable, Title: "Kafka did not acknowledge", why: "kafka", retry: 2 * time.Second,
				Message: "Kafka did not acknowledge the events in time; some may have arrived. Send all of them again: an event that arrives twice counts once."}
		}
		if in.away.Swap(false) {
			in.log.Info("Kafka acknowledges events that come over HTTP again")
		}
		done.refuse(p, refused)
	}
	done.Rejected = len(done.Errors)
	in.metrics.events.WithLabelValues("accepted").Add(float64(done.Accepted))
	in.metrics.events.WithLabelValues("rejected").Add(float64(done.Rejected))
	if done.Accepted == 0 {
		return taken{}, &problem{Status: http.StatusBadRequest, Title: "No event", why: "form", bad: done.Errors,
			Message: "Nothing was taken: errors tells of each event."}
	}
	return done, nil
}

// refuse tells of the records that Kafka does not take, for their size.
func (t *taken) refuse(p parcel, refused map[int]error) {
	if len(refused) == 0 {
		return
	}
	var errs []badEvent
	next := 0
	for i, at := range p.places {
		for next < len(t.Errors) && t.Errors[next].Index < at.Index {
			errs = append(errs, t.Errors[next])
			next++
		}
		if err := refused[i]; err != nil {
			at.Reason, at.Detail = event.ReasonTooLarge, err.Error()
			errs = append(errs, at)
			t.Accepted--
		}
	}
	t.Errors = append(errs, t.Errors[next:]...)
}

// retryAfter is how many whole seconds a wait takes, at least one.
func retryAfter(wait time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(wait.Seconds()))))
}
