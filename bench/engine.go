package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"auditor/embedded/clickhouse"
)

// engine is the embedded ClickHouse, in a process of its own, and how to ask it.
type engine struct {
	*clickhouse.Engine
	client *http.Client
}

func startEngine(ctx context.Context, data string, memory int64) (*engine, error) {
	process, err := clickhouse.Start(ctx, clickhouse.Config{Data: data, Memory: memory})
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return process.Dial(ctx) },
		MaxIdleConnsPerHost: 16,
	}
	return &engine{process, &http.Client{Transport: transport, Timeout: 5 * time.Minute}}, nil
}

func (e *engine) close(ctx context.Context) error {
	e.client.CloseIdleConnections()
	return e.Stop(ctx)
}

// ask runs a statement in a database and gives the rows of its answer, split into fields. Data of an insert follow it.
func (e *engine) ask(ctx context.Context, database, sql string, data io.Reader, settings url.Values) ([][]string, error) {
	var text strings.Builder
	if err := e.run(ctx, database, sql, data, settings, &text); err != nil {
		return nil, err
	}
	var rows [][]string
	for line := range strings.Lines(text.String()) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return rows, nil
}

func (e *engine) exec(ctx context.Context, database, sql string) error {
	return e.run(ctx, database, sql, nil, nil, io.Discard)
}

// run runs a statement and writes its answer to w as it is.
func (e *engine) run(ctx context.Context, database, sql string, data io.Reader, settings url.Values, w io.Writer) error {
	values := url.Values{"database": {database}, "query": {sql}}
	for name, value := range settings {
		values[name] = value
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://engine/?"+values.Encode(), data)
	if err != nil {
		return err
	}
	response, err := e.client.Do(request)
	if err != nil {
		return fmt.Errorf("ask the engine: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("the engine refuses %.60q: %s", sql, strings.TrimSpace(string(text)))
	}
	_, err = io.Copy(w, response.Body)
	return err
}
