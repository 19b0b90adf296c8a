package clickhouse_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"auditor/embedded/clickhouse"
	"auditor/embedded/clickhouse/chtest"
)

// browse gives a plain HTTP client of the engine's socket.
func browse(t *testing.T, engine *clickhouse.Engine) *http.Client {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return engine.Dial(ctx) }}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

type reply struct {
	status int
	code   string
	text   string
}

func send(t *testing.T, client *http.Client, method, parameters, body string, headers ...string) reply {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://engine/?"+parameters, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header.Get("X-ClickHouse-Exception-Code"), string(text)}
}

func TestHTTPQueries(t *testing.T) {
	client := browse(t, chtest.Start(t))
	database := "database=" + chtest.Database(t)
	query := func(sql string) string { return database + "&query=" + url.QueryEscape(sql) }
	zip := func(text string) string {
		var buffer bytes.Buffer
		writer := gzip.NewWriter(&buffer)
		_, _ = io.WriteString(writer, text)
		_ = writer.Close()
		return buffer.String()
	}
	for _, test := range []struct {
		name, method, parameters, body string
		header                         []string
		want                           reply
	}{
		{"query in the URL", "GET", query("SELECT 1, 'a'"), "", nil, reply{200, "", "1\ta\n"}},
		{"query in the body", "POST", database, "SELECT currentDatabase() != 'default'", nil, reply{200, "", "1\n"}},
		{"query in both", "POST", query("SELECT"), "2", nil, reply{200, "", "2\n"}},
		{"default format", "POST", database + "&default_format=JSONEachRow", "SELECT 1 AS x", nil, reply{200, "", "{\"x\":1}\n"}},
		{"format header", "POST", database, "SELECT 1", []string{"X-ClickHouse-Format", "CSVWithNames"}, reply{200, "", "\"1\"\n1\n"}},
		{"format in the query", "POST", database + "&default_format=Native", "SELECT 1, 2 FORMAT CSV", nil, reply{200, "", "1,2\n"}},
		{"parameter", "GET", query("SELECT {x:String}") + "&param_x=a%5Ctb", "", nil, reply{200, "", "a\\tb\n"}},
		{"setting", "GET", query("SELECT getSetting('max_result_rows')") + "&max_result_rows=77", "", nil, reply{200, "", "77\n"}},
		{"create by GET", "GET", query("CREATE TABLE x (n UInt64) ENGINE = Memory"), "", nil, reply{500, "164", "READONLY"}},
		{"create", "POST", query("CREATE TABLE t (n UInt64, s String) ENGINE = MergeTree ORDER BY n"), "", nil, reply{200, "", ""}},
		{"insert by GET", "GET", query("INSERT INTO t VALUES (0, '')"), "", nil, reply{500, "164", "READONLY"}},
		{"lines within the body", "POST", database, "INSERT INTO t FORMAT CSV\n1,a\n2,b\n3,\"c\nd\"\n", nil, reply{200, "", ""}},
		{"values within the body", "POST", database, "INSERT INTO t VALUES (4, 'e'), (5, 'f;\n')", nil, reply{200, "", ""}},
		{"lines after the URL", "POST", query("INSERT INTO t FORMAT TSV"), "6\tg\n7\th\n", nil, reply{200, "", ""}},
		{"zipped", "POST", query("INSERT INTO t FORMAT JSONEachRow"), zip(`{"n":8,"s":"i"}`), []string{"Content-Encoding", "gzip"}, reply{200, "", ""}},
		{"format from the URL", "POST", query("INSERT INTO t") + "&default_format=CSV", "9,j\n", nil, reply{200, "", ""}},
		{"insert select", "POST", database, "INSERT INTO t SELECT 10, 'k'", nil, reply{200, "", ""}},
		{"what is there now", "POST", database, "SELECT n, s FROM t ORDER BY n FORMAT CSV", nil,
			reply{200, "", "1,\"a\"\n2,\"b\"\n3,\"c\nd\"\n4,\"e\"\n5,\"f;\n\"\n6,\"g\"\n7,\"h\"\n8,\"i\"\n9,\"j\"\n10,\"k\"\n"}},
		{"no data", "POST", query("INSERT INTO t FORMAT Native"), "", nil, reply{400, "108", "No data to insert"}},
		{"broken data", "POST", query("INSERT INTO t FORMAT CSV"), "x,y,z\n", nil, reply{400, "27", "Cannot parse input"}},
		{"unknown table", "POST", database, "SELECT * FROM nowhere", nil, reply{404, "60", "UNKNOWN_TABLE"}},
		{"unknown format", "POST", database + "&default_format=Nothing", "SELECT 1", nil, reply{400, "73", "UNKNOWN_FORMAT"}},
		{"unknown database", "POST", "database=nowhere", "SELECT 1", nil, reply{404, "81", "UNKNOWN_DATABASE"}},
		{"two statements", "POST", database, "SELECT 1; SELECT 2", nil, reply{400, "62", "Multi-statements"}},
		{"compression", "POST", database + "&compress=1", "SELECT 1", nil, reply{501, "48", "compress"}},
		{"broken zip", "POST", database, "SELECT 1", []string{"Content-Encoding", "gzip"}, reply{400, "354", "cannot be read"}},
		{"other encoding", "POST", database, "SELECT 1", []string{"Content-Encoding", "br"}, reply{501, "48", "content encoding br"}},
		{"session", "POST", database + "&session_id=1", "SELECT 1", nil, reply{501, "48", "session_id"}},
		{"external table", "POST", database, "", []string{"Content-Type", "multipart/form-data; boundary=x"}, reply{501, "48", "external tables"}},
		{"infile", "POST", database, "INSERT INTO t FROM INFILE '/etc/passwd' FORMAT CSV", nil, reply{501, "48", "INFILE"}},
		{"too long", "POST", database, "SELECT " + strings.Repeat(" ", 5<<20) + "1", nil, reply{400, "62", "longer than"}},
		{"no path", "PUT", database, "SELECT 1", nil, reply{405, "", "GET or POST"}},
		{"nothing", "POST", database, "", nil, reply{400, "62", "Empty query"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := send(t, client, test.method, test.parameters, test.body, test.header...)
			same := got.text == test.want.text
			if test.want.status != http.StatusOK {
				same = strings.Contains(got.text, test.want.text)
			}
			if got.status != test.want.status || got.code != test.want.code || !same {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestHTTPInsertCutShort(t *testing.T) {
	engine := chtest.Start(t)
	client := browse(t, engine)
	database := chtest.Database(t)
	send(t, client, "POST", "database="+database, "CREATE TABLE t (n UInt64) ENGINE = MergeTree ORDER BY n")
	conn, err := engine.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(conn, "POST /?database="+database+"&query=INSERT+INTO+t+FORMAT+TSV HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n1\n2\n3\n")
	if err != nil {
		t.Fatal(err)
	}
	inserting := func() string {
		return send(t, client, "POST", "", "SELECT count() FROM system.processes WHERE current_database = '"+database+"'").text
	}
	within(t, "the insert runs", func() bool { return inserting() == "1\n" })
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	within(t, "the insert has gone", func() bool { return inserting() == "0\n" })
	if got := send(t, client, "POST", "database="+database, "SELECT count() FROM t"); got.text != "0\n" {
		t.Errorf("rows of an insert that never ended: %q", got.text)
	}
}

func TestPing(t *testing.T) {
	client := browse(t, chtest.Start(t))
	response, err := client.Get("http://engine/ping")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if text, err := io.ReadAll(response.Body); string(text) != "Ok.\n" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
