package clickhouse

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"auditor/embedded/clickhouse/chdb"
)

const (
	// maxStatement bounds the text of a statement without its data, in bytes.
	maxStatement = 4 << 20
	// maxBody bounds what one request may carry, in bytes, after decompression.
	maxBody = 1 << 30
)

// A request is an HTTP request read: a statement, its data, and what it asks of the connection.
type request struct {
	statement
	body       io.Reader // what follows an insert's data
	database   string
	queryID    string
	comment    string // the client's log_comment
	format     string
	settings   []setting
	parameters []chdb.Parameter
	readonly   bool
	revision   string // what the client would have Native answers encoded at
}

type setting struct{ name, value string }

var settingName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func readRequest(w http.ResponseWriter, r *http.Request) (*request, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, &exception{36, "BAD_ARGUMENTS", "the query string cannot be read: " + err.Error()}
	}
	result := &request{format: "TabSeparated", readonly: r.Method == http.MethodGet}
	if format := r.Header.Get("X-ClickHouse-Format"); format != "" {
		result.format = format
	}
	result.database = r.Header.Get("X-ClickHouse-Database")
	for name, list := range values {
		if err := result.parameter(name, list[len(list)-1]); err != nil {
			return nil, err
		}
	}
	// A map has no order, settings shall have one.
	slices.SortFunc(result.settings, func(a, b setting) int { return strings.Compare(a.name, b.name) })
	body, err := requestBody(w, r)
	if err != nil {
		return nil, err
	}
	return result, result.readStatement(values.Get("query"), body)
}

// parameter takes one parameter of the URL.
func (r *request) parameter(name, value string) error {
	switch name {
	case "query", "user", "password", "quota_key", "buffer_size", "stacktrace", "close_session":
	case "database":
		r.database = value
	case "default_format":
		r.format = value
	case "query_id":
		r.queryID = value
	case "log_comment":
		r.comment = value
	case "client_protocol_version":
		r.revision = value
	case "compress", "decompress":
		if value != "0" && value != "" {
			return unsupported("the parameter " + name + " (set the client's compression to none, or to gzip)")
		}
	case "wait_end_of_query", "session_id", "session_check", "session_timeout", "role":
		if value != "0" && value != "" {
			return unsupported("the parameter " + name)
		}
	default:
		if parameter, ok := strings.CutPrefix(name, "param_"); ok {
			r.parameters = append(r.parameters, chdb.Parameter{Name: parameter, Value: value})
			return nil
		}
		if !settingName.MatchString(name) {
			return &exception{115, "UNKNOWN_SETTING", fmt.Sprintf("Unknown setting %q", name)}
		}
		r.settings = append(r.settings, setting{name, value})
	}
	return nil
}

func unsupported(what string) error {
	return &exception{48, "NOT_IMPLEMENTED", "the embedded ClickHouse does not take " + what}
}

// requestBody gives the body as the client meant it, bounded.
func requestBody(w http.ResponseWriter, r *http.Request) (io.Reader, error) {
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
		return nil, unsupported("external tables")
	}
	body := http.MaxBytesReader(w, r.Body, maxBody)
	switch encoding := r.Header.Get("Content-Encoding"); encoding {
	case "", "identity":
		return body, nil
	case "gzip":
		plain, err := gzip.NewReader(body)
		if err != nil {
			return nil, &exception{354, "ZLIB_INFLATE_FAILED", "the body cannot be read: " + err.Error()}
		}
		return http.MaxBytesReader(w, io.NopCloser(plain), maxBody), nil
	default:
		return nil, unsupported("the content encoding " + encoding)
	}
}

// readStatement splits the statement from its data. It may stand in the URL, in the body, or begin in the one and go
// on in the other.
func (r *request) readStatement(query string, body io.Reader) error {
	if query != "" {
		query += "\n"
		split, err := splitStatement(query)
		if err != nil {
			return err
		}
		if split.kind == insert {
			r.statement, r.body = split, body
			return nil
		}
	}
	text, err := io.ReadAll(io.LimitReader(body, maxStatement+1))
	if err != nil {
		return fmt.Errorf("read the statement: %w", err)
	}
	split, err := splitStatement(query + string(text))
	if err != nil {
		return err
	}
	if len(text) > maxStatement && split.kind != insert {
		return &exception{62, "SYNTAX_ERROR", fmt.Sprintf("the statement is longer than %d bytes", maxStatement)}
	}
	r.statement, r.body = split, body
	return nil
}

// preamble is what the connection is told before the statement, each a statement of its own. The mark is how the
// statement is found by whoever wants it stopped.
func (r *request) preamble(mark string) []string {
	// Servers buffer small inserts by default, and then answer before a failure can be told.
	settings := slices.Concat([]setting{{"async_insert", "0"}}, r.settings, []setting{{"log_comment", mark}})
	var set strings.Builder
	for i, s := range settings {
		set.WriteString([]string{"SET ", ", "}[min(i, 1)])
		set.WriteString(s.name + " = " + quote(s.value))
	}
	result := []string{set.String()}
	if r.database != "" && r.database != "default" {
		result = append(result, "USE "+quoteName(r.database))
	}
	if r.readonly {
		result = append(result, "SET readonly = 2")
	}
	return result
}

var (
	textEscapes = strings.NewReplacer(`\`, `\\`, `'`, `\'`)
	nameEscapes = strings.NewReplacer(`\`, `\\`, "`", "\\`")
)

func quote(text string) string     { return "'" + textEscapes.Replace(text) + "'" }
func quoteName(name string) string { return "`" + nameEscapes.Replace(name) + "`" }
