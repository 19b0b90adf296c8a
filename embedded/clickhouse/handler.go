package clickhouse

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"auditor/embedded/clickhouse/chdb"
	"auditor/internal/access"
)

const (
	// maxRunning bounds how many statements run side by side. Each holds a thread.
	maxRunning = 24
	// maxWait bounds how long a request waits for its turn.
	maxWait = 30 * time.Second
	// killInterval is how often a statement that nobody waits for is told to stop: it may not have begun yet.
	killInterval = 50 * time.Millisecond
)

// A handler serves the ClickHouse HTTP interface. Each request has a connection to the engine of its own, for settings
// stay with a connection, and so does the output of a statement that failed half-way.
type handler struct {
	library  *chdb.Library
	logger   *slog.Logger
	version  string
	timezone string
	running  chan struct{}
}

func newHandler(library *chdb.Library, engine *chdb.Conn, logger *slog.Logger) (*handler, error) {
	facts, err := engine.Query("SELECT version(), timezone()", "TabSeparatedRaw")
	if err != nil {
		return nil, fmt.Errorf("ask the engine for its version: %w", err)
	}
	version, timezone, _ := strings.Cut(strings.TrimSpace(string(facts)), "\t")
	return &handler{library: library, logger: logger, version: version, timezone: timezone,
		running: make(chan struct{}, maxRunning)}, nil
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case r.URL.Path == "/ping":
		w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
		_, _ = io.WriteString(w, "Ok.\n")
	case r.URL.Path != "/":
		http.Error(w, "there is / and /ping", http.StatusNotFound)
	case r.Method != http.MethodGet && r.Method != http.MethodPost:
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "a query is sent with GET or POST", http.StatusMethodNotAllowed)
	default:
		answer := &answer{w: w, tag: newExceptionTag()}
		if err := h.serve(answer, r); err != nil {
			answer.fail(err)
		}
	}
}

func (h *handler) serve(answer *answer, r *http.Request) error {
	request, err := readRequest(answer.w, r)
	if err != nil {
		return err
	}
	mark := rand.Text()
	if request.queryID == "" {
		request.queryID = mark
	}
	answer.begin(request, h)
	if request.revision != "" && request.format == "Native" && strings.TrimSpace(request.sql) == handshakeQuery {
		return answer.write(answerHandshake(request.revision, "auditor-embedded", h.version, h.timezone))
	}
	if request.comment != "" {
		mark += " " + request.comment
	}
	if err := h.turn(r.Context()); err != nil {
		return err
	}
	defer func() { <-h.running }()
	conn, err := h.library.Connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, sql := range request.preamble(mark) {
		if err := conn.Exec(sql); err != nil {
			return err
		}
	}
	defer h.killWhenGone(r.Context(), mark)()
	return run(conn, request, answer)
}

// turn waits until one more statement may run.
func (h *handler) turn(ctx context.Context) error {
	limit := time.NewTimer(maxWait)
	defer limit.Stop()
	select {
	case h.running <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-limit.C:
		return &exception{202, "TOO_MANY_SIMULTANEOUS_QUERIES", fmt.Sprintf("%d queries run already", maxRunning)}
	}
}

// killWhenGone stops the marked statement once the client has gone, until the function that it gives is called.
func (h *handler) killWhenGone(ctx context.Context, mark string) (done func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		for {
			h.kill(mark)
			select {
			case <-over:
				return
			case <-time.After(killInterval):
			}
		}
	})
	return func() {
		close(over)
		if !stop() {
			<-ended
		}
	}
}

func (h *handler) kill(mark string) {
	conn, err := h.library.Connect()
	if err != nil {
		h.logger.Warn("query not killed", "error", err)
		return
	}
	defer conn.Close()
	if err := conn.Exec("KILL QUERY WHERE Settings['log_comment'] = " + quote(mark) + " ASYNC"); err != nil {
		h.logger.Warn("query not killed", "error", err)
	}
}

