package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// storeProxy stands between one ingester and the engine's HTTP interface, and lets requests meet with mishaps.
type storeProxy struct {
	traps
	link
	addr    string // where it listens
	engine  string // what it leads to
	client  *http.Client
	late    sync.WaitGroup // requests that are passed on later
	starved atomic.Int64   // requests for which there was no memory

	mu     sync.Mutex
	server *http.Server // nil while connections are refused
}

func newStoreProxy(who int, engine string) (*storeProxy, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p := &storeProxy{traps: traps{who: who}, addr: addr, engine: engine, client: &http.Client{Transport: &http.Transport{DisableCompression: true}}}
	return p, p.open()
}

// open accepts connections, until shut.
func (p *storeProxy) open() error {
	l, err := net.Listen("tcp", p.addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute, MaxHeaderBytes: 16 << 20}
	p.mu.Lock()
	p.server = server
	p.mu.Unlock()
	go server.Serve(l)
	return nil
}

// shut cuts all connections and refuses new ones, until open.
func (p *storeProxy) shut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.server != nil {
		p.server.Close()
		p.server = nil
	}
}

var insertInto = regexp.MustCompile(`(?i)INSERT\s+INTO\s+(\w+)`)

// describe says what a request asks for: "insert TABLE", or "read".
func describe(r *http.Request, body []byte) string {
	text := r.URL.Query().Get("query")
	if text == "" {
		text = string(body[:min(len(body), 4<<10)])
	}
	if m := insertInto.FindStringSubmatch(text); m != nil {
		return "insert " + m[1]
	}
	return "read"
}

func isInsert(request string) bool { return strings.HasPrefix(request, "insert ") }

// insertOf matches the inserts into one table.
func insertOf(table string) func(string) bool {
	return func(request string) bool { return request == "insert "+table }
}

func (p *storeProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		cut(w)
		return
	}
	time.Sleep(p.delay())
	request := describe(r, body)
	trap := p.befall(request)
	if trap == nil && isInsert(request) && p.starves() {
		p.noMemory(w, r, body)
		return
	}
	if trap == nil {
		p.pass(w, r, body)
		return
	}
	switch trap.mishap {
	case lostAnswer:
		p.passUnseen(r, body)
		cut(w)
	case appliedLate:
		p.late.Go(func() {
			trap.wait()
			p.passUnseen(r, body)
		})
		cut(w)
	case heldUp:
		p.late.Add(1)
		defer p.late.Done()
		trap.wait()
		p.answer(w, p.passUnseen(r, body))
	case cutShort:
		request := p.request(context.Background(), r, io.MultiReader(bytes.NewReader(body[:len(body)/2]), broken{}))
		request.ContentLength = int64(len(body))
		if response, err := p.client.Do(request); err == nil {
			response.Body.Close()
		}
		cut(w)
	}
}

// pass passes a request on, for as long as the client waits for its answer.
func (p *storeProxy) pass(w http.ResponseWriter, r *http.Request, body []byte) {
	response, err := p.client.Do(p.request(r.Context(), r, bytes.NewReader(body)))
	if err != nil {
		cut(w)
		return
	}
	defer response.Body.Close()
	copyHeader(w, response)
	if _, err := io.Copy(w, response.Body); err != nil {
		cut(w)
	}
}

// noMemory answers as an engine that has run out of memory: before it did anything or, every other time, after it has
// stored what was sent, as when a view fails behind its table.
func (p *storeProxy) noMemory(w http.ResponseWriter, r *http.Request, body []byte) {
	if p.starved.Add(1)%2 == 0 {
		p.passUnseen(r, body)
	}
	w.Header().Set("X-ClickHouse-Exception-Code", "241")
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = io.WriteString(w, "Code: 241. DB::Exception: Memory limit (total) exceeded. (MEMORY_LIMIT_EXCEEDED)\n")
}

// reply is a whole answer, nil where none came.
type reply struct {
	*http.Response
	body []byte
}

// passUnseen passes a request on whether or not anybody still waits for its answer.
func (p *storeProxy) passUnseen(r *http.Request, body []byte) *reply {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	response, err := p.client.Do(p.request(ctx, r, bytes.NewReader(body)))
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil
	}
	return &reply{response, text}
}

func (p *storeProxy) answer(w http.ResponseWriter, answer *reply) {
	if answer == nil {
		cut(w)
		return
	}
	copyHeader(w, answer.Response)
	_, _ = w.Write(answer.body) // the client may have gone
}

func copyHeader(w http.ResponseWriter, response *http.Response) {
	for name, values := range response.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(response.StatusCode)
}

// request is the same request to the engine.
func (p *storeProxy) request(ctx context.Context, r *http.Request, body io.Reader) *http.Request {
	request := r.Clone(ctx)
	request.URL.Scheme, request.URL.Host = "http", p.engine
	request.RequestURI = ""
	request.Body = io.NopCloser(body)
	request.ContentLength = -1
	if whole, ok := body.(*bytes.Reader); ok {
		request.ContentLength = int64(whole.Len())
	}
	request.TransferEncoding = nil
	return request
}

// cut ends the client's connection without a word.
func cut(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // an answer was begun: this cuts it off
	}
	reset(conn)
}

// reset closes a connection as one is that breaks: what was on its way is lost.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // it is closed all the same
	}
	_ = conn.Close()
}

// broken is the rest of a request that never comes.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("cut in the middle") }
