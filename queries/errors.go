package queries

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2"
)

const (
	codeUnknownTable    = 60
	codeUnknownDatabase = 81
)

// permanentCodes are ClickHouse's codes of errors that come again however often the request is: a column, table, type or
// database that is not there or does not fit, a setting that is unknown, a right or a password that is missing.
var permanentCodes = []int32{16, 47, 53, codeUnknownTable, codeUnknownDatabase, 115, 497, 516}

// Error is a request that failed at the server, or on the way to it.
type Error struct {
	Op        string // what was tried
	Code      int32  // ClickHouse's code; 0 when no answer came
	Err       error
	permanent bool
}

// Error says what was tried, and what came of it.
func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Op, e.Err) }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Permanent reports that the same request would fail again, so that a person has to act. The outcome of a request that
// failed otherwise is unknown, and it may be sent again.
func (e *Error) Permanent() bool { return e.permanent }

// classify wraps a request's error. A nil error stays nil.
func classify(op string, err error) error {
	if err == nil {
		return nil
	}
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err // without the address, which holds every parameter
	}
	var exception *clickhouse.Exception
	switch {
	case errors.As(err, &exception):
		return &Error{Op: op, Code: exception.Code, Err: err, permanent: slices.Contains(permanentCodes, exception.Code)}
	case errors.Is(err, clickhouse.ErrBatchInvalid):
		return &Error{Op: op, Err: err, permanent: !errors.Is(err, context.Canceled)}
	}
	return &Error{Op: op, Err: err}
}