// run runs the statement and answers with what it gives.
func run(conn *chdb.Conn, request *request, answer *answer) error {
	switch request.kind {
	case insert:
		return runInsert(conn, request, answer)
	case read:
		return runRead(conn, request, answer)
	default:
		output, err := conn.Query(request.sql, request.format, request.parameters...)
		if err != nil {
			return err
		}
		return answer.write(output)
	}
}

func runRead(conn *chdb.Conn, request *request, answer *answer) error {
	stream, err := conn.Stream(request.sql, request.format, request.parameters...)
	if err != nil {
		return err
	}
	defer stream.Close()
	for {
		part, err := stream.Next()
		if err != nil || len(part) == 0 {
			return err
		}
		if err := answer.write(part); err != nil {
			return err
		}
	}
}

func runInsert(conn *chdb.Conn, request *request, answer *answer) error {
	format := request.statement.format
	if format == "" {
		format = request.format
	}
	insert, err := conn.Insert(request.sql, format, request.parameters...)
	if err != nil {
		return err
	}
	defer insert.Close()
	// A client that fails to encode its block may send none and take success for an answer.
	taken, err := io.Copy(insert, io.MultiReader(strings.NewReader(request.data), request.body))
	if err != nil {
		return err
	}
	if taken == 0 {
		return &exception{108, "NO_DATA_TO_INSERT", "No data to insert"}
	}
	rows, err := insert.Finish()
	if err != nil {
		return err
	}
	answer.w.Header().Set("X-ClickHouse-Summary", fmt.Sprintf(`{"written_rows":"%d"}`, rows))
	return answer.write(nil)
}

// An answer is the response to one request. Until something has been written an error is still a status.
type answer struct {
	w       http.ResponseWriter
	tag     string
	started bool
}

func (a *answer) begin(request *request, h *handler) {
	header := a.w.Header()
	header.Set("Content-Type", "application/octet-stream")
	if strings.HasPrefix(request.format, "TabSeparated") || strings.HasPrefix(request.format, "TSV") {
		header.Set("Content-Type", "text/tab-separated-values; charset=UTF-8")
	}
	header.Set("X-ClickHouse-Query-Id", strings.Map(printable, request.queryID))
	header.Set("X-ClickHouse-Timezone", h.timezone)
	header.Set("X-ClickHouse-Exception-Tag", a.tag)
}

func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return '?'
	}
	return r
}

func (a *answer) write(part []byte) error {
	a.started = a.started || len(part) > 0
	_, err := a.w.Write(part)
	return err
}

func (a *answer) fail(err error) {
	code, text := asException(err)
	if a.started {
		_, _ = io.WriteString(a.w, exceptionFrame(a.tag, text))
		return
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		code, text = 307, (&exception{307, "TOO_MANY_BYTES", fmt.Sprintf("a request may carry %d bytes", maxBody)}).Error()
	}
	a.w.Header().Set("Content-Type", "text/plain; charset=UTF-8")
	a.w.Header().Set("X-ClickHouse-Exception-Code", strconv.Itoa(code))
	a.w.WriteHeader(status(code))
	_, _ = io.WriteString(a.w, text+"\n")
}

// guard asks whoever does not come through the socket for the password, by any of the ways in which ClickHouse takes
// one.
func guard(password access.Secret, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if local != nil && local.Network() == "unix" || allowed(r, password) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="auditor"`)
		w.Header().Set("X-ClickHouse-Exception-Code", "516")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, errPassword.Error()+"\n")
	})
}

var errPassword = &exception{516, "AUTHENTICATION_FAILED", "Authentication failed: the password is incorrect"}

func allowed(r *http.Request, password access.Secret) bool {
	given := r.Header.Get("X-ClickHouse-Key")
	if _, basic, ok := r.BasicAuth(); ok {
		given = basic
	} else if query := r.URL.Query(); query.Has("password") {
		given = query.Get("password")
	}
	return password != "" && subtle.ConstantTimeCompare([]byte(given), []byte(password)) == 1
}
