package chdb

import (
	"errors"
	"runtime"
	"unsafe"
)

// Error is what the engine says about a statement that failed, "Code: 60. DB::Exception: ..." for nearly all.
type Error struct{ Text string }

func (e *Error) Error() string { return e.Text }

// Parameter is the value of {Name:Type} in a statement, escaped as in a tab-separated file.
type Parameter struct{ Name, Value string }

// Conn is a connection: its settings and its current database are its own. It serves one call at a time.
type Conn struct {
	library *Library
	handle  unsafe.Pointer
}

// Close ends the connection and whatever still runs on it. Closing the last one stops the engine.
func (c *Conn) Close() {
	if c.handle == nil {
		return
	}
	c.library.closeConn(c.handle)
	c.handle = nil
}

// engine is the handle that all functions but chdb_close_conn take.
func (c *Conn) engine() unsafe.Pointer { return *(*unsafe.Pointer)(c.handle) }

// Exec runs a statement and drops its answer.
func (c *Conn) Exec(sql string, parameters ...Parameter) error {
	_, err := c.Query(sql, "Null", parameters...)
	return err
}

// Query runs a statement and gives its whole answer, in the format that the statement or else the caller names.
func (c *Conn) Query(sql, format string, parameters ...Parameter) ([]byte, error) {
	return c.library.take(c.run(c.library.query, sql, format, parameters))
}

// run calls one of the functions that run a statement.
func (c *Conn) run(f runFunc, sql, format string, parameters []Parameter) unsafe.Pointer {
	p := pack(parameters)
	defer p.release()
	result := f(c.engine(), text(sql), uint64(len(sql)), text(format), uint64(len(format)),
		p.names, p.nameLens, p.values, p.valueLens, p.count)
	runtime.KeepAlive(sql)
	runtime.KeepAlive(format)
	return result
}

// Stream is the answer of a running statement, fetched part by part.
type Stream struct {
	conn   *Conn
	handle unsafe.Pointer
	part   unsafe.Pointer
}

// Stream starts a statement. The caller closes the stream before anything else is done on the connection.
func (c *Conn) Stream(sql, format string, parameters ...Parameter) (*Stream, error) {
	handle := c.run(c.library.streamQuery, sql, format, parameters)
	if handle == nil {
		return nil, &Error{"the engine gave no result"}
	}
	if message := c.library.resultError(handle); message != "" {
		c.library.resultDestroy(handle)
		return nil, &Error{message}
	}
	return &Stream{conn: c, handle: handle}, nil
}

// Next gives the next part of the answer, none at its end. The part is the engine's memory: it is valid until the
// next call on the stream.
func (s *Stream) Next() ([]byte, error) {
	s.drop()
	library := s.conn.library
	s.part = library.streamFetch(s.conn.engine(), s.handle)
	if s.part == nil {
		return nil, &Error{"the engine gave no result"}
	}
	if message := library.resultError(s.part); message != "" {
		return nil, &Error{message}
	}
	return unsafe.Slice((*byte)(library.resultBuffer(s.part)), library.resultLength(s.part)), nil
}

// Close cancels the statement if it still runs, and frees the answer.
func (s *Stream) Close() {
	if s.handle == nil {
		return
	}
	s.drop()
	s.conn.library.streamCancel(s.conn.engine(), s.handle)
	s.conn.library.resultDestroy(s.handle)
	s.handle = nil
}

func (s *Stream) drop() {
	if s.part != nil {
		s.conn.library.resultDestroy(s.part)
		s.part = nil
	}
}

// Insert is a running INSERT statement that waits for its data.
type Insert struct {
	library *Library
	handle  unsafe.Pointer
}

// Insert starts an INSERT statement that ends before its data and names no format.
func (c *Conn) Insert(sql, format string, parameters ...Parameter) (*Insert, error) {
	handle := c.run(c.library.streamInsert, sql, format, parameters)
	if handle == nil {
		return nil, &Error{"the engine gave no insert"}
	}
	insert := &Insert{library: c.library, handle: handle}
	if message := c.library.insertError(handle); message != "" {
		insert.Close()
		return nil, &Error{message}
	}
	return insert, nil
}

// Write hands over more data. It waits while the engine is behind, and copies what it takes.
func (i *Insert) Write(data []byte) (int, error) {
	if len(data) == 0 {
		return 0, nil
	}
	state := i.library.insertAppend(i.handle, unsafe.SliceData(data), uint64(len(data)))
	runtime.KeepAlive(data)
	if state == 0 {
		return len(data), nil
	}
	return 0, &Error{i.reason()}
}

// Finish ends the data and waits until the rows are in the table. It gives the number of rows written.
func (i *Insert) Finish() (rows uint64, err error) {
	result := i.library.insertDone(i.handle)
	if result != nil {
		rows = i.library.resultRowsWritten(result)
	}
	_, err = i.library.take(result)
	return rows, err
}

// Close ends the statement, and cancels it if it has not been finished.
func (i *Insert) Close() {
	if i.handle == nil {
		return
	}
	i.library.insertCancel(i.handle)
	i.library.insertDestroy(i.handle)
	i.handle = nil
}

func (i *Insert) reason() string {
	if message := i.library.insertError(i.handle); message != "" {
		return message
	}
	// The engine has stopped reading: only the end of the insert tells why.
	if _, err := i.Finish(); err != nil {
		return err.Error()
	}
	return "the engine takes no more data"
}

// take copies a result's answer and frees the result.
func (l *Library) take(result unsafe.Pointer) ([]byte, error) {
	if result == nil {
		return nil, errors.New("the engine gave no result")
	}
	defer l.resultDestroy(result)
	if message := l.resultError(result); message != "" {
		return nil, &Error{message}
	}
	length := l.resultLength(result)
	if length == 0 {
		return nil, nil
	}
	return append([]byte(nil), unsafe.Slice((*byte)(l.resultBuffer(result)), length)...), nil
}

// packed holds parameters as the parallel C arrays that the engine reads during the call.
type packed struct {
	names, nameLens, values, valueLens unsafe.Pointer
	count                              uint64
	pinner                             runtime.Pinner
}

func pack(parameters []Parameter) *packed {
	p := &packed{count: uint64(len(parameters))}
	if len(parameters) == 0 {
		return p
	}
	p.names, p.nameLens = p.column(parameters, func(x Parameter) string { return x.Name })
	p.values, p.valueLens = p.column(parameters, func(x Parameter) string { return x.Value })
	return p
}

func (p *packed) column(parameters []Parameter, of func(Parameter) string) (pointers, lengths unsafe.Pointer) {
	texts, sizes := make([]*byte, len(parameters)), make([]uint64, len(parameters))
	for i, parameter := range parameters {
		texts[i], sizes[i] = text(of(parameter)), uint64(len(of(parameter)))
		p.pinner.Pin(texts[i])
	}
	p.pinner.Pin(&texts[0])
	p.pinner.Pin(&sizes[0])
	return unsafe.Pointer(&texts[0]), unsafe.Pointer(&sizes[0])
}

func (p *packed) release() { p.pinner.Unpin() }

// text points at the bytes of s, and at something for an empty one: the engine refuses null.
func text(s string) *byte {
	if s == "" {
		return &empty
	}
	return unsafe.StringData(s)
}

var empty byte
