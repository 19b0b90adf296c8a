package web

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// unused is a store that no test asks.
type unused struct{ Store }

// Every call is in the documentation, and every call in the documentation exists.
func TestDocumentation(t *testing.T) {
	server, err := New(DefaultConfig(), unused{}, Options{Gatherer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	api, pages := read(t, "../docs/api.md"), read(t, "../docs/dashboard.md")
	routes := map[string]bool{}
	for _, r := range server.echo.Routes() {
		path := regexp.MustCompile(`:([a-z]+)`).ReplaceAllString(r.Path, "{$1}")
		call := r.Method + " " + path
		routes[call] = true
		switch {
		case strings.HasSuffix(path, "*"), strings.HasPrefix(path, "/static"), r.Method == "echo_route_not_found", r.Method == "HEAD":
		case strings.HasPrefix(path, "/api/"), strings.HasSuffix(path, "z"), path == "/metrics":
			if !strings.Contains(api, call) {
				t.Errorf("docs/api.md does not tell of %s", call)
			}
		case r.Method == "GET" && !strings.Contains(pages, "`"+strings.NewReplacer("{id}", "ID", "{task}", "TASK").Replace(path)):
			t.Errorf("docs/dashboard.md does not tell of %s", path)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^## ((?:GET|POST) [^ ?\n]+)`).FindAllStringSubmatch(api, -1) {
		if !routes[m[1]] {
			t.Errorf("docs/api.md tells of %s, which is not there", m[1])
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
