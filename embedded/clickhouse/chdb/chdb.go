// Package chdb calls libchdb, the ClickHouse engine as a shared library, without cgo.
//
// A process holds one engine, on one data directory. The engine starts with the first connection and ends with the
// last, so a program keeps one open for as long as it wants the engine. Connections may be used side by side; one
// connection serves one call at a time. A connection whose statement failed half-way can hand that statement's output
// to the next one: close it and open another.
//
// The engine may end the process when its own memory is damaged, and it takes hundreds of megabytes: run it in a
// process of its own.
package chdb

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// runFunc is the form of the functions that run a statement with parameters.
type runFunc = func(conn unsafe.Pointer, sql *byte, sqlLen uint64, format *byte, formatLen uint64, names, nameLens, values, valueLens unsafe.Pointer, count uint64) unsafe.Pointer

// Library is a loaded libchdb. Its methods may be called from any goroutine.
type Library struct {
	connect           func(argc int32, argv unsafe.Pointer) unsafe.Pointer
	closeConn         func(conn unsafe.Pointer)
	query             runFunc
	streamQuery       runFunc
	streamFetch       func(conn, stream unsafe.Pointer) unsafe.Pointer
	streamCancel      func(conn, stream unsafe.Pointer)
	streamInsert      runFunc
	insertAppend      func(stream unsafe.Pointer, data *byte, length uint64) int32
	insertDone        func(stream unsafe.Pointer) unsafe.Pointer
	insertCancel      func(stream unsafe.Pointer)
	insertError       func(stream unsafe.Pointer) string
	insertDestroy     func(stream unsafe.Pointer)
	resultError       func(result unsafe.Pointer) string
	resultBuffer      func(result unsafe.Pointer) unsafe.Pointer
	resultLength      func(result unsafe.Pointer) uint64
	resultRowsWritten func(result unsafe.Pointer) uint64
	resultDestroy     func(result unsafe.Pointer)
	signalHandlers    func(enabled int32)
	version           func() string

	connecting sync.Mutex
	started    bool
	arguments  arguments
}

// Open loads the library at path. The engine does not start yet.
func Open(path string) (library *Library, err error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", path, err)
	}
	l := &Library{}
	for name, function := range map[string]any{
		"chdb_connect":                     &l.connect,
		"chdb_close_conn":                  &l.closeConn,
		"chdb_query_with_params_n":         &l.query,
		"chdb_stream_query_with_params_n":  &l.streamQuery,
		"chdb_stream_fetch_result":         &l.streamFetch,
		"chdb_stream_cancel_query":         &l.streamCancel,
		"chdb_stream_insert_with_params_n": &l.streamInsert,
		"chdb_stream_append":               &l.insertAppend,
		"chdb_stream_done":                 &l.insertDone,
		"chdb_stream_cancel_insert":        &l.insertCancel,
		"chdb_stream_insert_error":         &l.insertError,
		"chdb_destroy_insert_stream":       &l.insertDestroy,
		"chdb_result_error":                &l.resultError,
		"chdb_result_buffer":               &l.resultBuffer,
		"chdb_result_length":               &l.resultLength,
		"chdb_result_rows_written":         &l.resultRowsWritten,
		"chdb_destroy_query_result":        &l.resultDestroy,
		"chdb_set_signal_handlers_enabled": &l.signalHandlers,
		"chdb_version":                     &l.version,
	} {
		symbol, err := purego.Dlsym(handle, name)
		if err != nil {
			return nil, fmt.Errorf("%s is no libchdb of 26.7 or later: %w", path, err)
		}
		purego.RegisterFunc(function, symbol)
	}
	return l, nil
}

// Version of the library.
func (l *Library) Version() string { return l.version() }

// Start opens the connection that starts the engine and keeps it for as long as it is open. The options are those of
// clickhouse-local, such as "--path=DIR". The reason of a failure goes to the process's standard error.
func (l *Library) Start(options ...string) (*Conn, error) {
	l.connecting.Lock()
	defer l.connecting.Unlock()
	if l.started {
		return nil, errors.New("start the engine: it is started already")
	}
	l.arguments = newArguments(append([]string{"clickhouse"}, options...))
	restore := keepSignalHandlers()
	l.signalHandlers(0)
	conn, err := l.open()
	// From here on the engine installs no handlers, with the flag set it would only put the process's own back to
	// their defaults at every connection: a nil dereference would end the process without a trace.
	l.signalHandlers(1)
	restore()
	if err != nil {
		return nil, fmt.Errorf("start the engine: %w", err)
	}
	l.started = true
	return conn, nil
}

// Connect opens one more connection to the engine that Start started.
func (l *Library) Connect() (*Conn, error) { return l.open() }

func (l *Library) open() (*Conn, error) {
	handle := l.connect(int32(len(l.arguments.pointers)), unsafe.Pointer(unsafe.SliceData(l.arguments.pointers)))
	if handle == nil {
		return nil, errors.New("the engine refused the connection")
	}
	return &Conn{library: l, handle: handle}, nil
}

// arguments is a C argv that lives as long as the process: the engine may keep pointers into it.
type arguments struct {
	texts    [][]byte
	pointers []*byte
	pinner   runtime.Pinner
}

func newArguments(texts []string) arguments {
	var a arguments
	for _, text := range texts {
		c := append([]byte(text), 0)
		a.pinner.Pin(&c[0])
		a.texts = append(a.texts, c)
		a.pointers = append(a.pointers, &c[0])
	}
	a.pinner.Pin(&a.pointers[0])
	return a
}
