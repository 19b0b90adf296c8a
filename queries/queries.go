// Package queries holds every line of SQL that the auditor runs, and the Store that runs it on ClickHouse.
//
// # Statements
//
// Each statement is a file, embedded and checked when the store is opened: store/ is what the store itself needs, rules/
// what the rules ask, web/ what the pages ask; schema/ holds the migrations. Values reach ClickHouse as bound parameters
// ({name:Type}) and never as text of a statement. See statement for the form of a file.
//
// # Writing events
//
// InsertBatch may be called again with the same batch, whatever became of the first call: ClickHouse drops a block whose
// token it knows, and rows that come twice all the same replace each other, for they are identified by their place in
// Kafka. Queries that count rows therefore read with FINAL, or count distinct identities.
//
// # Findings
//
// The rules grow a finding while a person acknowledges it, from another process, and neither may lose what the other did.
// So they write to different tables: the rules the newest version of what they know, both the log of changes of state,
// to which rows are only added. A finding's state follows from its log, see the view finding_states.
//
// # Times
//
// A time that was not told is stored as the epoch and read back as the zero time. Times that ClickHouse cannot hold are
// moved to the nearest one that it can.
//
// All methods of Store may be called at the same time from many goroutines.
package queries

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Options are what a store needs beside its configuration.
type Options struct {
	// DialContext reaches the embedded engine. When set, the store speaks HTTP over these connections, whatever
	// Config.Addresses and Config.Protocol say.
	DialContext func(ctx context.Context, addr string) (net.Conn, error)
	Logger      *slog.Logger // nil: silent
}

// Store runs the statements on one ClickHouse.
type Store struct {
	config     Config
	options    *clickhouse.Options // to connect without the database, which may not exist yet
	conn       driver.Conn
	log        *slog.Logger
	statements map[string]*statement
	layout     layout
	doubts     doubts
	settling   settling
	asOf       time.Time // zero: now; see AsOf
}

// Open prepares a store. It does not connect, so that the server may be away: the first request connects, and Wait waits
// until one would succeed. The caller closes the store.
func Open(config Config, opts Options) (*Store, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	layout := newLayout(config)
	statements, err := layout.loadStatements()
	if err != nil {
		return nil, err
	}
	log := opts.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	options, err := clientOptions(config, layout, opts)
	if err != nil {
		return nil, err
	}
	conn, err := clickhouse.Open(options)
	if err != nil {
		return nil, fmt.Errorf("open clickhouse: %w", err)
	}
	return &Store{config: config, options: options, conn: conn, log: log, statements: statements, layout: layout}, nil
}

func clientOptions(config Config, layout layout, opts Options) (*clickhouse.Options, error) {
	password, err := config.Password.Or(config.PasswordFile)
	if err != nil {
		return nil, fmt.Errorf("clickhouse.%w", err)
	}
	o := &clickhouse.Options{
		Addr:            config.Addresses,
		Auth:            clickhouse.Auth{Database: config.Database, Username: config.Username, Password: password},
		DialTimeout:     config.DialTimeout,
		ReadTimeout:     max(config.QueryTimeout, config.InsertTimeout),
		MaxOpenConns:    config.MaxConnections,
		MaxIdleConns:    config.MaxConnections,
		ConnMaxLifetime: time.Hour,
		Compression:     &clickhouse.Compression{Method: clickhouse.CompressionLZ4},
		// A connection would keep the memory of the largest block that it ever sent.
		FreeBufOnConnRelease: true,
		Settings:             layout.sessionSettings(),
		DialStrategy:         newAddresses(config.AddressOrder).dial,
	}
	o.ClientInfo.Products = append(o.ClientInfo.Products, struct{ Name, Version string }{"auditor", ""})
	if opts.DialContext != nil || config.Protocol == HTTP {
		o.Protocol = clickhouse.HTTP
		o.Compression = nil
		o.TransportFunc = func(t *http.Transport) (http.RoundTripper, error) { return blockTransport{t, t}, nil }
	}
	if opts.DialContext != nil {
		o.Addr = []string{"localhost"} // never looked up; a name that no proxy setting applies to
		o.DialContext = opts.DialContext
		return o, nil
	}
	if o.TLS, err = config.TLS.Load(); err != nil {
		return nil, fmt.Errorf("clickhouse.%w", err)
	}
	return o, nil
}

// Close closes the connections. Requests under way fail.
func (s *Store) Close() error { return s.conn.Close() }

// Database is the name of the database that the store's tables are in.
func (s *Store) Database() string { return s.config.Database }

// Ping asks the server for a sign of life. It fails while the database does not exist.
func (s *Store) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.DialTimeout)
	defer cancel()
	return classify("ping clickhouse", s.conn.Ping(ctx))
}

// Wait blocks until the server answers, be it that the database does not exist yet, or until ctx is over. It logs what
// it waits for once. An error that no waiting mends, such as a wrong password, is returned at once.
func (s *Store) Wait(ctx context.Context) error {
	const longest = 5 * time.Second
	var reason error // of the last failure that the end of ctx did not cause
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, longest) {
		err := s.Ping(ctx)
		var e *Error
		switch {
		case err == nil, errors.As(err, &e) && e.Code == codeUnknownDatabase:
			return nil
		case errors.As(err, &e) && e.Permanent():
			return err
		case ctx.Err() != nil:
			return waited(ctx, reason)
		case reason == nil:
			s.log.Warn("waiting for clickhouse", "error", err)
		}
		reason = err
		select {
		case <-ctx.Done():
			return waited(ctx, reason)
		case <-time.After(pause):
		}
	}
}

func waited(ctx context.Context, reason error) error {
	if reason == nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", ctx.Err(), reason)
}
