package queries

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/ClickHouse/clickhouse-go/v2"

	"auditor/event"
)

// insertEvents writes events as one block, as insert does.
func (s *Store) insertEvents(ctx context.Context, token string, events []event.Event) error {
	if len(events) == 0 {
		return nil
	}
	if s.options.Protocol != clickhouse.HTTP {
		return s.insert(ctx, "events", token, eventBlock(events))
	}
	return s.insertEncoded(ctx, "events", token, insertEventsText, eventParts(events))
}

// insertRejects writes rejects as one block, as insert does.
func (s *Store) insertRejects(ctx context.Context, token string, rejects []event.Reject) error {
	if len(rejects) == 0 {
		return nil
	}
	if s.options.Protocol != clickhouse.HTTP {
		return s.insert(ctx, "rejects", token, rejectBlock(rejects))
	}
	return s.insertEncoded(ctx, "rejects", token, insertRejectsText, rejectParts(rejects))
}

// insertEncoded writes one block that is encoded here, while it is sent. The client would encode all of it first, and keep its
// memory with the connection for as long as that lives.
func (s *Store) insertEncoded(ctx context.Context, table, token, text string, parts []piece) error {
	op := "insert into " + table
	ctx, cancel := context.WithTimeout(ctx, s.config.InsertTimeout)
	defer cancel()
	x := encoders.Get().(*encoder)
	defer func() {
		if x.reset(); cap(x.buf) <= largestKept {
			encoders.Put(x)
		}
	}()
	block := &blockBody{x: x, parts: parts}
	defer block.end()
	ctx = clickhouse.Context(context.WithValue(ctx, blockKey{}, block),
		clickhouse.WithSettings(s.insertSettings(op, token)), clickhouse.WithColumnNamesAndTypes(standIn))
	batch, err := s.conn.PrepareBatch(ctx, text)
	if err != nil {
		return classify(op, err)
	}
	if err := batch.Append(true); err != nil {
		return classify(op, err)
	}
	return classify(op, batch.Send())
}

var encoders = sync.Pool{New: func() any { return new(encoder) }}

// largestKept bounds the memory that an encoder keeps for the next column, in bytes.
const largestKept = 8 << 20

// These name the columns in the order in which an encoder writes them.
var (
	insertEventsText  = insertText("events", pluck(eventColumns, func(c *column) string { return c.name }))
	insertRejectsText = insertText("rejects", pluck(rejectColumns, func(c *rejectColumn) string { return c.name }))
)

const insertPrefix = "INSERT INTO "

func insertText(table string, columns []string) string {
	return insertPrefix + table + " (" + strings.Join(columns, ", ") + ")"
}

// blockKey is the key of a context's value: a block in Native format that takes the place of the body of the request.
type blockKey struct{}

// blockBody is such a block, as a body.
type blockBody struct {
	mu    sync.Mutex
	x     *encoder
	parts []piece // that are not encoded yet
	rest  []byte  // of the last one that was
	ended bool
}

var errBlockEnded = errors.New("the insert has ended")

// Read fails once the block has ended, so that the request does: one that failed may still be being sent, while its memory
// holds another block.
func (b *blockBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return 0, errBlockEnded
	}
	for len(b.rest) == 0 {
		if len(b.parts) == 0 {
			return 0, io.EOF
		}
		b.x.reset()
		b.parts[0](b.x)
		b.rest, b.parts = b.x.buf, b.parts[1:]
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// Close leaves the rest unread.
func (b *blockBody) Close() error {
	b.end()
	return nil
}

func (b *blockBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest, b.parts, b.ended = nil, nil, true
}

// standIn is the block that the client is told to send where another one will take its place.
var standIn = []clickhouse.ColumnNameAndType{{Name: "x", Type: "Bool"}}

// blockTransport sends the encoded block that a request's context carries. The client has no way to be handed one, but knows
// how to reach the server, who to be there, and what its errors mean.
type blockTransport struct {
	http.RoundTripper
	idle interface{ CloseIdleConnections() }
}

// CloseIdleConnections closes the connections that no request uses.
func (t blockTransport) CloseIdleConnections() { t.idle.CloseIdleConnections() }

func (t blockTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	block, ok := r.Context().Value(blockKey{}).(*blockBody)
	if !ok || !strings.HasPrefix(r.URL.Query().Get("query"), insertPrefix) { // a new connection asks who the server is, first
		return t.RoundTripper.RoundTrip(r)
	}
	if r.Body != nil { // a goroutine of the client's writes it, and is through with the connection's memory once all is read
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = block, -1 // how long it will be is not known
	return t.RoundTripper.RoundTrip(r)
}
