package web

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"
)

const (
	bodyLimit    = 64 << 10 // of what a request may send: a state, a name and a note; replays carry a record
	addressLimit = 32 << 10 // of a request's address: a business key, escaped
)

// contentPolicy lets a page load what this server serves and nothing else; scripts and styles in the page itself never
// run, whatever slips through the escaping.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard bounds and checks what comes in, and says in headers what the browser may do with what goes out.
func (s *Server) guard(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		header := c.Response().Header()
		header.Set("Content-Security-Policy", contentPolicy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Frame-Options", "DENY")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")

		r := c.Request()
		if !s.hosts.allows(r.Host) && !s.asksToken(c) { // a page of another site has no token
			return &problem{Status: http.StatusMisdirectedRequest, Title: "Not under this name",
				Message: "This server does not answer to the host name in the request. If it should, add the name to web.allowed_hosts."}
		}
		if len(r.RequestURI) > addressLimit {
			return &problem{Status: http.StatusRequestURITooLong, Title: "Too long", Message: "The address is longer than 32 KiB."}
		}
		if err := s.origins.Check(r); err != nil {
			return &problem{Status: http.StatusForbidden, Title: "Not from there",
				Message: "Another site asked the browser to change something here. Nothing was changed."}
		}
		if s.starting() && !asksNoStore(c.Path()) && !isIntake(c) {
			return &problem{Status: http.StatusServiceUnavailable, Title: "Starting",
				Message: "Waiting for ClickHouse, or bringing its tables up to date. Events wait in Kafka and nothing is lost; this page comes back by itself when it is done."}
		}
		limit := int64(bodyLimit)
		if strings.HasSuffix(c.Path(), "/rejects/:id/replay") {
			limit = replayBody
		}
		if isIntake(c) && s.intake != nil {
			limit = int64(s.intake.Config.MaxBytes)
		}
		r.Body = http.MaxBytesReader(c.Response(), r.Body, limit)
		return next(c)
	}
}

// starting reports whether the store can't be asked yet.
func (s *Server) starting() bool {
	if s.options.Prepared == nil {
		return false
	}
	select {
	case <-s.options.Prepared:
		return false
	default:
		return true
	}
}

// asksNoStore reports whether a route answers without the store.
func asksNoStore(route string) bool {
	switch route {
	case "/livez", "/readyz", "/metrics", "/debug/pprof/*", "/static/:file", "/theme":
		return true
	}
	return false
}

// hostGuard knows the names that this server answers to. A page of another site can have its own name resolve to this
// machine and so read what it must not (DNS rebinding); it cannot make the browser send another name than its own.
type hostGuard struct {
	any   bool
	names map[string]bool
}

func newHostGuard(config Config) hostGuard {
	g := hostGuard{names: map[string]bool{"localhost": true}}
	for _, name := range config.AllowedHosts {
		g.any = g.any || name == "*"
		g.names[strings.ToLower(name)] = true
	}
	if u, err := url.Parse(config.BaseURL); err == nil && u.Host != "" {
		g.names[strings.ToLower(u.Hostname())] = true
	}
	return g
}

// allows accepts known names and any address: an address in the Host header was typed as one, for rebinding needs a name.
func (g hostGuard) allows(host string) bool {
	if g.any {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return g.names[strings.TrimSuffix(host, ".")]
}
