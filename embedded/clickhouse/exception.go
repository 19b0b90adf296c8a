package clickhouse

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"auditor/embedded/clickhouse/chdb"
)

// An exception is an error as ClickHouse writes it: what a client reads code and name from.
type exception struct {
	code int
	name string
	text string
}

func (e *exception) Error() string {
	return fmt.Sprintf("Code: %d. DB::Exception: %s. (%s)", e.code, strings.TrimRight(e.text, "."), e.name)
}

var engineCode = regexp.MustCompile(`^(?:Error: )?(Code: (\d+)\.[\s\S]*)$`)

// asException gives the code of an error, and its text with the code in front.
func asException(err error) (code int, text string) {
	if e, ok := errors.AsType[*exception](err); ok {
		return e.code, e.Error()
	}
	if e, ok := errors.AsType[*chdb.Error](err); ok {
		if match := engineCode.FindStringSubmatch(e.Text); match != nil {
			if code, err := strconv.Atoi(match[2]); err == nil && code > 0 {
				return code, strings.TrimSpace(match[1])
			}
		}
	}
	return 1001, (&exception{1001, "STD_EXCEPTION", err.Error()}).Error()
}

// status is the HTTP status that ClickHouse answers with for a code.
func status(code int) int {
	switch code {
	case 27, 36, 41, 46, 47, 53, 62, 63, 73, 108, 115, 117, 354:
		return http.StatusBadRequest
	case 60, 81:
		return http.StatusNotFound
	case 48:
		return http.StatusNotImplemented
	case 193, 194, 497, 516:
		return http.StatusForbidden
	case 202:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

const exceptionMarker = "__exception__"

// newExceptionTag gives what tells an exception in the middle of an answer from data that looks like one.
func newExceptionTag() string { return strings.ToLower(rand.Text()[:16]) }

// exceptionFrame is how ClickHouse ends an answer that failed after its status had gone out.
func exceptionFrame(tag, text string) string {
	const limit = 16 << 10
	if len(text) > limit {
		text = text[:limit]
	}
	text += "\n"
	return fmt.Sprintf("\r\n%s\r\n%s\r\n%s%d %s\r\n%s\r\n", exceptionMarker, tag, text, len(text), tag, exceptionMarker)
}
