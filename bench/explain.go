package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"auditor/rules"
)

// explain has the rules look at new events once more, by way of a proxy that notes what each statement reads. To ask the
// engine for its counters before and after each of them takes longer than most statements do, and so is no part of a tick
// that is measured.
func (r *rulesBench) explain(ctx context.Context) ([]statementCost, error) {
	socket := filepath.Join(r.dir, "explain.sock")
	p := &explainer{engine: r.engine, costs: map[string]*statementCost{}}
	stop, err := p.serve(socket)
	if err != nil {
		return nil, err
	}
	defer stop()
	store, err := openStore(socket, rulesDatabase)
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.Close() }()
	engine, err := rules.New(rules.DefaultConfig(), store, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		return nil, err
	}
	if _, err := engine.Look(ctx, r.shape.now); err != nil { // the first look of an engine is none like the others
		return nil, err
	}
	if err := r.settleIn(ctx, engine); err != nil {
		return nil, err
	}
	for range 2 { // the second finds what the first has left, like any other
		clear(p.costs)
		if _, err := r.tick(ctx, engine); err != nil {
			return nil, err
		}
	}
	var costs []statementCost
	for _, c := range p.costs {
		costs = append(costs, *c)
	}
	slices.SortFunc(costs, func(a, b statementCost) int { return int(b.cpu - a.cpu) })
	return costs, nil
}

// explainer hands statements on to the engine, one at a time, and adds up what each of them read by its name.
type explainer struct {
	engine *engine
	mutex  sync.Mutex
	costs  map[string]*statementCost
}

func (p *explainer) serve(socket string) (stop func(), err error) {
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("listen for statements: %w", err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "engine"})
	proxy.Transport = p.engine.client.Transport
	proxy.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		p.mutex.Lock()
		defer p.mutex.Unlock()
		before, err := p.counters(request.Context())
		begun := time.Now()
		proxy.ServeHTTP(w, request)
		took := time.Since(begun)
		after, err2 := p.counters(request.Context())
		if errors.Join(err, err2) == nil {
			p.note(statementName(request), took, before, after)
		}
	})}
	done := make(chan struct{})
	go func() { _ = server.Serve(listener); close(done) }()
	return func() { _ = server.Close(); <-done }, nil
}

// statementName is what the store calls the statement of a request.
func statementName(request *http.Request) string {
	if name, ok := strings.CutPrefix(request.URL.Query().Get("log_comment"), "auditor "); ok {
		return name
	}
	return "others"
}

func (p *explainer) counters(ctx context.Context) (c [4]int, err error) {
	rows, err := p.engine.ask(ctx, "default", "SELECT sumIf(value, event = 'SelectedRows'), sumIf(value, event = 'SelectedParts'), "+
		"sumIf(value, event = 'SelectedMarks'), sumIf(value, event = 'OSCPUVirtualTimeMicroseconds') FROM system.events", nil, nil)
	if err != nil {
		return c, err
	}
	_, err = fmt.Sscan(strings.Join(rows[0], " "), &c[0], &c[1], &c[2], &c[3])
	return c, err
}

func (p *explainer) note(name string, took time.Duration, before, after [4]int) {
	c := p.costs[name]
	if c == nil {
		c = &statementCost{name: name}
		p.costs[name] = c
	}
	c.calls++
	c.time += took
	c.rows += after[0] - before[0]
	c.parts += after[1] - before[1]
	c.marks += after[2] - before[2]
	c.cpu += time.Duration(after[3]-before[3]) * time.Microsecond
}
