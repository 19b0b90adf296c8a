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

// contentCodes are those of a value that cannot be stored: it breaks a constraint that somebody put on the table, or makes a
// materialized view or a default fail. The same block is refused however often it is sent, and another may not be.
var contentCodes = map[int32]string{
	6:   "CANNOT_PARSE_TEXT",
	26:  "CANNOT_PARSE_QUOTED_STRING",
	27:  "CANNOT_PARSE_INPUT_ASSERTION_FAILED",
	38:  "CANNOT_PARSE_DATE",
	41:  "CANNOT_PARSE_DATETIME",
	69:  "ARGUMENT_OUT_OF_BOUND",
	70:  "CANNOT_CONVERT_TYPE",
	72:  "CANNOT_PARSE_NUMBER",
	117: "INCORRECT_DATA",
	128: "TOO_LARGE_ARRAY_SIZE",
	131: "TOO_LARGE_STRING_SIZE",
	153: "ILLEGAL_DIVISION",
	190: "SIZES_OF_ARRAYS_DONT_MATCH",
	321: "VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE",
	349: "CANNOT_INSERT_NULL_IN_ORDINARY_COLUMN",
	376: "CANNOT_PARSE_UUID",
	395: "FUNCTION_THROW_IF_VALUE_IS_NON_ZERO",
	407: "DECIMAL_OVERFLOW",
	467: "CANNOT_PARSE_BOOL",
	469: "VIOLATED_CONSTRAINT",
	675: "CANNOT_PARSE_IPV4",
	676: "CANNOT_PARSE_IPV6",
	691: "UNKNOWN_ELEMENT_OF_ENUM",
}

// sizeCodes are those of a request that asked too much of the server at once.
var sizeCodes = map[int32]string{
	158: "TOO_MANY_ROWS",
	159: "TIMEOUT_EXCEEDED",
	160: "TOO_SLOW",
	173: "CANNOT_ALLOCATE_MEMORY",
	241: "MEMORY_LIMIT_EXCEEDED",
	290: "LIMIT_EXCEEDED",
	307: "TOO_MANY_BYTES",
	396: "TOO_MANY_ROWS_OR_BYTES",
}

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

// OfContent reports that the server answered that it cannot store something in the block. Nothing of the request is under
// way any more, though some of it may be stored.
func (e *Error) OfContent() bool { return contentCodes[e.Code] != "" }

// OfSize reports that the server answered that the request asks too much of it at once: a smaller one may succeed, or the
// same one later. Nothing of it is under way any more, though some of it may be stored.
func (e *Error) OfSize() bool { return sizeCodes[e.Code] != "" }

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
